//! CreateAcls 1-3: creates ACLs, each judged by itself. Without an authorizer SECURITY_DISABLED.

use super::AnswerError;
use super::acl_rows::{NO_AUTHORIZER, number};
use super::authorization::Verdict;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::acls::CreateAcls;
use ottla_types::acl::{Acl, Operation, PatternType, Permission, ResourceType};
use ottla_wire::messages::create_acls_request::AclCreation;
use ottla_wire::messages::create_acls_response::AclCreationResult;
use ottla_wire::messages::{CreateAclsRequest, CreateAclsResponse};
use ottla_wire::{ErrorCode, Text};

/// S-335: ALTER on the cluster.
pub(crate) fn authorize(
    request: &mut CreateAclsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<CreateAclsResponse> {
    let code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    let allowed = rights.allows(Operation::Alter, Resource::Cluster);
    Verdict::when(allowed, || all_refused(request, code, code.meaning()))
}

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: CreateAclsRequest,
    _version: i16,
) -> Result<CreateAclsResponse, AnswerError> {
    if ctx.rights(session).is_unlimited() {
        return Ok(all_refused(&request, ErrorCode::SECURITY_DISABLED, NO_AUTHORIZER));
    }
    let read: Vec<Result<Acl, String>> = request.creations.into_iter().map(acl).collect();
    let acls: Vec<Acl> = read.iter().filter_map(|acl| acl.as_ref().ok().cloned()).collect();
    let mut judged = ctx.shards.catalog().submit(CreateAcls { acls }).await?.into_iter();
    let results = read.into_iter().map(|acl| match acl {
        Err(why) => row(ErrorCode::INVALID_REQUEST, &why),
        Ok(acl) => match judged.next() {
            Some(Ok(())) => {
                tracing::info!(principal = session.principal(), host = %session.host(), %acl, "an ACL is created");
                row(ErrorCode::NONE, "")
            }
            Some(Err(error)) => row(ErrorCode::INVALID_REQUEST, &error.to_string()),
            None => row(ErrorCode::UNKNOWN_SERVER_ERROR, "the ACL was not judged"),
        },
    });
    Ok(CreateAclsResponse { results: results.collect(), ..Default::default() })
}

/// The ACL of a row, or which of its fields no ACL can have (S-212, S-213).
fn acl(creation: AclCreation) -> Result<Acl, String> {
    let unknown = |field: &str| format!("an ACL cannot have this {field}");
    let resource_type = number(creation.resource_type, ResourceType::from_number);
    let pattern_type = number(creation.resource_pattern_type, PatternType::from_number);
    let operation = number(creation.operation, Operation::from_number);
    let permission = number(creation.permission_type, Permission::from_number);
    Ok(Acl {
        resource_type: resource_type.ok_or_else(|| unknown("resource type"))?,
        pattern_type: pattern_type.ok_or_else(|| unknown("pattern type"))?,
        resource_name: creation.resource_name.into(),
        principal: creation.principal.into(),
        host: creation.host.into(),
        operation: operation.ok_or_else(|| unknown("operation"))?,
        permission: permission.ok_or_else(|| unknown("permission type"))?,
    })
}

fn row(code: ErrorCode, why: &str) -> AclCreationResult {
    AclCreationResult { error_code: code.0, error_message: Some(Text::from(why)), ..Default::default() }
}

fn all_refused(request: &CreateAclsRequest, code: ErrorCode, why: &str) -> CreateAclsResponse {
    let results = request.creations.iter().map(|_| row(code, why)).collect();
    CreateAclsResponse { results, ..Default::default() }
}
