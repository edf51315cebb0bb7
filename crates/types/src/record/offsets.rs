//! The records of committed and staged offsets.

use crate::{LogPosition, Millis, Offset, ProducerEpoch, ProducerId, TopicPartition};

/// A record of a group's offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffsetRecord {
    /// Offsets were committed outside a transaction.
    OffsetsCommitted(OffsetsCommitted),
    /// Offsets were staged in a transaction (T-168).
    OffsetsStaged(OffsetsStaged),
    /// Offsets were deleted or expired, committed and staged (T-189, T-190).
    OffsetsDeleted(OffsetsDeleted),
    /// Snapshot row: committed offsets of a group, with the log positions that rank them (T-185).
    OffsetsRestored(OffsetsRestored),
    /// Snapshot row: staged offsets of one producer in a group (T-185).
    StagedRestored(StagedRestored),
}

/// Offsets committed outside a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetsCommitted {
    /// The group.
    pub group_id: String,
    /// What was committed.
    pub offsets: Vec<(TopicPartition, CommittedOffset)>,
}

/// A committed or staged offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The offset to continue from.
    pub offset: Offset,
    /// Leader epoch of the last consumed record, -1 for none.
    pub leader_epoch: i32,
    /// The metadata string of the client.
    pub metadata: String,
    /// When it was committed or staged.
    pub at: Millis,
}

/// Offsets staged in a transaction: invisible until it commits (T-180).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetsStaged {
    /// The group.
    pub group_id: String,
    /// The producer whose transaction decides.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// What was staged.
    pub offsets: Vec<(TopicPartition, CommittedOffset)>,
}

/// Deleted offsets, committed and staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetsDeleted {
    /// The group.
    pub group_id: String,
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
}

/// Committed offsets with the log positions of the records that set them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetsRestored {
    /// The group.
    pub group_id: String,
    /// Partition, offset, position of its record (a staged offset keeps the position at which it was staged: T-185).
    pub offsets: Vec<(TopicPartition, CommittedOffset, LogPosition)>,
}

/// Staged offsets with the log positions of the records that staged them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedRestored {
    /// The group.
    pub group_id: String,
    /// The producer whose transaction decides.
    pub producer_id: ProducerId,
    /// Partition, offset, position of its record.
    pub offsets: Vec<(TopicPartition, CommittedOffset, LogPosition)>,
}
