//! What DescribeGroups and ListGroups show of a classic group.

use super::{ClassicGroup, State};
use crate::groups::view::{GroupListing, GroupState, GroupView, MemberView};

impl ClassicGroup {
    pub(super) fn state_view(&self) -> GroupState {
        match self.state {
            State::Empty => GroupState::Empty,
            State::Preparing(_) => GroupState::PreparingRebalance,
            State::Completing(_) => GroupState::CompletingRebalance,
            State::Stable(_) => GroupState::Stable,
        }
    }

    pub(in crate::groups) fn listing(&self) -> GroupListing<'_> {
        GroupListing {
            group_id: &self.id,
            protocol_type: self.protocol_type.as_deref().unwrap_or_default(),
            state: self.state_view(),
            members: self.members.len(),
        }
    }

    pub(in crate::groups) fn describe(&self) -> GroupView {
        let stable = matches!(self.state, State::Stable(_));
        let protocol = self.protocol.clone().filter(|_| stable).unwrap_or_default();
        let members = self.members.values().map(|member| MemberView {
            member_id: member.facts.member_id.clone(),
            instance_id: member.facts.instance_id.clone(),
            client_id: member.facts.client_id.clone(),
            client_host: member.facts.client_host.clone(),
            metadata: member.metadata(&protocol),
            assignment: member.facts.assignment.clone(),
        });
        let members = members.collect();
        let protocol_type = self.protocol_type.clone().unwrap_or_default();
        GroupView { state: self.state_view(), protocol_type, protocol, members }
    }
}
