//! A transactional id: its owner and the state of its transaction.
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
//! Ending is one record, so Kafka's Prepare states never exist (T-290), and no client receives CONCURRENT_TRANSACTIONS
//! but the one that calls InitProducerId over an open transaction (T-33).

use super::MarkerContext;
use super::command::{EndError, EndTxn, InitError, TransactionCheck, TransactionClaim, TransactionError};
use crate::refusal::{Facts, Rejection};
use ottla_types::record::{
    LogRecord, Marker, TransactionEnded, TransactionExtended, TransactionState, TransactionStatus,
    TransactionUpdated,
};
use ottla_types::{Millis, ProducerEpoch, ProducerId, TopicPartition};
use std::collections::BTreeSet;

/// The state of one transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub(super) state: TransactionState,
    pub(super) partitions: BTreeSet<TopicPartition>,
    pub(super) offset_partitions: BTreeSet<i32>,
}

/// The outcome of InitProducerId.
pub(super) enum Init {
    /// A new state without any partitions.
    Become(TransactionState),
    /// The open transaction must be aborted first.
    Fence,
}

/// The decision to end a transaction, by request of its producer, by an administrator, for a new owner, or by timeout.
pub(crate) struct EndDecision {
    /// Producer id and epoch of the transaction that ends.
    pub(super) owner: (ProducerId, ProducerEpoch),
    state: TransactionState,
    marker: Marker,
    /// The partitions in the transaction; some may be deleted by now.
    partitions: BTreeSet<TopicPartition>,
}

impl EndDecision {
    /// Producer id and epoch of the next transaction.
    pub(super) fn next_owner(&self) -> (ProducerId, ProducerEpoch) {
        (self.state.producer_id, self.state.epoch)
    }

    /// The record: the marker takes the next offset of each partition that still exists (T-130).
    pub(super) fn into_record(self, context: MarkerContext<'_>) -> TransactionEnded {
        let place = |at| (context.next_offset)(at).map(|offset| (at, offset));
        let partitions = self.partitions.into_iter().filter_map(place).collect();
        let marker = Marker { at: context.wall, ..self.marker };
        TransactionEnded { state: self.state, marker, partitions }
    }
}

/// What a decision to end a transaction needs from other machines.
pub(super) struct EndContext<F> {
    pub(super) now: Millis,
    pub(super) coordinator_epoch: i32,
    /// Gives a producer id that was never handed out, in case the epochs are exhausted.
    pub(super) fresh: F,
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
    pub(super) fn created(
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
    pub(super) fn init(
        &self,
        given: Option<(ProducerId, ProducerEpoch)>,
        timeout: Millis,
        now: Millis,
        fresh: impl FnOnce() -> ProducerId,
    ) -> Result<Init, Rejection<InitError>> {
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

    /// The given pair must be the current one, or that of an owner whose answer may have been lost (T-28, T-31).
    /// Stricter than Kafka while a transaction is open: there it does not look at the epoch (T-33).
    fn judge_given(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> Result<(), Rejection<InitError>> {
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
        Err(Rejection::by(rule, InitError::Fenced, facts))
    }

    /// The request comes from this producer id and epoch and no other.
    fn check_owner<E>(
        &self,
        rule: &'static str,
        (producer_id, epoch): (ProducerId, ProducerEpoch),
        (other_producer, other_epoch): (E, E),
    ) -> Result<(), Rejection<E>> {
        if producer_id != self.state.producer_id {
            let facts = Facts::Producers { given: producer_id, current: self.state.producer_id };
            return Err(Rejection::by(rule, other_producer, facts));
        }
        if epoch != self.state.epoch {
            return Err(Rejection::by(rule, other_epoch, self.epochs(epoch)));
        }
        Ok(())
    }

    fn epochs(&self, given: ProducerEpoch) -> Facts {
        Facts::Epochs { producer_id: self.state.producer_id, given, current: self.state.epoch }
    }

    /// True for the pair that was current before the last bump, if that bump was its owner's own or the broker's: the
    /// epoch just below, or the exhausted pair of the producer id before (T-31, T-105).
    fn is_last(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool {
        let state = &self.state;
        let below = producer_id == state.producer_id && epoch < state.epoch;
        let rotated = producer_id == state.previous_producer_id
            && epoch.is_exhausted()
            && state.epoch == ProducerEpoch(0);
        (below || rotated) && epoch != ProducerEpoch::NONE && epoch == state.last_epoch
    }

    /// Whether the claim's owner may work in the transaction with these partitions; the record to append first, if any
    /// (T-64, T-83).
    pub(super) fn admit(
        &self,
        claim: &TransactionClaim,
        data: &[TopicPartition],
        offsets: &[i32],
        now: Millis,
    ) -> Result<Option<LogRecord>, Rejection<TransactionError>> {
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
                Err(Rejection::by("T-64", TransactionError::NotInTransaction, facts))
            }
            TransactionCheck::Add => Ok(Some(self.added(new_data, new_offsets, now))),
        }
    }

    fn added(&self, data: BTreeSet<TopicPartition>, offsets: BTreeSet<i32>, now: Millis) -> LogRecord {
        let partitions = data.into_iter().collect();
        let offset_partitions = offsets.into_iter().collect();
        if self.is_ongoing() {
            return LogRecord::from(TransactionExtended {
                transactional_id: self.state.transactional_id.clone(),
                partitions,
                offset_partitions,
                at: now,
            });
        }
        let state = TransactionState {
            status: TransactionStatus::Ongoing,
            started: now,
            updated: now,
            ..self.state.clone()
        };
        LogRecord::from(TransactionUpdated { state, partitions, offset_partitions })
    }

    /// Judges EndTxn (T-101, T-102). None if the transaction ended before in the same way: the request is a repetition.
    pub(super) fn judge_end(
        &self,
        end: &EndTxn,
        context: EndContext<impl FnOnce() -> ProducerId>,
    ) -> Result<Option<EndDecision>, Rejection<EndError>> {
        if end.bump { self.judge_end_with_bump(end, context) } else { self.judge_end_as_is(end, context) }
    }

    /// Transaction versions 0 and 1: the epoch stays (T-101).
    fn judge_end_as_is(
        &self,
        end: &EndTxn,
        context: EndContext<impl FnOnce() -> ProducerId>,
    ) -> Result<Option<EndDecision>, Rejection<EndError>> {
        let errors = (EndError::UnknownProducer, EndError::Fenced);
        self.check_owner("T-101", (end.producer_id, end.producer_epoch), errors)?;
        match (self.state.status, end.commit) {
            (TransactionStatus::Ongoing, commit) => {
                let state = self.completed(commit, context.now);
                Ok(Some(self.decision(state, commit, self.state.epoch, context.coordinator_epoch)))
            }
            (TransactionStatus::CompleteCommit, true) | (TransactionStatus::CompleteAbort, false) => Ok(None),
            (TransactionStatus::Empty, _)
            | (TransactionStatus::CompleteCommit, false)
            | (TransactionStatus::CompleteAbort, true) => Err(self.cannot_end("T-101", end.commit)),
        }
    }

    /// Transaction version 2: the epoch goes up (T-102).
    fn judge_end_with_bump(
        &self,
        end: &EndTxn,
        context: EndContext<impl FnOnce() -> ProducerId>,
    ) -> Result<Option<EndDecision>, Rejection<EndError>> {
        // Stricter than Kafka, which compares with "current less one" even if another owner caused that bump.
        if self.is_last(end.producer_id, end.producer_epoch) {
            return self.judge_end_again(end);
        }
        let errors = (EndError::UnknownProducer, EndError::Fenced);
        self.check_owner("T-102", (end.producer_id, end.producer_epoch), errors)?;
        match (self.state.status, end.commit) {
            (TransactionStatus::Ongoing, commit) => Ok(Some(self.end_with_bump(commit, context))),
            (
                TransactionStatus::Empty
                | TransactionStatus::CompleteCommit
                | TransactionStatus::CompleteAbort,
                false,
            ) => Ok(Some(self.end_with_bump(false, context))),
            (
                TransactionStatus::Empty
                | TransactionStatus::CompleteCommit
                | TransactionStatus::CompleteAbort,
                true,
            ) => Err(self.cannot_end("T-102", true)),
        }
    }

    /// EndTxn with the producer's last epoch, the one before the current: the columns "E = cur-1" of T-102.
    fn judge_end_again(&self, end: &EndTxn) -> Result<Option<EndDecision>, Rejection<EndError>> {
        let fenced = |rule| Err(Rejection::by(rule, EndError::Fenced, self.epochs(end.producer_epoch)));
        match (self.state.status, end.commit) {
            (TransactionStatus::CompleteCommit, true) | (TransactionStatus::CompleteAbort, false) => Ok(None),
            (TransactionStatus::CompleteCommit, false) => Err(self.cannot_end("T-102", false)),
            // The transaction timed out while the commit was on its way.
            (TransactionStatus::CompleteAbort, true) => fenced("T-103"),
            (TransactionStatus::Empty | TransactionStatus::Ongoing, _) => fenced("T-102"),
        }
    }

    fn cannot_end(&self, rule: &'static str, commit: bool) -> Rejection<EndError> {
        Rejection::by(rule, EndError::InvalidState, Facts::Status { status: self.state.status, commit })
    }

    /// Ends the transaction with the bump of version 2: by request, by fencing or by timeout (T-34, T-104, T-105).
    fn end_with_bump(&self, commit: bool, context: EndContext<impl FnOnce() -> ProducerId>) -> EndDecision {
        let mut state = self.completed(commit, context.now);
        let epoch = self.state.epoch.bumped();
        state.last_epoch = self.state.epoch;
        if self.state.epoch.is_exhausted() {
            state.previous_producer_id = self.state.producer_id;
            state.producer_id = (context.fresh)();
            state.epoch = ProducerEpoch(0);
        } else {
            state.epoch = epoch;
        }
        self.decision(state, commit, epoch, context.coordinator_epoch)
    }

    /// Aborts the transaction on the broker's own account: by fencing, by timeout or for an administrator (T-06, T-33,
    /// T-140).
    pub(super) fn abort(&self, context: EndContext<impl FnOnce() -> ProducerId>) -> EndDecision {
        self.end_with_bump(false, context)
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

    /// The decision that leads to `state`; the marker carries `producer_epoch`.
    fn decision(
        &self,
        state: TransactionState,
        commit: bool,
        producer_epoch: ProducerEpoch,
        coordinator_epoch: i32,
    ) -> EndDecision {
        let owner = (self.state.producer_id, self.state.epoch);
        let (producer_id, at) = (self.state.producer_id, state.updated);
        let marker = Marker { commit, producer_id, producer_epoch, coordinator_epoch, at };
        EndDecision { owner, state, marker, partitions: self.partitions.clone() }
    }
}
