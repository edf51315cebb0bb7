//! The records of access control.

use crate::acl::Acl;

/// A record of access control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AclRecord {
    /// ACLs were added and removed.
    AclsChanged(AclsChanged),
}

/// ACLs that were removed, then added, in one atomic change (S-216).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclsChanged {
    /// ACLs that no longer exist.
    pub removed: Vec<Acl>,
    /// ACLs that exist from here on.
    pub added: Vec<Acl>,
}
