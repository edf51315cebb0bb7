//! How far a snapshot reaches.

use crate::{TopicId, TopicPartition};

/// The last row of a piece of a snapshot. Pieces are taken one after the other while the log grows: at the position
/// of this piece everything up to `unit`, inclusive, is in the snapshot, and nothing of later records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotReached {
    /// The last unit that was looked for.
    pub unit: SnapshotUnit,
}

/// What goes into a snapshot in one piece, in the order in which it goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotUnit {
    /// The cluster id, the broker's configuration, the producer ids that are taken.
    Broker,
    /// A topic, without its partitions.
    Topic(TopicId),
    /// A partition.
    Partition(TopicPartition),
    /// A transactional id.
    TransactionalId(String),
    /// A group, without its offsets.
    Group(String),
    /// The offsets of a group.
    Offsets(String),
    /// Whatever there is: the snapshot is whole.
    All,
}
