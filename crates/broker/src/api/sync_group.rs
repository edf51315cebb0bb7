//! SyncGroup 0-5: gives a member its assignment. The response waits until the leader has sent the assignments.
//! Left out: nothing.

use super::AnswerError;
use super::authorization::Verdict;
use super::group_member::{kept, member_ref};
use super::subject::{Member, Reason};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::groups::{SyncError, SyncGroup};
use ottla_types::acl::Operation;
use ottla_wire::messages::{SyncGroupRequest, SyncGroupResponse};
use ottla_wire::{ErrorCode, Text};

/// S-317: READ on the group. A request of version 5 or later without its protocol is refused for that first.
pub(crate) fn authorize(
    request: &mut SyncGroupRequest,
    rights: &Rights<'_>,
    version: i16,
) -> Verdict<SyncGroupResponse> {
    if version >= 5 && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return Verdict::Allowed;
    }
    let allowed = rights.allows(Operation::Read, Resource::Group(&request.group_id));
    Verdict::when(allowed, || refused(ErrorCode::GROUP_AUTHORIZATION_FAILED))
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: SyncGroupRequest,
    version: i16,
) -> Result<SyncGroupResponse, AnswerError> {
    // From version 5 on the client must name the protocol type and the protocol that it expects (KIP-559).
    if version >= 5 && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        let code = ErrorCode::INCONSISTENT_GROUP_PROTOCOL;
        let why = Reason(None, "from version 5 on, protocol type and protocol have to be given");
        ctx.refused(Member(&request.group_id, &request.member_id), code, &why);
        return Ok(refused(code));
    }
    let (group_id, member_id) = (request.group_id.clone(), request.member_id.clone());
    let assignments = request.assignments.iter();
    let sync = SyncGroup {
        member: member_ref(
            &request.group_id,
            request.generation_id,
            &request.member_id,
            request.group_instance_id.as_ref(),
        ),
        protocol_type: request.protocol_type.map(String::from),
        protocol: request.protocol_name.map(String::from),
        assignments: assignments.map(|a| (String::from(&a.member_id), kept(&a.assignment))).collect(),
    };
    match ctx.shards.of_group(&sync.member.group_id).submit(sync).await? {
        Ok(synced) => Ok(SyncGroupResponse {
            protocol_type: synced.protocol_type.map(Text::from),
            protocol_name: synced.protocol.map(Text::from),
            assignment: synced.assignment,
            ..Default::default()
        }),
        Err(refusal) => {
            let code = code(refusal.error);
            ctx.refused(Member(&group_id, &member_id), code, &refusal);
            Ok(refused(code))
        }
    }
}

fn refused(error: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse { error_code: error.0, ..Default::default() }
}

fn code(error: SyncError) -> ErrorCode {
    match error {
        SyncError::InvalidGroupId => ErrorCode::INVALID_GROUP_ID,
        SyncError::UnknownMember => ErrorCode::UNKNOWN_MEMBER_ID,
        SyncError::FencedInstance => ErrorCode::FENCED_INSTANCE_ID,
        SyncError::IllegalGeneration => ErrorCode::ILLEGAL_GENERATION,
        SyncError::InconsistentProtocol => ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
        SyncError::NoMemory => ErrorCode::GROUP_MAX_SIZE_REACHED,
        SyncError::RebalanceInProgress | SyncError::Superseded => ErrorCode::REBALANCE_IN_PROGRESS,
    }
}
