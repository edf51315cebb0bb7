//! What can be asked about offsets, and the answers.

use crate::catalog::TopicRef;
use crate::effect::Ticket;
use crate::groups::{CommitFencing, MemberRef};
use crate::refusal::Rejection;
use crate::transactions::TransactionError;
use ottla_types::{Offset, ProducerEpoch, ProducerId};
use std::fmt::{self, Display};

/// One offset to be committed or staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOffset {
    /// The partition's index.
    pub partition: i32,
    /// The offset to continue from; not checked against the log (T-167).
    pub offset: Offset,
    /// Leader epoch of the last consumed record, -1 for none.
    pub leader_epoch: i32,
    /// The client's own note; null counts as empty (T-166).
    pub metadata: String,
}

/// Offsets of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicOffsets {
    /// The topic.
    pub topic: TopicRef,
    /// Its offsets.
    pub offsets: Vec<NewOffset>,
}

/// Commits offsets outside a transaction (OffsetCommit).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitOffsets {
    /// For which group, and as which member.
    pub member: MemberRef,
    /// The offsets.
    pub topics: Vec<TopicOffsets>,
}

/// Stages offsets in a transaction (TxnOffsetCommit).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageOffsets {
    /// The transactional id.
    pub transactional_id: String,
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// True if the group's offsets must be in the transaction already (version 4 and below); else they are added
    /// (T-163).
    pub verify_only: bool,
    /// For which group, and as which member; version 2 and below say nothing of the member.
    pub member: MemberRef,
    /// The offsets.
    pub topics: Vec<TopicOffsets>,
}

/// Deletes offsets of a group (OffsetDelete).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteOffsets {
    /// The group.
    pub group_id: String,
    /// Topics, and partitions of theirs.
    pub topics: Vec<(TopicRef, Vec<i32>)>,
}

/// A command for offsets, with the ticket of its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffsetCommand {
    /// See [`CommitOffsets`].
    CommitOffsets(CommitOffsets, Ticket<CommitOffsetsReply>),
    /// See [`StageOffsets`].
    StageOffsets(StageOffsets, Ticket<StageOffsetsReply>),
    /// See [`DeleteOffsets`].
    DeleteOffsets(DeleteOffsets, Ticket<DeleteOffsetsReply>),
}

/// For each topic of [`CommitOffsets`] and each of its partitions a result, in order.
pub type CommitOffsetsReply = Vec<Vec<Result<(), Rejection<OffsetError>>>>;
/// For each topic of [`StageOffsets`] and each of its partitions a result, in order.
pub type StageOffsetsReply = Vec<Vec<Result<(), Rejection<OffsetError>>>>;
/// For each topic of [`DeleteOffsets`] and each of its partitions a result, in order.
pub type DeleteOffsetsReply = Result<Vec<Vec<Result<(), OffsetDeleteError>>>, DeleteOffsetsError>;

/// Why an offset was not taken. What concerns the whole request is said of each partition that exists (T-160).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetError {
    /// There is no such topic (T-161).
    UnknownTopic,
    /// The topic has no such partition (T-161).
    UnknownPartition,
    /// The note is too long (T-166).
    MetadataTooLarge,
    /// The group id is empty, which only a plain commit may have (T-162).
    InvalidGroupId,
    /// The transaction does not take offsets from this producer (T-163).
    Transaction(TransactionError),
    /// The group does not take offsets from this member (T-165).
    Fenced(CommitFencing),
}

impl Display for OffsetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OffsetError::UnknownTopic => f.write_str("there is no such topic"),
            OffsetError::UnknownPartition => f.write_str("the topic has no such partition"),
            OffsetError::MetadataTooLarge => {
                f.write_str("the metadata is longer than offset.metadata.max.bytes")
            }
            OffsetError::InvalidGroupId => f.write_str("the group id is empty"),
            OffsetError::Transaction(error) => error.fmt(f),
            OffsetError::Fenced(error) => error.fmt(f),
        }
    }
}

/// Why offsets of one partition were not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetDeleteError {
    /// There is no such topic or partition.
    UnknownPartition,
    /// The group's members subscribe to the topic (T-189).
    Subscribed,
}

/// Why no offsets were deleted (T-189).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOffsetsError {
    /// There is no such group.
    UnknownGroup,
    /// The group has members whose subscriptions the broker cannot read.
    NotEmpty,
}
