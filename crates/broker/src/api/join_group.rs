//! JoinGroup 0-9: joins a group. The response waits until the next generation of the group is formed.
//! Left out: nothing.

use super::AnswerError;
use super::authorization::{GROUP_DENIED, Verdict};
use super::group_member::{kept, new_member_id};
use super::subject::Member;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::groups::{JoinError, JoinGroup, JoinRefusal, Membership};
use ottla_types::Millis;
use ottla_types::acl::Operation;
use ottla_wire::messages::join_group_response::JoinGroupResponseMember;
use ottla_wire::messages::{JoinGroupRequest, JoinGroupResponse};
use ottla_wire::{ErrorCode, Text};

/// S-317: READ on the group.
pub(crate) fn authorize(
    request: &mut JoinGroupRequest,
    rights: &Rights<'_>,
    version: i16,
) -> Verdict<JoinGroupResponse> {
    let allowed = rights.allows(Operation::Read, Resource::Group(&request.group_id));
    Verdict::when(allowed, || JoinGroupResponse {
        error_code: GROUP_DENIED,
        protocol_name: protocol_name(None, version),
        ..Default::default()
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: JoinGroupRequest,
    version: i16,
) -> Result<JoinGroupResponse, AnswerError> {
    let (group_id, member_id) = (request.group_id.clone(), request.member_id.clone());
    let who = request.group_instance_id.as_ref().unwrap_or(&session.client_id);
    let proposed_id = new_member_id(who, &ctx.randomness)?;
    let client_id = String::from(&session.client_id);
    let client_host = format!("/{}", session.peer.ip());
    let rebalance_timeout =
        if version == 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms };
    let protocols = request.protocols.iter();
    let join = JoinGroup {
        group_id: request.group_id.into(),
        member_id: request.member_id.into(),
        instance_id: request.group_instance_id.map(String::from),
        proposed_id,
        require_known_member: version >= 4,
        can_skip_assignment: version >= 9,
        client_id,
        client_host,
        session_timeout: Millis(request.session_timeout_ms.into()),
        rebalance_timeout: Millis(rebalance_timeout.into()),
        protocol_type: request.protocol_type.into(),
        protocols: protocols.map(|p| (String::from(&p.name), kept(&p.metadata))).collect(),
    };
    match ctx.shards.of_group(&join.group_id).submit(join).await? {
        Ok(joined) => Ok(joined_response(joined, version)),
        Err(refusal) => {
            ctx.refused(Member(&group_id, &member_id), code(refusal.error.error), &refusal.error);
            Ok(refused(refusal, version))
        }
    }
}

fn joined_response(joined: Membership, version: i16) -> JoinGroupResponse {
    let members = joined.members.into_iter().map(|member| JoinGroupResponseMember {
        member_id: member.member_id.into(),
        group_instance_id: member.instance_id.map(Text::from),
        metadata: member.metadata,
        ..Default::default()
    });
    JoinGroupResponse {
        generation_id: joined.generation,
        protocol_type: joined.protocol_type.map(Text::from),
        protocol_name: protocol_name(joined.protocol, version),
        leader: joined.leader.into(),
        skip_assignment: joined.skip_assignment,
        member_id: joined.member_id.into(),
        members: members.collect(),
        ..Default::default()
    }
}

fn refused(refusal: JoinRefusal, version: i16) -> JoinGroupResponse {
    JoinGroupResponse {
        error_code: code(refusal.error.error).0,
        protocol_name: protocol_name(None, version),
        member_id: refusal.member_id.into(),
        ..Default::default()
    }
}

/// The name of the protocol. Only version 7 and later may have null.
fn protocol_name(protocol: Option<String>, version: i16) -> Option<Text> {
    let none = (version < 7).then(Text::default);
    protocol.map(Text::from).or(none)
}

fn code(error: JoinError) -> ErrorCode {
    match error {
        JoinError::InvalidGroupId => ErrorCode::INVALID_GROUP_ID,
        JoinError::InvalidSessionTimeout => ErrorCode::INVALID_SESSION_TIMEOUT,
        JoinError::MemberIdRequired => ErrorCode::MEMBER_ID_REQUIRED,
        JoinError::GroupFull | JoinError::NoMemory => ErrorCode::GROUP_MAX_SIZE_REACHED,
        JoinError::InconsistentProtocol => ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
        JoinError::UnknownMember => ErrorCode::UNKNOWN_MEMBER_ID,
        JoinError::FencedInstance => ErrorCode::FENCED_INSTANCE_ID,
        JoinError::Superseded => ErrorCode::REBALANCE_IN_PROGRESS,
    }
}
