//! DescribeAcls 1-3: the ACLs that a filter selects. Without an authorizer SECURITY_DISABLED.

use super::acl_rows::{self, FilterError, NO_AUTHORIZER};
use super::authorization::Verdict;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::host::HostGone;
use crate::session::Session;
use ottla_types::acl::{Acl, Operation};
use ottla_wire::messages::describe_acls_response::{AclDescription, DescribeAclsResource};
use ottla_wire::messages::{DescribeAclsRequest, DescribeAclsResponse};
use ottla_wire::{ErrorCode, Text};

/// S-334: DESCRIBE on the cluster.
pub(crate) fn authorize(
    _request: &mut DescribeAclsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<DescribeAclsResponse> {
    let code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    Verdict::when(rights.allows(Operation::Describe, Resource::Cluster), || refused(code, code.meaning()))
}

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: DescribeAclsRequest,
    _version: i16,
) -> Result<DescribeAclsResponse, HostGone> {
    if ctx.rights(session).is_unlimited() {
        return Ok(refused(ErrorCode::SECURITY_DISABLED, NO_AUTHORIZER));
    }
    let filter = acl_rows::filter(&acl_rows::FilterFields {
        resource_type: request.resource_type_filter,
        resource_name: request.resource_name_filter.as_ref(),
        pattern_type: request.pattern_type_filter,
        principal: request.principal_filter.as_ref(),
        host: request.host_filter.as_ref(),
        operation: request.operation,
        permission: request.permission_type,
    });
    let filter = match filter {
        Ok(filter) => filter,
        // No ACL has a number that is not defined yet.
        Err(FilterError::Undefined(_)) => return Ok(found(Vec::new())),
        Err(error @ FilterError::Unknown(_)) => {
            return Ok(refused(ErrorCode::INVALID_REQUEST, &error.to_string()));
        }
    };
    let look = ctx
        .shards
        .catalog()
        .read(move |shard, _| shard.acls().matching(&filter).cloned().collect::<Vec<Acl>>());
    Ok(found(look.await?))
}

/// The ACLs by resource pattern. They are sorted by it.
fn found(acls: Vec<Acl>) -> DescribeAclsResponse {
    let mut resources: Vec<DescribeAclsResource> = Vec::new();
    for acl in acls {
        let (resource_type, pattern_type) = acl_rows::resource_numbers(&acl);
        let same = resources.last().is_some_and(|last| {
            (last.resource_type, last.pattern_type) == (resource_type, pattern_type)
                && *last.resource_name == *acl.resource_name
        });
        if !same {
            let resource_name = acl.resource_name.as_str().into();
            resources.push(DescribeAclsResource {
                resource_type,
                resource_name,
                pattern_type,
                ..Default::default()
            });
        }
        let (operation, permission_type) = acl_rows::operation_numbers(&acl);
        if let Some(resource) = resources.last_mut() {
            resource.acls.push(AclDescription {
                principal: acl.principal.into(),
                host: acl.host.into(),
                operation,
                permission_type,
                ..Default::default()
            });
        }
    }
    DescribeAclsResponse { resources, ..Default::default() }
}

fn refused(code: ErrorCode, why: &str) -> DescribeAclsResponse {
    DescribeAclsResponse { error_code: code.0, error_message: Some(Text::from(why)), ..Default::default() }
}
