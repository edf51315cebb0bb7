//! A transactional id: who owns it and how far its transaction is.
//!
//! ```text
//!              init            add                commit, abort, fence, timeout
//!  (unknown) ───────▶ Empty ─────────▶ Ongoing ──────────────────────────────┐
//!      ▲              ▲ │ ▲             ▲ │ add                              ▼
//!      │         init │ │ └── init      │ └──┘                  CompleteCommit | CompleteAbort
//!      │              │ │ abort (bump)  └───────── add ──────────────┤ │  ▲ abort (bump)
//!      │              │ └────────────────▶ CompleteAbort             │ └──┘
//!      └── expiry ────┴──────────────────────── init, expiry ────────┘
//! ```
//!
//! Ending is one record, so Kafka's Prepare states never exist (T-290), and no client meets "concurrent" but the one that calls
//! InitProducerId over an open transaction (T-33).

mod ids;
mod table;
mod view;

pub use table::Transactions;
pub(crate) use table::{Decision, EndOutcome, Initialised};
pub use view::TransactionFilter;

use crate::refusal::{Facts, Refused, words};
use ottla_types::record::{
    LogRecord, Marker, TransactionExtended, TransactionRecord, TransactionState, TransactionStatus,
    TransactionUpdated,
};
use ottla_types::{Millis, ProducerEpoch, ProducerId, TopicPartition};
use std::collections::BTreeSet;
use std::fmt::{self, Display};

/// Epoch of the coordinator in every marker (T-121). One process owns all ids for ever, so it never changes.
pub const COORDINATOR_EPOCH: i32 = 0;

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
    fn rule(&self) -> &'static str {
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

/// A request to end a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// COMMIT, else ABORT.
    pub commit: bool,
    /// True for transaction version 2: the epoch goes up with the end (T-104).
    pub bump: bool,
}

/// What remembers of one transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    state: TransactionState,
    partitions: BTreeSet<TopicPartition>,
    offset_partitions: BTreeSet<i32>,
}

/// What InitProducerId comes to.
enum Init {
    /// A new state without any partitions.
    Become(TransactionState),
    /// The open transaction must be aborted first.
    Fence,
}

/// How a transaction ended.
struct Ended {
    state: TransactionState,
    marker: Marker,
}

/// What EndTxn comes to.
enum Ending {
    /// It ended before, in the same way: this is a retry.
    Replayed(ProducerId, ProducerEpoch),
    /// It ends now.
    Now(Ended),
}

impl Transaction {
    /// Everything but the partitions.
    pub fn state(&self) -> &TransactionState {
        &self.state
    }

    /// The data partitions in the open transaction.
    pub fn partitions(&self) -> &BTreeSet<TopicPartition> {
        &self.partitions
    }

    /// The partitions of the offsets topic in the open transaction.
    pub fn offset_partitions(&self) -> &BTreeSet<i32> {
        &self.offset_partitions
    }

    fn is_ongoing(&self) -> bool {
        self.state.status == TransactionStatus::Ongoing
    }

    /// A transactional id that was not known (T-26).
    fn created(
        transactional_id: String,
        producer_id: ProducerId,
        timeout: Millis,
        now: Millis,
    ) -> TransactionState {
        TransactionState {
            transactional_id,
            producer_id,
            previous_producer_id: ProducerId::NONE,
            epoch: ProducerEpoch(0),
            last_epoch: ProducerEpoch::NONE,
            timeout,
            status: TransactionStatus::Empty,
            started: Millis::NONE,
            updated: now,
        }
    }

    /// InitProducerId on a known id (T-28 to T-34).
    fn init(
        &self,
        given: Option<(ProducerId, ProducerEpoch)>,
        timeout: Millis,
        now: Millis,
        fresh: impl FnOnce() -> ProducerId,
    ) -> Result<Init, Refused<InitError>> {
        if let Some((producer_id, epoch)) = given {
            self.judge_given(producer_id, epoch)?;
        }
        if self.is_ongoing() {
            return Ok(Init::Fence);
        }
        let mut next = TransactionState {
            timeout,
            status: TransactionStatus::Empty,
            started: Millis::NONE,
            updated: now,
            ..self.state.clone()
        };
        let epoch = given.map(|(_, epoch)| epoch);
        let is_retry = given.is_some_and(|(id, epoch)| !self.is_current(id, epoch));
        if !is_retry {
            next.last_epoch = epoch.unwrap_or(ProducerEpoch::NONE);
            if self.state.epoch.is_exhausted() {
                next.previous_producer_id = self.state.producer_id;
                next.producer_id = fresh();
                next.epoch = ProducerEpoch(0);
            } else {
                next.epoch = self.state.epoch.bumped();
            }
        }
        Ok(Init::Become(next))
    }

    fn is_current(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool {
        producer_id == self.state.producer_id && epoch == self.state.epoch
    }

    /// The given pair must be the current one, or that of an owner whose answer may have been lost (T-28, T-31). Stricter than
    /// Kafka while a transaction is open: there it does not look at the epoch (T-33).
    fn judge_given(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> Result<(), Refused<InitError>> {
        if self.is_current(producer_id, epoch) || self.is_last(producer_id, epoch) {
            return Ok(());
        }
        let state = &self.state;
        let facts = Facts::Owner {
            given: (producer_id, epoch),
            current: (state.producer_id, state.epoch),
            last: state.last_epoch,
        };
        let rule = if producer_id == state.producer_id { "T-31" } else { "T-28" };
        Err(Refused::by(rule, InitError::Fenced, facts))
    }

    /// The request comes from this producer id and epoch and no other.
    fn check_owner<E>(
        &self,
        rule: &'static str,
        (producer_id, epoch): (ProducerId, ProducerEpoch),
        (other_producer, other_epoch): (E, E),
    ) -> Result<(), Refused<E>> {
        if producer_id != self.state.producer_id {
            let facts = Facts::Producers { given: producer_id, current: self.state.producer_id };
            return Err(Refused::by(rule, other_producer, facts));
        }
        if epoch != self.state.epoch {
            return Err(Refused::by(rule, other_epoch, self.epochs(epoch)));
        }
        Ok(())
    }

    fn epochs(&self, given: ProducerEpoch) -> Facts {
        Facts::Epochs { producer_id: self.state.producer_id, given, current: self.state.epoch }
    }

    /// True for the pair that was current before the last bump, if that bump was its owner's own or the broker's: the epoch just
    /// below, or the exhausted pair of the producer id before (T-31, T-105).
    fn is_last(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool {
        let state = &self.state;
        let below = producer_id == state.producer_id && epoch < state.epoch;
        let rotated = producer_id == state.previous_producer_id
            && epoch.is_exhausted()
            && state.epoch == ProducerEpoch(0);
        (below || rotated) && epoch != ProducerEpoch::NONE && epoch == state.last_epoch
    }

    /// Whether the claim's owner may work in the transaction with these partitions; the record to append first, if any (T-64,
    /// T-83).
    fn admit(
        &self,
        claim: &TransactionClaim,
        data: &[TopicPartition],
        offsets: &[i32],
        now: Millis,
    ) -> Result<Option<LogRecord>, Refused<TransactionError>> {
        let errors = (TransactionError::UnknownProducer, TransactionError::Fenced);
        self.check_owner(claim.rule(), (claim.producer_id, claim.producer_epoch), errors)?;
        let new_data: BTreeSet<_> = data.iter().filter(|at| !self.partitions.contains(at)).copied().collect();
        let new_offsets: BTreeSet<_> =
            offsets.iter().filter(|at| !self.offset_partitions.contains(at)).copied().collect();
        let all_in = self.is_ongoing() && new_data.is_empty() && new_offsets.is_empty();
        match claim.check {
            _ if all_in => Ok(None),
            TransactionCheck::Verify => {
                let facts = Facts::Outside { status: self.state.status };
                Err(Refused::by("T-64", TransactionError::NotInTransaction, facts))
            }
            TransactionCheck::Add => Ok(Some(self.added(new_data, new_offsets, now))),
        }
    }

    fn added(&self, data: BTreeSet<TopicPartition>, offsets: BTreeSet<i32>, now: Millis) -> LogRecord {
        let partitions = data.into_iter().collect();
        let offset_partitions = offsets.into_iter().collect();
        if self.is_ongoing() {
            return LogRecord::Transactions(TransactionRecord::TransactionExtended(TransactionExtended {
                transactional_id: self.state.transactional_id.clone(),
                partitions,
                offset_partitions,
                at: now,
            }));
        }
        let state = TransactionState {
            status: TransactionStatus::Ongoing,
            started: now,
            updated: now,
            ..self.state.clone()
        };
        LogRecord::Transactions(TransactionRecord::TransactionUpdated(TransactionUpdated {
            state,
            partitions,
            offset_partitions,
        }))
    }

    /// EndTxn (T-101, T-102).
    fn end(
        &self,
        ask: End,
        now: Millis,
        fresh: impl FnOnce() -> ProducerId,
    ) -> Result<Ending, Refused<EndError>> {
        if ask.bump { self.end_with_bump(ask, now, fresh) } else { self.end_as_is(ask, now) }
    }

    /// Transaction versions 0 and 1: the epoch stays (T-101).
    fn end_as_is(&self, ask: End, now: Millis) -> Result<Ending, Refused<EndError>> {
        let errors = (EndError::UnknownProducer, EndError::Fenced);
        self.check_owner("T-101", (ask.producer_id, ask.producer_epoch), errors)?;
        match (self.state.status, ask.commit) {
            (TransactionStatus::Ongoing, commit) => {
                let state = self.completed(commit, now);
                let marker = self.marker(commit, self.state.epoch, now);
                Ok(Ending::Now(Ended { state, marker }))
            }
            (TransactionStatus::CompleteCommit, true) | (TransactionStatus::CompleteAbort, false) => {
                Ok(Ending::Replayed(self.state.producer_id, self.state.epoch))
            }
            (TransactionStatus::Empty, _)
            | (TransactionStatus::CompleteCommit, false)
            | (TransactionStatus::CompleteAbort, true) => Err(self.cannot_end("T-101", ask.commit)),
        }
    }

    /// Transaction version 2: the epoch goes up (T-102).
    fn end_with_bump(
        &self,
        ask: End,
        now: Millis,
        fresh: impl FnOnce() -> ProducerId,
    ) -> Result<Ending, Refused<EndError>> {
        // Stricter than Kafka, which compares with "current less one" even if another owner caused that bump.
        if self.is_last(ask.producer_id, ask.producer_epoch) {
            return self.end_again(ask);
        }
        let errors = (EndError::UnknownProducer, EndError::Fenced);
        self.check_owner("T-102", (ask.producer_id, ask.producer_epoch), errors)?;
        match (self.state.status, ask.commit) {
            (TransactionStatus::Ongoing, commit) => Ok(Ending::Now(self.ended(commit, now, fresh))),
            (
                TransactionStatus::Empty
                | TransactionStatus::CompleteCommit
                | TransactionStatus::CompleteAbort,
                false,
            ) => Ok(Ending::Now(self.ended(false, now, fresh))),
            (
                TransactionStatus::Empty
                | TransactionStatus::CompleteCommit
                | TransactionStatus::CompleteAbort,
                true,
            ) => Err(self.cannot_end("T-102", true)),
        }
    }

    /// The columns "E = cur-1" of T-102.
    fn end_again(&self, ask: End) -> Result<Ending, Refused<EndError>> {
        let fenced = |rule| Err(Refused::by(rule, EndError::Fenced, self.epochs(ask.producer_epoch)));
        match (self.state.status, ask.commit) {
            (TransactionStatus::CompleteCommit, true) | (TransactionStatus::CompleteAbort, false) => {
                Ok(Ending::Replayed(self.state.producer_id, self.state.epoch))
            }
            (TransactionStatus::CompleteCommit, false) => Err(self.cannot_end("T-102", false)),
            // The commit was under way while the transaction timed out.
            (TransactionStatus::CompleteAbort, true) => fenced("T-103"),
            (TransactionStatus::Empty | TransactionStatus::Ongoing, _) => fenced("T-102"),
        }
    }

    fn cannot_end(&self, rule: &'static str, commit: bool) -> Refused<EndError> {
        Refused::by(rule, EndError::InvalidState, Facts::Status { status: self.state.status, commit })
    }

    /// The end of a transaction with the bump of version 2: asked for, by fencing or by timeout (T-34, T-104, T-105).
    fn ended(&self, commit: bool, now: Millis, fresh: impl FnOnce() -> ProducerId) -> Ended {
        let mut state = self.completed(commit, now);
        let epoch = self.state.epoch.bumped();
        state.last_epoch = self.state.epoch;
        if self.state.epoch.is_exhausted() {
            state.previous_producer_id = self.state.producer_id;
            state.producer_id = fresh();
            state.epoch = ProducerEpoch(0);
        } else {
            state.epoch = epoch;
        }
        Ended { state, marker: self.marker(commit, epoch, now) }
    }

    fn completed(&self, commit: bool, now: Millis) -> TransactionState {
        // T-108: an abort of nothing starts and ends now.
        let started = if self.is_ongoing() { self.state.started } else { now };
        let status = match commit {
            true => TransactionStatus::CompleteCommit,
            false => TransactionStatus::CompleteAbort,
        };
        TransactionState { status, started, updated: now, ..self.state.clone() }
    }

    fn marker(&self, commit: bool, producer_epoch: ProducerEpoch, now: Millis) -> Marker {
        Marker {
            commit,
            producer_id: self.state.producer_id,
            producer_epoch,
            coordinator_epoch: COORDINATOR_EPOCH,
            at: now,
        }
    }
}
