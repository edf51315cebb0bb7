//! What a step hands to the host: records to append, replies to send, readers to wake.

use crate::catalog::CatalogAnswer;
use crate::group::GroupAnswer;
use crate::offsets::OffsetAnswer;
use crate::ops::{Appended, DeleteRecordsError, MarkerError, NotOpen, ProduceError};
use crate::refusal::Refused;
use crate::transaction::{EndError, InitError, TransactionError};
use ottla_types::record::LogRecord;
use ottla_types::{Offset, ProducerEpoch, ProducerId, TopicPartition};

/// The host's name for a request that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// One thing for the host to do, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Append this to the log, then apply it.
    Append(LogRecord),
    /// Answer a request once everything appended so far is durable.
    Reply {
        /// The request.
        ticket: Ticket,
        /// Its answer.
        answer: Answer,
    },
    /// More of this partition can be read: its high watermark or last stable offset moved.
    Advanced(TopicPartition),
}

/// The answer to an input, one variant for each kind of question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To the catalog's inputs.
    Catalog(CatalogAnswer),
    /// To Produce: a result for each batch, in order.
    Produced(Vec<Result<Appended, Refused<ProduceError>>>),
    /// To InitProducerId.
    ProducerId(Result<(ProducerId, ProducerEpoch), Refused<InitError>>),
    /// To AddPartitionsToTxn: a result for each partition, in order.
    PartitionsInTransaction(Vec<Result<(), Refused<TransactionError>>>),
    /// To AddOffsetsToTxn.
    OffsetsInTransaction(Result<(), Refused<TransactionError>>),
    /// To EndTxn: producer id and epoch of the client's next transaction.
    TransactionEnded(Result<(ProducerId, ProducerEpoch), Refused<EndError>>),
    /// To WriteTxnMarkers: for each marker a result for each partition, in order.
    MarkersWritten(Vec<Vec<Result<(), Refused<MarkerError>>>>),
    /// To AbortTransaction.
    TransactionAborted(Result<(), NotOpen>),
    /// To DeleteRecords: for each partition the first offset that can be read afterwards, in order.
    RecordsDeleted(Vec<Result<Offset, DeleteRecordsError>>),
    /// To the inputs of groups.
    Group(GroupAnswer),
    /// To the inputs of offsets.
    Offsets(OffsetAnswer),
}

/// The effects of one or more steps, in order.
#[derive(Debug, Default)]
pub struct Effects {
    queue: Vec<Effect>,
}

impl Effects {
    /// Appends a record to the log.
    pub fn append(&mut self, record: LogRecord) {
        self.queue.push(Effect::Append(record));
    }

    /// Answers a request.
    pub fn reply(&mut self, ticket: Ticket, answer: Answer) {
        self.queue.push(Effect::Reply { ticket, answer });
    }

    /// Wakes the readers of a partition.
    pub fn advanced(&mut self, partition: TopicPartition) {
        self.queue.push(Effect::Advanced(partition));
    }

    /// Takes the effects out, oldest first.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Effect> {
        self.queue.drain(..)
    }
}
