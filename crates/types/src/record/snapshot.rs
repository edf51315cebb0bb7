//! The row that ends a piece of a snapshot.

use crate::{TopicId, TopicPartition};

/// The last row of a piece of a snapshot. Pieces are taken one after the other while the log grows: at the position
/// of this piece everything up to `unit`, inclusive, is in the snapshot, and nothing of later records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotReached {
    /// The last unit that the snapshot covers so far.
    pub unit: SnapshotUnit,
}

/// A unit of the state. A snapshot takes a unit as a whole, and the units in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotUnit {
    /// The cluster id, the broker's configuration, the producer ids that were assigned, ACLs, users and quotas.
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
    /// Everything: the snapshot is complete.
    All,
}
