//! What can be asked about offsets, and the answers.

use crate::effect::Ticket;
use crate::group::{CommitFencing, MemberRef};
use ottla_types::{Offset, ProducerEpoch, ProducerId, TopicPartition};

/// One offset to be committed or staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOffset {
    /// The partition.
    pub partition: TopicPartition,
    /// The offset to continue from; not checked against the log (T-167).
    pub offset: Offset,
    /// Leader epoch of the last consumed record, -1 for none.
    pub leader_epoch: i32,
    /// The client's own note; null counts as empty (T-166).
    pub metadata: String,
}

/// Commits offsets outside a transaction (OffsetCommit). The partitions exist: the host looked them up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitOffsets {
    /// Who asks.
    pub ticket: Ticket,
    /// For which group, and as which member.
    pub member: MemberRef,
    /// The offsets.
    pub offsets: Vec<NewOffset>,
}

/// Stages offsets in a transaction (TxnOffsetCommit).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageOffsets {
    /// Who asks.
    pub ticket: Ticket,
    /// The transactional id.
    pub transactional_id: String,
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// True if the group's offsets must be in the transaction already (version 4 and below); else they are added (T-163).
    pub verify_only: bool,
    /// For which group, and as which member; version 2 and below say nothing of the member.
    pub member: MemberRef,
    /// The offsets.
    pub offsets: Vec<NewOffset>,
}

/// Deletes offsets of a group (OffsetDelete). The partitions exist: the host looked them up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteOffsets {
    /// Who asks.
    pub ticket: Ticket,
    /// The group.
    pub group_id: String,
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffsetAnswer {
    /// To [`CommitOffsets`]: one result for each offset, in order.
    Committed(Result<Vec<Result<(), OffsetError>>, CommitFencing>),
    /// To [`StageOffsets`]: one result for each offset, in order.
    Staged(Result<Vec<Result<(), OffsetError>>, StageError>),
    /// To [`DeleteOffsets`]: one result for each partition, in order.
    Deleted(Result<Vec<Result<(), OffsetDeleteError>>, DeleteOffsetsError>),
}

/// Why one offset was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetError {
    /// The note is too long (T-166).
    MetadataTooLarge,
    /// The partition does not exist, or no longer.
    UnknownPartition,
}

/// Why offsets of one partition were not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetDeleteError {
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

/// Why no offsets were staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageError {
    /// The group id is empty (T-162).
    InvalidGroupId,
    /// The transaction does not take them (T-163).
    Transaction(crate::transaction::TransactionError),
    /// The group does not take them (T-165).
    Fenced(CommitFencing),
}
