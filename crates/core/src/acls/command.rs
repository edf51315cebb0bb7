//! The commands for ACLs, their replies, and the checks of a new ACL.

use super::filter::AclFilter;
use super::host::HostPattern;
use crate::effect::Ticket;
use ottla_types::acl::{Acl, CLUSTER_NAME, ResourceType};
use std::fmt;

/// Creates ACLs. Each is judged by itself; those that are legal are added in one atomic change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateAcls {
    /// The ACLs. One that exists already is created again without effect.
    pub acls: Vec<Acl>,
}

/// A result for each ACL, in order.
pub type CreateAclsReply = Vec<Result<(), AclError>>;

/// Deletes the ACLs that filters select, in one atomic change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteAcls {
    /// The filters.
    pub filters: Vec<AclFilter>,
}

/// The ACLs that each filter selected, in order. An ACL that two filters select is in both lists (S-215).
pub type DeleteAclsReply = Vec<Vec<Acl>>;

/// A command for ACLs, with the ticket of its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AclCommand {
    /// See [`CreateAcls`].
    CreateAcls(CreateAcls, Ticket<CreateAclsReply>),
    /// See [`DeleteAcls`].
    DeleteAcls(DeleteAcls, Ticket<DeleteAclsReply>),
}

/// Why an ACL is not legal (S-212).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AclError {
    /// The resource has no name.
    NoName,
    /// A resource of type cluster has another name than [`CLUSTER_NAME`].
    ClusterName(String),
    /// The principal is not `Type:name`.
    Principal(String),
    /// No address equals the host, and none lies in it.
    Host(String),
}

impl fmt::Display for AclError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AclError::NoName => f.write_str("the resource has no name"),
            AclError::ClusterName(name) => {
                write!(f, "the only name of a resource of type CLUSTER is {CLUSTER_NAME}, not '{name}'")
            }
            AclError::Principal(principal) => {
                write!(f, "the principal '{principal}' is not of the form Type:name")
            }
            AclError::Host(host) => {
                write!(
                    f,
                    "no client can have the host '{host}': give an IP address, a block address/bits, or *"
                )
            }
        }
    }
}

/// Checks the texts of a new ACL.
pub(super) fn check(acl: &Acl) -> Result<(), AclError> {
    if acl.resource_name.is_empty() {
        return Err(AclError::NoName);
    }
    if acl.resource_type == ResourceType::Cluster && acl.resource_name != CLUSTER_NAME {
        return Err(AclError::ClusterName(acl.resource_name.clone()));
    }
    if !acl.principal.contains(':') {
        return Err(AclError::Principal(acl.principal.clone()));
    }
    match HostPattern::parse(&acl.host) {
        HostPattern::Nothing => Err(AclError::Host(acl.host.clone())),
        HostPattern::Every | HostPattern::Address(_) | HostPattern::Block(..) => Ok(()),
    }
}
