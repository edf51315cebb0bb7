//! The records of consumer groups: for each kind of group its own, and the end of a group.

use crate::Millis;
use bytes::Bytes;

/// A record of a group. Each kind of group adds its own variants; a group id belongs to one kind at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRecord {
    /// The durable state of a classic group was replaced: a generation is complete, or the group has become empty.
    ClassicUpdated(ClassicGroupUpdated),
    /// A group of any kind was deleted, with its committed and staged offsets (T-188).
    Deleted(GroupDeleted),
}

/// A classic group's durable state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicGroupUpdated {
    /// The group.
    pub group_id: String,
    /// Generation number; 0 before the first.
    pub generation: i32,
    /// Protocol type ("consumer", "connect" …), none before the first join.
    pub protocol_type: Option<String>,
    /// The chosen protocol (assignor), none if the group is empty.
    pub protocol: Option<String>,
    /// Member id of the leader, none if the group is empty.
    pub leader: Option<String>,
    /// The members of the generation.
    pub members: Vec<ClassicMember>,
    /// When.
    pub at: Millis,
}

/// A member of a completed generation of a classic group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicMember {
    /// Member id.
    pub member_id: String,
    /// Static id (KIP-345), if any.
    pub instance_id: Option<String>,
    /// Client id of its connection.
    pub client_id: String,
    /// Address of its connection.
    pub client_host: String,
    /// Rebalance timeout in milliseconds.
    pub rebalance_timeout: Millis,
    /// Session timeout in milliseconds.
    pub session_timeout: Millis,
    /// Protocols it supports, in its order of preference, each with its metadata.
    pub protocols: Vec<(String, Bytes)>,
    /// What the leader assigned to it.
    pub assignment: Bytes,
}

/// A deleted group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDeleted {
    /// The group.
    pub group_id: String,
}
