//! DeleteGroups 0-3: deletes groups without members, with their offsets.
//! Left out: nothing.

use super::AnswerError;
use super::authorization::{GROUP_DENIED, Verdict, take_denied};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::groups::{DeleteGroupError, DeleteGroups};
use ottla_types::acl::Operation;
use ottla_wire::messages::delete_groups_response::DeletableGroupResult;
use ottla_wire::messages::{DeleteGroupsRequest, DeleteGroupsResponse};
use ottla_wire::{ErrorCode, Text};

/// S-343: DELETE on each group.
pub(crate) fn authorize(
    request: &mut DeleteGroupsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<DeleteGroupsResponse> {
    let denied = take_denied(&mut request.groups_names, |group| {
        rights.allows(Operation::Delete, Resource::Group(group))
    });
    Verdict::without(denied, |response: &mut DeleteGroupsResponse, denied| {
        let row =
            |group_id| DeletableGroupResult { group_id, error_code: GROUP_DENIED, ..Default::default() };
        response.results.extend(denied.into_iter().map(row));
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: DeleteGroupsRequest,
    version: i16,
) -> Result<DeleteGroupsResponse, AnswerError> {
    let groups = request.groups_names.iter().map(String::from).collect();
    let results = ctx.shards.groups().submit(DeleteGroups { groups }).await?;
    let results = request.groups_names.into_iter().zip(results).map(|(group_id, result)| {
        let Err(error) = result else {
            return DeletableGroupResult { group_id, ..Default::default() };
        };
        let (code, why) = explain(error);
        DeletableGroupResult {
            group_id,
            error_code: code.0,
            error_message: (version >= 3).then(|| Text::from_static(why)),
            ..Default::default()
        }
    });
    Ok(DeleteGroupsResponse { results: results.collect(), ..Default::default() })
}

fn explain(error: DeleteGroupError) -> (ErrorCode, &'static str) {
    match error {
        DeleteGroupError::NotFound => (ErrorCode::GROUP_ID_NOT_FOUND, "there is no such group"),
        DeleteGroupError::NotEmpty => {
            (ErrorCode::NON_EMPTY_GROUP, "the group has members; they have to leave first")
        }
    }
}
