//! The records of transactional ids and producer ids.

use super::Marker;
use crate::{Millis, Offset, ProducerEpoch, ProducerId, TopicPartition};

/// A record of transactional ids and producer ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionRecord {
    /// Producer ids below a bound count as assigned (T-22).
    ProducerIdsReserved(ProducerIdsReserved),
    /// A transactional id was set to a state without touching partitions: InitProducerId, first partitions (T-251).
    TransactionUpdated(TransactionUpdated),
    /// Partitions joined an ongoing transaction.
    TransactionExtended(TransactionExtended),
    /// A transaction ended: decision, markers, offsets and completion in one (T-104, T-128, T-180).
    TransactionEnded(TransactionEnded),
    /// A transactional id expired (T-143).
    TransactionForgotten(TransactionForgotten),
}

/// Producer ids that count as assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerIdsReserved {
    /// The first id that is still free.
    pub next: ProducerId,
}

/// The durable states of a transactional id. Preparing is not among them: ending is one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Initialised, nothing added yet.
    Empty,
    /// Partitions were added.
    Ongoing,
    /// The last transaction committed.
    CompleteCommit,
    /// The last transaction aborted.
    CompleteAbort,
}

/// The durable state of a transactional id (T-251).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionState {
    /// The id.
    pub transactional_id: String,
    /// Current producer id.
    pub producer_id: ProducerId,
    /// The one before the last rotation, or none (T-32).
    pub previous_producer_id: ProducerId,
    /// Current epoch.
    pub epoch: ProducerEpoch,
    /// The epoch before the last bump if its owner may still retry, else none (T-31).
    pub last_epoch: ProducerEpoch,
    /// Transaction timeout in milliseconds.
    pub timeout: Millis,
    /// State.
    pub status: TransactionStatus,
    /// When the current or last transaction started, -1 if never (T-86).
    pub started: Millis,
    /// When this state was reached.
    pub updated: Millis,
}

/// A transactional id set to a new state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionUpdated {
    /// The new state.
    pub state: TransactionState,
    /// Data partitions in the transaction, all of them.
    pub partitions: Vec<TopicPartition>,
    /// Partitions of the offsets topic in the transaction, all of them (T-151).
    pub offset_partitions: Vec<i32>,
}

/// Partitions added to an ongoing transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionExtended {
    /// The transactional id.
    pub transactional_id: String,
    /// Added data partitions.
    pub partitions: Vec<TopicPartition>,
    /// Added partitions of the offsets topic.
    pub offset_partitions: Vec<i32>,
    /// When.
    pub at: Millis,
}

/// The whole end of a transaction: no reader can see half of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionEnded {
    /// The state after completion: CompleteCommit or CompleteAbort, with the next owner's producer id and epoch.
    pub state: TransactionState,
    /// The marker that is appended to each partition; it may still carry the old producer id (T-105).
    pub marker: Marker,
    /// The data partitions of the transaction that still exist, each with the offset of its marker.
    pub partitions: Vec<(TopicPartition, Offset)>,
}

/// An expired transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionForgotten {
    /// The id.
    pub transactional_id: String,
}
