//! What can be seen of groups: DescribeGroups and ListGroups.

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
