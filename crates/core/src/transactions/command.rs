//! The commands for transactional ids and producer ids, their replies, and why they are refused.

use crate::effect::Ticket;
use crate::refusal::{Rejection, words};
use ottla_types::{Millis, ProducerEpoch, ProducerId, TopicPartition};
use std::fmt::{self, Display};

/// A command for transactional ids and producer ids, with the ticket of its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionCommand {
    /// See [`InitProducerId`].
    InitProducerId(InitProducerId, Ticket<InitProducerIdReply>),
    /// See [`AddPartitionsToTxn`].
    AddPartitionsToTxn(AddPartitionsToTxn, Ticket<AddPartitionsToTxnReply>),
    /// See [`AddOffsetsToTxn`].
    AddOffsetsToTxn(AddOffsetsToTxn, Ticket<AddOffsetsToTxnReply>),
    /// See [`EndTxn`].
    EndTxn(EndTxn, Ticket<EndTxnReply>),
    /// See [`AbortTransaction`].
    AbortTransaction(AbortTransaction, Ticket<AbortTransactionReply>),
}

/// Asks for a producer id, or for the next epoch of a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitProducerId {
    /// The transactional id; none for a producer that is only idempotent.
    pub transactional_id: Option<String>,
    /// Transaction timeout in milliseconds.
    pub timeout: Millis,
    /// Producer id and epoch that the client has (KIP-360).
    pub given: Option<(ProducerId, ProducerEpoch)>,
}

/// Producer id and epoch of the producer.
pub type InitProducerIdReply = Result<(ProducerId, ProducerEpoch), Rejection<InitError>>;

/// Adds data partitions to a transaction, or verifies that they are in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddPartitionsToTxn {
    /// In whose transaction, and whether to add or to verify.
    pub claim: TransactionClaim,
    /// The partitions; the caller has checked that they exist (T-82).
    pub partitions: Vec<TopicPartition>,
}

/// Adds a group's partition of the offsets topic to a transaction (T-151).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddOffsetsToTxn {
    /// In whose transaction.
    pub claim: TransactionClaim,
    /// The group; it need not exist (T-150).
    pub group_id: String,
}

/// A result for each partition of [`AddPartitionsToTxn`], in order.
pub type AddPartitionsToTxnReply = Vec<Result<(), Rejection<TransactionError>>>;
/// The reply to [`AddOffsetsToTxn`].
pub type AddOffsetsToTxnReply = Result<(), Rejection<TransactionError>>;

/// Ends a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndTxn {
    /// The transactional id.
    pub transactional_id: String,
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// COMMIT, else ABORT.
    pub commit: bool,
    /// True for transaction version 2: the epoch goes up with the end (T-104).
    pub bump: bool,
}

/// Producer id and epoch of the client's next transaction (T-104, T-105).
pub type EndTxnReply = Result<(ProducerId, ProducerEpoch), Rejection<EndError>>;

/// Asks for the abort of exactly this transaction. One that took its place meanwhile is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortTransaction {
    /// The transactional id.
    pub transactional_id: String,
    /// Its producer.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: ProducerEpoch,
    /// When the transaction started.
    pub started: Millis,
}

/// There is no such transaction: the id is unknown, or the transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOpen;

/// The reply to [`AbortTransaction`].
pub type AbortTransactionReply = Result<(), NotOpen>;

/// What a client says of the transaction it works in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionClaim {
    /// Its transactional id.
    pub transactional_id: String,
    /// Its producer id.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// What shall happen to partitions that are not in the transaction yet.
    pub check: TransactionCheck,
}

impl TransactionClaim {
    /// The rule by which it is judged.
    pub(super) fn rule(&self) -> &'static str {
        match self.check {
            TransactionCheck::Verify => "T-64",
            TransactionCheck::Add => "T-83",
        }
    }
}

/// How a request that works in a transaction is checked (T-05).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionCheck {
    /// The partitions must be in it already.
    Verify,
    /// The partitions are added to it.
    Add,
}

/// Why a request may not work in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionError {
    /// The transactional id is empty.
    NoId,
    /// The id is unknown, or belongs to another producer id.
    UnknownProducer,
    /// The epoch is not the current one.
    Fenced,
    /// The partition is not in the transaction.
    NotInTransaction,
}

/// Why InitProducerId was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitError {
    /// The transactional id is empty (T-23).
    NoId,
    /// The timeout is not positive, or above the broker's bound (T-25).
    BadTimeout,
    /// The given producer id or epoch is not the current one, nor one that may retry (T-28, T-31).
    Fenced,
    /// An open transaction was aborted; ask again (T-33).
    Concurrent,
}

/// Why EndTxn was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndError {
    /// The transactional id is empty.
    NoId,
    /// The id is unknown, or belongs to another producer id.
    UnknownProducer,
    /// The epoch is neither the current one nor that of a retry.
    Fenced,
    /// The transaction cannot end this way (T-101, T-102).
    InvalidState,
}

words! { TransactionError:
    TransactionError::NoId => "the transactional id is empty",
    TransactionError::UnknownProducer => "the transactional id does not belong to this producer",
    TransactionError::Fenced => "fenced",
    TransactionError::NotInTransaction => "the partition is not in it",
}

words! { InitError:
    InitError::NoId => "the transactional id is empty",
    InitError::BadTimeout => "no transaction timeout that the broker allows, in milliseconds",
    InitError::Fenced => "fenced",
    InitError::Concurrent => "ask again for the next epoch",
}

words! { EndError:
    EndError::NoId => "the transactional id is empty",
    EndError::UnknownProducer => "the transactional id does not belong to this producer",
    EndError::Fenced => "fenced",
    EndError::InvalidState => "invalid in this state",
}
