//! The table of all transactional ids, by name and by the time of the next timeout or expiry.

mod add_to_txn;
mod command;
mod end_txn;
mod filter;
mod init_producer_id;
mod producer_ids;
mod transaction;

pub use command::{
    AbortTransaction, AbortTransactionReply, AddOffsetsToTxn, AddOffsetsToTxnReply, AddPartitionsToTxn,
    AddPartitionsToTxnReply, EndError, EndTxn, EndTxnReply, InitError, InitProducerId, InitProducerIdReply,
    NotOpen, TransactionCheck, TransactionClaim, TransactionCommand, TransactionError,
};
pub use filter::TransactionFilter;
pub use transaction::Transaction;

use crate::config::Settings;
use crate::effect::Effects;
use crate::reach::Reach;
use ottla_types::record::{
    LogRecord, SnapshotUnit, TransactionEnded, TransactionExtended, TransactionForgotten, TransactionRecord,
    TransactionState, TransactionStatus, TransactionUpdated,
};
use ottla_types::{Millis, Offset, TopicPartition};
use producer_ids::ProducerIds;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// What the markers of a transaction's end need from other machines.
#[derive(Clone, Copy)]
pub(crate) struct MarkerContext<'a> {
    /// Gives the offset that a partition's next record takes, if the partition exists.
    pub(crate) next_offset: &'a dyn Fn(TopicPartition) -> Option<Offset>,
    /// Wall time, the markers' timestamp.
    pub(crate) wall: Millis,
}

/// What commands for transactions need of other machines.
#[derive(Clone, Copy)]
pub(crate) struct Others<'a> {
    pub(crate) markers: MarkerContext<'a>,
    /// Number of partitions of the offsets topic.
    pub(crate) offsets_partitions: i32,
}

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
    /// Epoch of the coordinator in markers (T-121). It is 0 as long as one node coordinates all transactional ids.
    coordinator_epoch: i32,
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
            coordinator_epoch: 0,
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

    /// Judges a command and replies to it.
    pub(crate) fn step(
        &mut self,
        now: Millis,
        command: TransactionCommand,
        others: Others<'_>,
        out: &mut Effects,
    ) {
        match command {
            TransactionCommand::InitProducerId(command, ticket) => {
                let reply = self.init_producer_id(now, &command, others.markers, out);
                out.reply(ticket, reply);
            }
            TransactionCommand::AddPartitionsToTxn(command, ticket) => {
                let reply = self.add_partitions(now, &command, out);
                out.reply(ticket, reply);
            }
            TransactionCommand::AddOffsetsToTxn(command, ticket) => {
                let reply = self.add_offsets(now, &command, others.offsets_partitions, out);
                out.reply(ticket, reply);
            }
            TransactionCommand::EndTxn(command, ticket) => {
                let reply = self.end_txn(now, &command, others.markers, out);
                out.reply(ticket, reply);
            }
            TransactionCommand::AbortTransaction(command, ticket) => {
                let reply = self.abort_transaction(now, &command, others.markers, out);
                out.reply(ticket, reply);
            }
        }
    }

    /// Aborts an overdue transaction and forgets expired ids. One transaction in a step: the markers of the next take
    /// offsets after those of this one. The deadline stays in the past until none is overdue.
    pub(crate) fn tick(&mut self, now: Millis, markers: MarkerContext<'_>, out: &mut Effects) {
        self.abort_overdue(now, markers, out);
        self.forget_idle(now, out);
    }

    /// Forgets ids that were idle for too long (T-143).
    fn forget_idle(&self, now: Millis, out: &mut Effects) {
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
