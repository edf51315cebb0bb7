//! What can be seen of groups: DescribeGroups and ListGroups.

use super::group::{Group, State};
use bytes::Bytes;
use std::fmt;

/// The state of a group, as Kafka names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// No members.
    Empty,
    /// Members (re)join.
    PreparingRebalance,
    /// The leader's assignment is awaited.
    CompletingRebalance,
    /// Assigned.
    Stable,
}

impl GroupState {
    /// Kafka's name for it.
    pub fn name(self) -> &'static str {
        match self {
            GroupState::Empty => "Empty",
            GroupState::PreparingRebalance => "PreparingRebalance",
            GroupState::CompletingRebalance => "CompletingRebalance",
            GroupState::Stable => "Stable",
        }
    }
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A group as DescribeGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Its state.
    pub state: GroupState,
    /// Protocol type, empty if it never had one.
    pub protocol_type: String,
    /// The chosen protocol; empty unless the group is stable.
    pub protocol: String,
    /// Its members.
    pub members: Vec<MemberView>,
}

/// A member as DescribeGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Its id.
    pub member_id: String,
    /// Its static id, if any.
    pub instance_id: Option<String>,
    /// Client id of its connection.
    pub client_id: String,
    /// Address of its connection.
    pub client_host: String,
    /// Its metadata for the chosen protocol; empty unless the group is stable.
    pub metadata: Bytes,
    /// Its assignment.
    pub assignment: Bytes,
}

/// A group as ListGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupListing<'a> {
    /// The group.
    pub group_id: &'a str,
    /// Protocol type, empty if it never had one.
    pub protocol_type: &'a str,
    /// Its state.
    pub state: GroupState,
    /// How many members it has.
    pub members: usize,
}

impl Group {
    pub(super) fn state_view(&self) -> GroupState {
        match self.state {
            State::Empty => GroupState::Empty,
            State::Preparing(_) => GroupState::PreparingRebalance,
            State::Completing(_) => GroupState::CompletingRebalance,
            State::Stable(_) => GroupState::Stable,
        }
    }

    pub(super) fn listing(&self) -> GroupListing<'_> {
        GroupListing {
            group_id: &self.id,
            protocol_type: self.protocol_type.as_deref().unwrap_or_default(),
            state: self.state_view(),
            members: self.members.len(),
        }
    }

    pub(super) fn describe(&self) -> GroupView {
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
