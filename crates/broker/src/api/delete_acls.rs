//! DeleteAcls 1-3: deletes the ACLs that filters select, in one atomic change. Without an authorizer SECURITY_DISABLED.

use super::AnswerError;
use super::acl_rows::{self, NO_AUTHORIZER};
use super::authorization::Verdict;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::acls::DeleteAcls;
use ottla_types::acl::{Acl, Operation};
use ottla_wire::messages::delete_acls_request::DeleteAclsFilter;
use ottla_wire::messages::delete_acls_response::{DeleteAclsFilterResult, DeleteAclsMatchingAcl};
use ottla_wire::messages::{DeleteAclsRequest, DeleteAclsResponse};
use ottla_wire::{ErrorCode, Text};

/// S-335: ALTER on the cluster.
pub(crate) fn authorize(
    request: &mut DeleteAclsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<DeleteAclsResponse> {
    let code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    let allowed = rights.allows(Operation::Alter, Resource::Cluster);
    Verdict::when(allowed, || all_refused(request, code, code.meaning()))
}

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: DeleteAclsRequest,
    _version: i16,
) -> Result<DeleteAclsResponse, AnswerError> {
    if ctx.rights(session).is_unlimited() {
        return Ok(all_refused(&request, ErrorCode::SECURITY_DISABLED, NO_AUTHORIZER));
    }
    let read: Vec<_> = request.filters.iter().map(filter).collect();
    let filters = read.iter().filter_map(|filter| filter.as_ref().ok().cloned()).collect();
    let mut deleted = ctx.shards.catalog().submit(DeleteAcls { filters }).await?.into_iter();
    let filter_results = read.into_iter().map(|filter| match filter {
        Err(error) => refused(ErrorCode::INVALID_REQUEST, &error.to_string()),
        Ok(_) => {
            let acls = deleted.next().unwrap_or_default();
            for acl in &acls {
                tracing::info!(principal = session.principal(), host = %session.host(), %acl, "an ACL is deleted");
            }
            let matching_acls = acls.into_iter().map(row).collect();
            DeleteAclsFilterResult { error_message: None, matching_acls, ..Default::default() }
        }
    });
    Ok(DeleteAclsResponse { filter_results: filter_results.collect(), ..Default::default() })
}

fn filter(given: &DeleteAclsFilter) -> Result<ottla_core::acls::AclFilter, acl_rows::FilterError> {
    acl_rows::filter(&acl_rows::FilterFields {
        resource_type: given.resource_type_filter,
        resource_name: given.resource_name_filter.as_ref(),
        pattern_type: given.pattern_type_filter,
        principal: given.principal_filter.as_ref(),
        host: given.host_filter.as_ref(),
        operation: given.operation,
        permission: given.permission_type,
    })
}

fn row(acl: Acl) -> DeleteAclsMatchingAcl {
    let (resource_type, pattern_type) = acl_rows::resource_numbers(&acl);
    let (operation, permission_type) = acl_rows::operation_numbers(&acl);
    DeleteAclsMatchingAcl {
        error_message: None,
        resource_type,
        resource_name: acl.resource_name.into(),
        pattern_type,
        principal: acl.principal.into(),
        host: acl.host.into(),
        operation,
        permission_type,
        ..Default::default()
    }
}

fn refused(code: ErrorCode, why: &str) -> DeleteAclsFilterResult {
    DeleteAclsFilterResult { error_code: code.0, error_message: Some(Text::from(why)), ..Default::default() }
}

fn all_refused(request: &DeleteAclsRequest, code: ErrorCode, why: &str) -> DeleteAclsResponse {
    let filter_results = request.filters.iter().map(|_| refused(code, why)).collect();
    DeleteAclsResponse { filter_results, ..Default::default() }
}
