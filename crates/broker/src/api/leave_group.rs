//! LeaveGroup 0-5: removes members at once; from version 3 on several in one request, and static members by their
//! instance id. Left out: the reason (version 5) is not kept.

use super::AnswerError;
use super::authorization::Verdict;
use super::group_member::member_code;
use super::subject::{Member, Reason};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::groups::{LeaveError, LeaveGroup, LeavingMember, MemberError};
use ottla_types::acl::Operation;
use ottla_wire::messages::leave_group_request::MemberIdentity;
use ottla_wire::messages::leave_group_response::MemberResponse;
use ottla_wire::messages::{LeaveGroupRequest, LeaveGroupResponse};
use ottla_wire::{ErrorCode, Text};

/// S-317: READ on the group.
pub(crate) fn authorize(
    request: &mut LeaveGroupRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<LeaveGroupResponse> {
    let allowed = rights.allows(Operation::Read, Resource::Group(&request.group_id));
    Verdict::when(allowed, || top_level(ErrorCode::GROUP_AUTHORIZATION_FAILED))
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: LeaveGroupRequest,
    version: i16,
) -> Result<LeaveGroupResponse, AnswerError> {
    let members = if version < 3 {
        vec![MemberIdentity { member_id: request.member_id, ..Default::default() }]
    } else {
        request.members
    };
    let leaving = members.iter().map(|member| LeavingMember {
        member_id: (&member.member_id).into(),
        instance_id: member.group_instance_id.as_ref().map(String::from),
    });
    let leaving = leaving.collect();
    let group = request.group_id.clone();
    let group_id = request.group_id.into();
    let results = match ctx.shards.of_group(&group).submit(LeaveGroup { group_id, members: leaving }).await? {
        Ok(results) => results,
        // As in Kafka, the error is on the members, not on the group.
        Err(LeaveError::UnknownGroup) => vec![Err(MemberError::Unknown); members.len()],
        Err(LeaveError::InvalidGroupId) => {
            let why = Reason(None, LeaveError::InvalidGroupId);
            ctx.refused(Member(&group, &Text::default()), ErrorCode::INVALID_GROUP_ID, &why);
            return Ok(top_level(ErrorCode::INVALID_GROUP_ID));
        }
    };
    let judge = |(result, member): (Result<(), MemberError>, &MemberIdentity)| {
        let Err(error) = result else { return ErrorCode::NONE };
        let code = member_code(error);
        ctx.refused(Member(&group, &member.member_id), code, &Reason(None, error));
        code
    };
    let codes: Vec<ErrorCode> = results.into_iter().zip(&members).map(judge).collect();
    Ok(each(members, codes.into_iter(), version))
}

fn top_level(error: ErrorCode) -> LeaveGroupResponse {
    LeaveGroupResponse { error_code: error.0, ..Default::default() }
}

/// The response. Before version 3 the result of the only member is the top-level error.
fn each(
    members: Vec<MemberIdentity>,
    mut codes: impl Iterator<Item = ErrorCode>,
    version: i16,
) -> LeaveGroupResponse {
    if version < 3 {
        return top_level(codes.next().unwrap_or(ErrorCode::NONE));
    }
    let members = members.into_iter().zip(codes).map(|(member, error)| MemberResponse {
        member_id: member.member_id,
        group_instance_id: member.group_instance_id,
        error_code: error.0,
        ..Default::default()
    });
    LeaveGroupResponse { members: members.collect(), ..Default::default() }
}
