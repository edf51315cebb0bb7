//! The commands for groups, their replies, and why they are refused.

use crate::effect::Ticket;
use crate::refusal::{Facts, Rejection, words};
use bytes::Bytes;
use ottla_types::Millis;
use std::fmt::{self, Display};

/// Joins a group, or rejoins it (JoinGroup).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinGroup {
    /// The group.
    pub group_id: String,
    /// The member's id; empty if it has none yet.
    pub member_id: String,
    /// Static id (KIP-345), if any.
    pub instance_id: Option<String>,
    /// The id the member gets if it has none: client id or static id, a dash, and a random part drawn by the host.
    pub proposed_id: String,
    /// True if a member without an id has to join again with the proposed one (version 4 and up, KIP-394).
    pub require_known_member: bool,
    /// True if the client understands that a leader need not assign (version 9 and up, KIP-814).
    pub can_skip_assignment: bool,
    /// Client id of its connection.
    pub client_id: String,
    /// Address of its connection.
    pub client_host: String,
    /// How long the member may stay silent.
    pub session_timeout: Millis,
    /// How long it may take to rejoin; version 0 gives its session timeout here.
    pub rebalance_timeout: Millis,
    /// Protocol type ("consumer", "connect" …).
    pub protocol_type: String,
    /// Protocols it supports, in its order of preference, each with its metadata.
    pub protocols: Vec<(String, Bytes)>,
}

/// Fetches a member's assignment; the leader sends those of all members (SyncGroup).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncGroup {
    /// Which member, in which generation.
    pub member: MemberRef,
    /// Protocol type as the client knows it, from version 5 on.
    pub protocol_type: Option<String>,
    /// Chosen protocol as the client knows it, from version 5 on.
    pub protocol: Option<String>,
    /// Assignments by member id, from the leader.
    pub assignments: Vec<(String, Bytes)>,
}

/// Says that a member is alive (Heartbeat).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Which member, in which generation.
    pub member: MemberRef,
}

/// A member, as it presents itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRef {
    /// The group.
    pub group_id: String,
    /// Generation it believes in; negative for none.
    pub generation: i32,
    /// Its member id; empty for none.
    pub member_id: String,
    /// Its static id, if any.
    pub instance_id: Option<String>,
}

/// Takes members out of a group (LeaveGroup).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveGroup {
    /// The group.
    pub group_id: String,
    /// Who leaves; versions before 3 name one member and no static id.
    pub members: Vec<LeavingMember>,
}

/// One member that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavingMember {
    /// Its member id; empty if it is named by its static id alone.
    pub member_id: String,
    /// Its static id, if any.
    pub instance_id: Option<String>,
}

/// Deletes groups with their offsets (DeleteGroups).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteGroups {
    /// The groups, each judged by itself.
    pub groups: Vec<String>,
}

/// A command for groups, with the ticket of its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupCommand {
    /// See [`JoinGroup`].
    JoinGroup(JoinGroup, Ticket<JoinGroupReply>),
    /// See [`SyncGroup`].
    SyncGroup(SyncGroup, Ticket<SyncGroupReply>),
    /// See [`Heartbeat`].
    Heartbeat(Heartbeat, Ticket<HeartbeatReply>),
    /// See [`LeaveGroup`].
    LeaveGroup(LeaveGroup, Ticket<LeaveGroupReply>),
    /// See [`DeleteGroups`].
    DeleteGroups(DeleteGroups, Ticket<DeleteGroupsReply>),
}

/// The reply to [`JoinGroup`], when the member's generation is formed.
pub type JoinGroupReply = Result<Membership, JoinRefusal>;
/// The reply to [`SyncGroup`], when the generation has its assignment.
pub type SyncGroupReply = Result<Assignment, Rejection<SyncError>>;
/// The reply to [`Heartbeat`].
pub type HeartbeatReply = Result<(), Rejection<HeartbeatError>>;
/// A result for each member of [`LeaveGroup`], in order.
pub type LeaveGroupReply = Result<Vec<Result<(), MemberError>>, LeaveError>;
/// A result for each group of [`DeleteGroups`], in order.
pub type DeleteGroupsReply = Vec<Result<(), DeleteGroupError>>;

/// A member's place in a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The generation.
    pub generation: i32,
    /// Protocol type of the group.
    pub protocol_type: Option<String>,
    /// The chosen protocol.
    pub protocol: Option<String>,
    /// Member id of the leader.
    pub leader: String,
    /// The member's id.
    pub member_id: String,
    /// True if this leader need not assign: the assignment stands (KIP-814).
    pub skip_assignment: bool,
    /// All members, for the leader only.
    pub members: Vec<JoinedMember>,
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Its id.
    pub member_id: String,
    /// Its static id, if any.
    pub instance_id: Option<String>,
    /// Its metadata for the chosen protocol.
    pub metadata: Bytes,
}

/// Why a member did not join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRefusal {
    /// The member id to show, or empty.
    pub member_id: String,
    /// The reason.
    pub error: Rejection<JoinError>,
}

/// Reasons not to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// The group id is empty.
    InvalidGroupId,
    /// The session timeout is out of the broker's bounds.
    InvalidSessionTimeout,
    /// The client must join again with the member id in the answer (KIP-394).
    MemberIdRequired,
    /// The group has as many members as it may have.
    GroupFull,
    /// The protocol type differs from the group's, or no protocol is supported by all members.
    InconsistentProtocol,
    /// The group does not know this member; join without a member id.
    UnknownMember,
    /// Another member took over this static id.
    FencedInstance,
    /// The same member sent a newer request.
    Superseded,
    /// The metadata of the members of all groups takes as much memory as it may.
    NoMemory,
}

/// A member's assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Protocol type of the group.
    pub protocol_type: Option<String>,
    /// The chosen protocol.
    pub protocol: Option<String>,
    /// What the leader assigned.
    pub assignment: Bytes,
}

/// Reasons not to get an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncError {
    /// The group id is empty.
    InvalidGroupId,
    /// The group does not know this member.
    UnknownMember,
    /// Another member took over this static id.
    FencedInstance,
    /// The member believes in another generation.
    IllegalGeneration,
    /// Protocol type or protocol differ from the group's.
    InconsistentProtocol,
    /// A new generation is being formed: rejoin.
    RebalanceInProgress,
    /// The same member sent a newer request.
    Superseded,
    /// What the members of all groups are assigned takes as much memory as it may.
    NoMemory,
}

/// Why a heartbeat is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatError {
    /// The group id is empty.
    InvalidGroupId,
    /// The group does not know this member.
    UnknownMember,
    /// Another member took over this static id.
    FencedInstance,
    /// The member believes in another generation.
    IllegalGeneration,
    /// A new generation is being formed: rejoin. The member counts as alive.
    RebalanceInProgress,
}

/// Why no member could leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveError {
    /// The group id is empty.
    InvalidGroupId,
    /// There is no such group.
    UnknownGroup,
}

/// Why a member is not who it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberError {
    /// The group does not know this member.
    Unknown,
    /// Another member took over this static id.
    Fenced,
}

/// Why a group was not deleted (T-188).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteGroupError {
    /// There is no such group.
    NotFound,
    /// It has members.
    NotEmpty,
}

words! { JoinError:
    JoinError::NoMemory => "what all groups keep of their members takes as many bytes as it may",
    JoinError::InvalidGroupId => "the group id is empty",
    JoinError::InvalidSessionTimeout => "no session timeout that the broker allows, in milliseconds",
    JoinError::MemberIdRequired => "come back with the member id in the answer",
    JoinError::GroupFull => "the group has as many members as it may have",
    JoinError::InconsistentProtocol => {
        "the protocol type is not the group's, or no protocol is supported by all its members"
    },
    JoinError::UnknownMember => "the group does not know the member",
    JoinError::FencedInstance => "another member has taken over the static id",
    JoinError::Superseded => "the same member sent a newer request",
}

words! { SyncError:
    SyncError::NoMemory => "what all groups keep of their members takes as many bytes as it may",
    SyncError::InvalidGroupId => "the group id is empty",
    SyncError::UnknownMember => "the group does not know the member",
    SyncError::FencedInstance => "another member has taken over the static id",
    SyncError::IllegalGeneration => "not the group's generation",
    SyncError::InconsistentProtocol => "protocol type or protocol are not the group's",
    SyncError::RebalanceInProgress => "a new generation is being formed, the member has to rejoin",
    SyncError::Superseded => "the same member sent a newer request",
}

words! { HeartbeatError:
    HeartbeatError::InvalidGroupId => "the group id is empty",
    HeartbeatError::UnknownMember => "the group does not know the member",
    HeartbeatError::FencedInstance => "another member has taken over the static id",
    HeartbeatError::IllegalGeneration => "not the group's generation",
    HeartbeatError::RebalanceInProgress => "a new generation is being formed, the member has to rejoin",
}

words! { LeaveError:
    LeaveError::InvalidGroupId => "the group id is empty",
    LeaveError::UnknownGroup => "there is no such group",
}

words! { MemberError:
    MemberError::Unknown => "the group does not know the member",
    MemberError::Fenced => "another member has taken over the static id",
}

impl From<MemberError> for JoinError {
    fn from(error: MemberError) -> JoinError {
        match error {
            MemberError::Unknown => JoinError::UnknownMember,
            MemberError::Fenced => JoinError::FencedInstance,
        }
    }
}

impl From<MemberError> for Rejection<SyncError> {
    fn from(error: MemberError) -> Rejection<SyncError> {
        match error {
            MemberError::Unknown => SyncError::UnknownMember.into(),
            MemberError::Fenced => SyncError::FencedInstance.into(),
        }
    }
}

impl From<MemberError> for Rejection<HeartbeatError> {
    fn from(error: MemberError) -> Rejection<HeartbeatError> {
        match error {
            MemberError::Unknown => HeartbeatError::UnknownMember.into(),
            MemberError::Fenced => HeartbeatError::FencedInstance.into(),
        }
    }
}

/// Why a group does not take a member's offsets (T-165).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFencing {
    /// A generation was given, and there is no such group.
    UnknownGroup,
    /// The group does not know this member, or it has members and the request names none.
    UnknownMember,
    /// Another member took over this static id.
    FencedInstance,
    /// The member believes in another generation.
    IllegalGeneration,
    /// The member's generation has no assignment yet.
    RebalanceInProgress,
}

words! { CommitFencing:
    CommitFencing::UnknownGroup => "there is no such group, and a generation was given",
    CommitFencing::UnknownMember => "the group does not know the member",
    CommitFencing::FencedInstance => "another member has taken over the static id",
    CommitFencing::IllegalGeneration => "not the group's generation",
    CommitFencing::RebalanceInProgress => "the member's generation has no assignment yet",
}

/// Why a group does not take offsets, by the table of T-165.
pub(super) fn refuse_commit(error: CommitFencing, facts: Facts) -> Rejection<CommitFencing> {
    Rejection::by("T-165", error, facts)
}

impl From<MemberError> for Rejection<CommitFencing> {
    fn from(error: MemberError) -> Rejection<CommitFencing> {
        match error {
            MemberError::Unknown => refuse_commit(CommitFencing::UnknownMember, Facts::None),
            MemberError::Fenced => refuse_commit(CommitFencing::FencedInstance, Facts::None),
        }
    }
}
