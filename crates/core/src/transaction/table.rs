//! All transactional ids, by name and by the time at which something is due.

use super::ids::ProducerIds;
use super::{End, EndError, Ended, Ending, Init, InitError, Transaction, TransactionClaim, TransactionError};
use crate::config::Settings;
use crate::effect::Effects;
use crate::ops::AbortTransaction;
use crate::reach::Reach;
use crate::refusal::{Facts, Refused};
use ottla_types::record::{
    LogRecord, SnapshotUnit, TransactionEnded, TransactionExtended, TransactionForgotten, TransactionRecord,
    TransactionState, TransactionStatus, TransactionUpdated,
};
use ottla_types::{Millis, ProducerEpoch, ProducerId, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Ids that one tick forgets at most: a bound on the size of a step.
const FORGET_AT_ONCE: usize = 1000;

/// All transactional ids of a shard.
#[derive(Debug)]
pub struct Transactions {
    ids: ProducerIds,
    table: BTreeMap<String, Transaction>,
    /// Open transactions by the last moment at which they are not overdue (T-140).
    open: BTreeSet<(Millis, String)>,
    /// The others by the time of their last change (T-143).
    idle: BTreeSet<(Millis, String)>,
    max_timeout: Millis,
    expiration: Millis,
}

/// A decision that ends a transaction, with the partitions its marker goes to.
pub(crate) struct Decision {
    owner: (ProducerId, ProducerEpoch),
    ended: Ended,
    partitions: BTreeSet<TopicPartition>,
}

impl Decision {
    /// The partitions that were in the transaction; some may be gone by now.
    pub(crate) fn partitions(&self) -> &BTreeSet<TopicPartition> {
        &self.partitions
    }

    /// Producer id and epoch of the transaction that ends.
    pub(crate) fn owner(&self) -> (ProducerId, ProducerEpoch) {
        self.owner
    }

    /// Producer id and epoch of the next transaction.
    pub(crate) fn next_owner(&self) -> (ProducerId, ProducerEpoch) {
        (self.ended.state.producer_id, self.ended.state.epoch)
    }

    /// The record, given the offset the marker takes in each partition that still exists. The marker carries wall time.
    pub(crate) fn into_record(
        self,
        partitions: Vec<(TopicPartition, ottla_types::Offset)>,
        wall: impl FnOnce(Millis) -> Millis,
    ) -> LogRecord {
        let Ended { state, mut marker } = self.ended;
        marker.at = wall(marker.at);
        LogRecord::Transactions(TransactionRecord::TransactionEnded(TransactionEnded {
            state,
            marker,
            partitions,
        }))
    }
}

/// What InitProducerId comes to.
pub(crate) enum Initialised {
    /// The owner's producer id and epoch.
    Owner(ProducerId, ProducerEpoch),
    /// The open transaction must be aborted, and the client asks again (T-33).
    Fence(Decision),
}

/// What EndTxn comes to.
pub(crate) enum EndOutcome {
    /// A retry: nothing to do.
    Replayed(ProducerId, ProducerEpoch),
    /// The transaction ends.
    Now(Decision),
}

impl Transactions {
    pub(crate) fn new(settings: &Settings) -> Transactions {
        Transactions {
            ids: ProducerIds::new(),
            table: BTreeMap::new(),
            open: BTreeSet::new(),
            idle: BTreeSet::new(),
            max_timeout: settings.transaction_max_timeout,
            expiration: settings.transactional_id_expiration,
        }
    }

    /// What is known of a transactional id.
    pub fn get(&self, transactional_id: &str) -> Option<&Transaction> {
        self.table.get(transactional_id)
    }

    /// How many transactions are open.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// How many transactional ids are known.
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// The open transactions, the one that times out first in front.
    pub fn open(&self) -> impl Iterator<Item = &Transaction> {
        self.open.iter().filter_map(|(_, transactional_id)| self.table.get(transactional_id))
    }

    /// All transactional ids, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Transaction> {
        self.table.values()
    }

    /// A producer id that was never handed out (T-22).
    pub(crate) fn fresh_producer_id(&mut self, out: &mut Effects) -> ProducerId {
        self.ids.take(out)
    }

    /// Whether the claim's owner may work in its transaction with these data partitions and partitions of the offsets topic. With
    /// [`super::TransactionCheck::Add`] the answer may hold a record: append it before anything that relies on it (T-65, T-163).
    pub(crate) fn admit(
        &self,
        now: Millis,
        claim: &TransactionClaim,
        data: &[TopicPartition],
        offsets: &[i32],
    ) -> Result<Option<LogRecord>, Refused<TransactionError>> {
        let refused = |error, facts| Refused::by(claim.rule(), error, facts);
        if claim.transactional_id.is_empty() {
            return Err(refused(TransactionError::NoId, Facts::None));
        }
        let unknown = || refused(TransactionError::UnknownProducer, Facts::UnknownId);
        let known = self.table.get(&claim.transactional_id).ok_or_else(unknown)?;
        known.admit(claim, data, offsets, now)
    }

    /// InitProducerId with a transactional id (T-23 to T-34).
    pub(crate) fn init(
        &mut self,
        now: Millis,
        transactional_id: &str,
        timeout: Millis,
        given: Option<(ProducerId, ProducerEpoch)>,
        out: &mut Effects,
    ) -> Result<Initialised, Refused<InitError>> {
        if transactional_id.is_empty() {
            return Err(Refused::by("T-23", InitError::NoId, Facts::None));
        }
        if timeout.0 <= 0 || timeout > self.max_timeout {
            let facts = Facts::Bounds { given: timeout.0, least: 1, most: self.max_timeout.0 };
            return Err(Refused::by("T-25", InitError::BadTimeout, facts));
        }
        let state = match self.table.get(transactional_id) {
            None => Transaction::created(transactional_id.to_owned(), self.ids.take(out), timeout, now),
            Some(known) => match known.init(given, timeout, now, || self.ids.take(out))? {
                Init::Become(state) => state,
                Init::Fence => return Ok(Initialised::Fence(fence(&mut self.ids, known, now, out))),
            },
        };
        let owner = Initialised::Owner(state.producer_id, state.epoch);
        let updated = TransactionUpdated { state, partitions: Vec::new(), offset_partitions: Vec::new() };
        out.append(updated);
        Ok(owner)
    }

    /// EndTxn (T-100 to T-109).
    pub(crate) fn end(
        &mut self,
        now: Millis,
        transactional_id: &str,
        ask: End,
        out: &mut Effects,
    ) -> Result<EndOutcome, Refused<EndError>> {
        let refused = |error, facts| Refused::by("T-100", error, facts);
        if transactional_id.is_empty() {
            return Err(refused(EndError::NoId, Facts::None));
        }
        let known = self.table.get(transactional_id);
        let known = known.ok_or_else(|| refused(EndError::UnknownProducer, Facts::UnknownId))?;
        match known.end(ask, now, || self.ids.take(out))? {
            Ending::Replayed(producer_id, epoch) => Ok(EndOutcome::Replayed(producer_id, epoch)),
            Ending::Now(ended) => Ok(EndOutcome::Now(decision(known, ended))),
        }
    }

    /// The abort that an administrator asks for; none if no such transaction is open.
    pub(crate) fn abort(
        &mut self,
        now: Millis,
        ask: &AbortTransaction,
        out: &mut Effects,
    ) -> Option<Decision> {
        let known = self.table.get(&ask.transactional_id)?;
        let state = &known.state;
        let asked = (ask.producer_id, ask.producer_epoch, ask.started);
        let is_it = state.status == TransactionStatus::Ongoing
            && asked == (state.producer_id, state.epoch, state.started);
        is_it.then(|| fence(&mut self.ids, known, now, out))
    }

    /// The abort of the transaction that has been overdue for longest (T-140).
    pub(crate) fn overdue(&mut self, now: Millis, out: &mut Effects) -> Option<Decision> {
        let (due, transactional_id) = self.open.first()?;
        if *due >= now {
            return None;
        }
        let known = self.table.get(transactional_id)?;
        Some(fence(&mut self.ids, known, now, out))
    }

    /// Forgets ids that were idle for too long (T-143).
    pub(crate) fn forget_idle(&self, now: Millis, out: &mut Effects) {
        let expired = self.idle.iter().take_while(|(updated, _)| now.since(*updated) >= self.expiration);
        for (_, transactional_id) in expired.take(FORGET_AT_ONCE) {
            let transactional_id = transactional_id.clone();
            out.append(TransactionForgotten { transactional_id });
        }
    }

    /// When the next transaction is overdue or the next id expires.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        let overdue = self.open.first().map(|(due, _)| due.after(Millis(1)));
        let expiry = self.idle.first().map(|(updated, _)| updated.after(self.expiration));
        overdue.into_iter().chain(expiry).min()
    }

    /// The log refused a record of the last step.
    pub(crate) fn refused(&mut self) {
        self.ids.refused();
    }

    pub(crate) fn apply(&mut self, record: &TransactionRecord, reach: &Reach) {
        let covers = |state: &TransactionState| {
            reach.covers(|| SnapshotUnit::TransactionalId(state.transactional_id.clone()))
        };
        match record {
            TransactionRecord::ProducerIdsReserved(reserved) => self.ids.apply(reserved),
            TransactionRecord::TransactionUpdated(updated) => {
                if covers(&updated.state) {
                    self.apply_updated(updated);
                }
            }
            TransactionRecord::TransactionExtended(extended) => self.apply_extended(extended),
            TransactionRecord::TransactionEnded(ended) => {
                if covers(&ended.state) {
                    self.apply_ended(ended);
                }
            }
            TransactionRecord::TransactionForgotten(forgotten) => self.apply_forgotten(forgotten),
        }
    }

    fn apply_updated(&mut self, updated: &TransactionUpdated) {
        self.put(Transaction {
            state: updated.state.clone(),
            partitions: updated.partitions.iter().copied().collect(),
            offset_partitions: updated.offset_partitions.iter().copied().collect(),
        });
    }

    fn apply_extended(&mut self, extended: &TransactionExtended) {
        if let Some(known) = self.table.get_mut(&extended.transactional_id) {
            known.partitions.extend(&extended.partitions);
            known.offset_partitions.extend(&extended.offset_partitions);
            known.state.updated = extended.at;
        }
    }

    fn apply_ended(&mut self, ended: &TransactionEnded) {
        self.put(Transaction {
            state: ended.state.clone(),
            partitions: BTreeSet::new(),
            offset_partitions: BTreeSet::new(),
        });
    }

    fn apply_forgotten(&mut self, forgotten: &TransactionForgotten) {
        if let Some(gone) = self.table.remove(&forgotten.transactional_id) {
            self.unlist(&gone.state);
        }
    }

    /// The transactional id that follows this one, or the first.
    pub(crate) fn after(&self, after: Option<&str>) -> Option<&str> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.table.range::<str, _>((from, Bound::Unbounded)).next().map(|(id, _)| id.as_str())
    }

    pub(crate) fn snapshot_ids(&self, rows: &mut Vec<LogRecord>) {
        self.ids.snapshot(rows);
    }

    pub(crate) fn snapshot_of(&self, transactional_id: &str, rows: &mut Vec<LogRecord>) {
        if let Some(known) = self.table.get(transactional_id) {
            rows.push(LogRecord::Transactions(TransactionRecord::TransactionUpdated(TransactionUpdated {
                state: known.state.clone(),
                partitions: known.partitions.iter().copied().collect(),
                offset_partitions: known.offset_partitions.iter().copied().collect(),
            })));
        }
    }

    fn put(&mut self, next: Transaction) {
        let name = next.state.transactional_id.clone();
        if let Some(before) = self.table.get(&name) {
            let before = before.state.clone();
            self.unlist(&before);
        }
        match due(&next.state) {
            (true, at) => self.open.insert((at, name.clone())),
            (false, at) => self.idle.insert((at, name.clone())),
        };
        self.table.insert(name, next);
    }

    fn unlist(&mut self, state: &TransactionState) {
        match due(state) {
            (true, at) => self.open.remove(&(at, state.transactional_id.clone())),
            (false, at) => self.idle.remove(&(at, state.transactional_id.clone())),
        };
    }
}

/// Whether the transaction is open, and its place in the order of due times.
fn due(state: &TransactionState) -> (bool, Millis) {
    match state.status {
        TransactionStatus::Ongoing => (true, state.started.after(state.timeout)),
        TransactionStatus::Empty | TransactionStatus::CompleteCommit | TransactionStatus::CompleteAbort => {
            (false, state.updated)
        }
    }
}

/// Aborts an open transaction on the broker's own account, with version 2's bump (T-06, T-33, T-34, T-140).
fn fence(ids: &mut ProducerIds, known: &Transaction, now: Millis, out: &mut Effects) -> Decision {
    decision(known, known.ended(false, now, || ids.take(out)))
}

fn decision(known: &Transaction, ended: Ended) -> Decision {
    let owner = (known.state.producer_id, known.state.epoch);
    Decision { owner, ended, partitions: known.partitions.clone() }
}
