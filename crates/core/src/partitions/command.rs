//! The commands for partitions, their replies, and why they are refused.

use super::InstallParts;
use super::producer::ProducerRefusal;
use crate::catalog::TopicRef;
use crate::effect::Ticket;
use crate::refusal::{Rejection, words};
use crate::transactions::{TransactionCheck, TransactionError};
use bytes::Bytes;
use ottla_types::{BatchSummary, Millis, Offset, ProducerEpoch, ProducerId, TopicPartition};
use std::fmt::{self, Display};

/// A command for partitions, with the ticket of its reply.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionCommand {
    /// See [`Produce`].
    Produce(Produce, Ticket<ProduceReply>),
    /// See [`WriteTxnMarkers`].
    WriteTxnMarkers(WriteTxnMarkers, Ticket<WriteTxnMarkersReply>),
    /// See [`DeleteRecords`].
    DeleteRecords(DeleteRecords, Ticket<DeleteRecordsReply>),
    /// See [`InstallParts`]. It has no reply: the host itself sends it.
    InstallParts(InstallParts),
}

/// Appends batches, one for each partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Produce {
    /// The transactional id, if any.
    pub transactional_id: Option<String>,
    /// What happens to partitions that are not in the transaction yet.
    pub check: TransactionCheck,
    /// The batches.
    pub batches: Vec<ProduceBatch>,
}

/// A batch whose bytes were found sound: header, checksum and records.
#[derive(Clone, Debug, PartialEq)]
pub struct ProduceBatch {
    /// The topic it goes to.
    pub topic: TopicRef,
    /// The partition of the topic.
    pub partition: i32,
    /// True if some record has no key, which compacted topics refuse.
    pub keyless: bool,
    /// The smallest timestamp of its records, -1 for none; the largest is in the summary.
    pub earliest: Millis,
    /// The client says that the timestamps are of the append.
    pub stamped: bool,
    /// What its header says.
    pub summary: BatchSummary,
    /// Its bytes.
    pub payload: Bytes,
}

/// A result for each batch of [`Produce`], in order.
pub type ProduceReply = Vec<Result<AppendResult, Rejection<ProduceError>>>;

/// A batch that is in the log, by this request or an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendResult {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// The broker's time in its records, none if they carry the producer's. A duplicate's is its original's timestamp
    /// (T-41).
    pub log_append_time: Millis,
    /// The first offset of the partition that can be read.
    pub log_start: Offset,
}

/// Why a batch was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProduceError {
    /// No topic of this name or id.
    UnknownTopic,
    /// The topic has no such partition.
    UnknownPartition,
    /// The topic belongs to the broker.
    InternalTopic,
    /// The partition occurs twice in one request.
    RepeatedPartition,
    /// The request has a transactional batch and no transactional id (T-60).
    NoTransactionalId,
    /// The transactional id is empty.
    EmptyTransactionalId,
    /// The request's transactional batches are from several producers (T-56).
    SeveralProducers,
    /// The id belongs to another producer (T-64).
    UnknownProducer,
    /// The epoch is stale (T-44, T-62, T-64).
    StaleEpoch,
    /// The partition is not in the producer's transaction (T-64).
    NotInTransaction,
    /// Not transactional, while its producer has a transaction open here (T-55).
    OutsideTransaction,
    /// The sequence numbers do not follow (T-42, T-45 to T-48).
    OutOfOrder,
    /// The batch is above `max.message.bytes`.
    TooLarge {
        /// The bound, in bytes.
        most: i64,
    },
    /// A timestamp is too far from the broker's clock.
    BadTimestamp {
        /// The smallest that is taken.
        least: Millis,
        /// The largest that is taken.
        most: Millis,
    },
    /// The client may not say when the batch was appended.
    NotItsTime,
    /// The topic is compacted, and a record has no key.
    NeedsKeys,
    /// The batch contradicts itself: why.
    Invalid(&'static str),
}

words! { ProduceError:
    ProduceError::UnknownTopic => "there is no such topic",
    ProduceError::UnknownPartition => "the topic has no such partition",
    ProduceError::InternalTopic => "clients may not write to internal topics",
    ProduceError::RepeatedPartition => "the partition occurs twice in the request",
    ProduceError::NoTransactionalId => "a transactional batch without a transactional id",
    ProduceError::EmptyTransactionalId => "the transactional id is empty",
    ProduceError::SeveralProducers => "the transactional batches of the request are from several producers",
    ProduceError::UnknownProducer => "the transactional id does not belong to this producer",
    ProduceError::StaleEpoch => "fenced",
    ProduceError::NotInTransaction => "the partition is not in it",
    ProduceError::OutsideTransaction => "a batch outside it cannot be appended",
    ProduceError::OutOfOrder => "out of order",
    ProduceError::TooLarge { .. } => "the batch is larger than max.message.bytes",
    ProduceError::BadTimestamp { .. } => "a timestamp is further from the broker's clock than the topic allows",
    ProduceError::NotItsTime => "the batch says that its timestamps are of the append, which is the broker's to say",
    ProduceError::NeedsKeys => "the topic is compacted, so every record needs a key",
    ProduceError::Invalid(why) => why,
}

impl From<TransactionError> for ProduceError {
    fn from(error: TransactionError) -> ProduceError {
        match error {
            TransactionError::NoId => ProduceError::EmptyTransactionalId,
            TransactionError::UnknownProducer => ProduceError::UnknownProducer,
            TransactionError::Fenced => ProduceError::StaleEpoch,
            TransactionError::NotInTransaction => ProduceError::NotInTransaction,
        }
    }
}

impl From<ProducerRefusal> for ProduceError {
    fn from(refusal: ProducerRefusal) -> ProduceError {
        match refusal {
            ProducerRefusal::StaleEpoch => ProduceError::StaleEpoch,
            ProducerRefusal::OutOfOrder => ProduceError::OutOfOrder,
            ProducerRefusal::OutsideTransaction => ProduceError::OutsideTransaction,
        }
    }
}

/// Writes markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteTxnMarkers {
    /// The markers.
    pub markers: Vec<TxnMarker>,
}

/// One marker for some partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnMarker {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// Epoch of the coordinator that decided.
    pub coordinator_epoch: i32,
    /// COMMIT, else ABORT.
    pub commit: bool,
    /// Written by the rules of transaction version 2: the epoch must be above the producer's (T-125).
    pub bumped: bool,
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
}

/// For each marker of [`WriteTxnMarkers`] a result for each partition, in order.
pub type WriteTxnMarkersReply = Vec<Vec<Result<(), Rejection<MarkerError>>>>;

/// Why a marker was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerError {
    /// No such partition.
    UnknownPartition,
    /// The epoch is too low (T-125).
    StaleEpoch,
    /// A later coordinator has spoken (T-126).
    CoordinatorFenced,
}

words! { MarkerError:
    MarkerError::UnknownPartition => "there is no such partition",
    MarkerError::StaleEpoch => "the marker's epoch is too low",
    MarkerError::CoordinatorFenced => "a later coordinator has spoken",
}

/// Deletes the records of partitions before an offset each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRecords {
    /// Partition and its new first offset; -1 for the high watermark.
    pub partitions: Vec<(TopicPartition, Offset)>,
}

/// For each partition of [`DeleteRecords`] the first offset that can be read afterwards, in order.
pub type DeleteRecordsReply = Vec<Result<Offset, DeleteRecordsError>>;

/// Why records were not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteRecordsError {
    /// No such partition.
    UnknownPartition,
    /// The offset is negative or beyond the high watermark.
    OutOfRange,
    /// The topic's cleanup policy does not delete.
    NotByPolicy,
}
