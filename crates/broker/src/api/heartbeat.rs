//! Heartbeat 0-4: extends the session of a group member.
//! Left out: nothing.

use super::AnswerError;
use super::authorization::{GROUP_DENIED, Verdict};
use super::group_member::member_ref;
use super::subject::Member;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::groups::{Heartbeat, HeartbeatError};
use ottla_types::acl::Operation;
use ottla_wire::ErrorCode;
use ottla_wire::messages::{HeartbeatRequest, HeartbeatResponse};

/// S-317: READ on the group.
pub(crate) fn authorize(
    request: &mut HeartbeatRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<HeartbeatResponse> {
    let allowed = rights.allows(Operation::Read, Resource::Group(&request.group_id));
    Verdict::when(allowed, || HeartbeatResponse { error_code: GROUP_DENIED, ..Default::default() })
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: HeartbeatRequest,
    _version: i16,
) -> Result<HeartbeatResponse, AnswerError> {
    let instance_id = request.group_instance_id.as_ref();
    let member = member_ref(&request.group_id, request.generation_id, &request.member_id, instance_id);
    let result = ctx.shards.of_group(&member.group_id).submit(Heartbeat { member }).await?;
    let Err(refusal) = result else { return Ok(HeartbeatResponse::default()) };
    let code = code(refusal.error);
    ctx.refused(Member(&request.group_id, &request.member_id), code, &refusal);
    Ok(HeartbeatResponse { error_code: code.0, ..Default::default() })
}

fn code(error: HeartbeatError) -> ErrorCode {
    match error {
        HeartbeatError::InvalidGroupId => ErrorCode::INVALID_GROUP_ID,
        HeartbeatError::UnknownMember => ErrorCode::UNKNOWN_MEMBER_ID,
        HeartbeatError::FencedInstance => ErrorCode::FENCED_INSTANCE_ID,
        HeartbeatError::IllegalGeneration => ErrorCode::ILLEGAL_GENERATION,
        HeartbeatError::RebalanceInProgress => ErrorCode::REBALANCE_IN_PROGRESS,
    }
}
