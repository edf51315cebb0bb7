//! DescribeGroups 0-6: groups with their members. A group that does not exist is Dead, and from version 6 on an error
//! too. Left out: nothing.

use super::authorization::{GROUP_DENIED, Verdict, take_denied};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::host::HostGone;
use crate::session::Session;
use ottla_core::groups::{GroupView, MemberView};
use ottla_types::acl::Operation;
use ottla_wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use ottla_wire::messages::{DescribeGroupsRequest, DescribeGroupsResponse};
use ottla_wire::{ErrorCode, Text};

/// S-318: DESCRIBE on each group.
pub(crate) fn authorize(
    request: &mut DescribeGroupsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<DescribeGroupsResponse> {
    let denied =
        take_denied(&mut request.groups, |group| rights.allows(Operation::Describe, Resource::Group(group)));
    Verdict::without(denied, |response: &mut DescribeGroupsResponse, denied| {
        let row = |group_id| DescribedGroup { group_id, error_code: GROUP_DENIED, ..Default::default() };
        response.groups.extend(denied.into_iter().map(row));
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: DescribeGroupsRequest,
    version: i16,
) -> Result<DescribeGroupsResponse, HostGone> {
    let groups = request.groups;
    let look = ctx.shards.groups().read(move |shard, _| {
        let see = |group_id: Text| {
            let found = shard.groups().describe(&group_id);
            (group_id, found)
        };
        groups.into_iter().map(see).collect::<Vec<_>>()
    });
    let shows_operations = request.include_authorized_operations;
    let operations = |group_id: &Text| ctx.rights(session).operations(Resource::Group(group_id));
    let groups = look.await?.into_iter().map(|(group_id, found)| match found {
        Some(group) => {
            let operations = shows_operations.then(|| operations(&group_id));
            present(group_id, group, operations)
        }
        None => {
            let operations = shows_operations.then(|| operations(&group_id));
            absent(group_id, version, operations)
        }
    });
    Ok(DescribeGroupsResponse { groups: groups.collect(), ..Default::default() })
}

fn present(group_id: Text, group: GroupView, operations: Option<i32>) -> DescribedGroup {
    let described = DescribedGroup {
        group_id,
        group_state: Text::from_static(group.state.name()),
        protocol_type: group.protocol_type.into(),
        protocol_data: group.protocol.into(),
        members: group.members.into_iter().map(member).collect(),
        ..Default::default()
    };
    match operations {
        Some(authorized_operations) => DescribedGroup { authorized_operations, ..described },
        None => described,
    }
}

fn member(member: MemberView) -> DescribedGroupMember {
    DescribedGroupMember {
        member_id: member.member_id.into(),
        group_instance_id: member.instance_id.map(Text::from),
        client_id: member.client_id.into(),
        client_host: member.client_host.into(),
        member_metadata: member.metadata,
        member_assignment: member.assignment,
        ..Default::default()
    }
}

fn absent(group_id: Text, version: i16, operations: Option<i32>) -> DescribedGroup {
    let dead = DescribedGroup { group_state: Text::from_static("Dead"), ..Default::default() };
    if version < 6 {
        // Before version 6 it is no error, so the operations are shown too.
        let authorized_operations = operations.unwrap_or(dead.authorized_operations);
        return DescribedGroup { group_id, authorized_operations, ..dead };
    }
    let why = format!("there is no group '{group_id}'");
    let error_code = ErrorCode::GROUP_ID_NOT_FOUND.0;
    DescribedGroup { group_id, error_code, error_message: Some(why.into()), ..dead }
}
