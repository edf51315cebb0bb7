//! The table of all partitions, their records that wait to become durable, and the ranges of the log that they use.

mod batch_size;
mod command;
mod delete_records;
mod index;
mod live;
mod lru;
mod open;
mod partition;
mod produce;
mod producer;
mod retention;
mod rewrite;
mod runs;
mod sweep;
mod tail;
mod view;
mod write_txn_markers;

pub(crate) use batch_size::size;
pub use command::{
    AppendResult, DeleteRecords, DeleteRecordsError, DeleteRecordsReply, MarkerError, PartitionCommand,
    Produce, ProduceBatch, ProduceError, ProduceReply, TxnMarker, WriteTxnMarkers, WriteTxnMarkersReply,
};
pub use index::Source;
pub use open::Holder;
pub use partition::Partition;
pub(crate) use rewrite::Planner;
pub use rewrite::{
    Hole, Install, InstallParts, MergeRange, PartLimits, RetentionClass, RunBounds, RunEnds, RunsPlan,
    TailPlan, TailRange,
};
pub use runs::RunUse;
pub use view::{Isolation, OutOfRange, ReadPlan};

use crate::catalog::Catalog;
use crate::effect::{Effects, RecordPosition};
use crate::reach::Reach;
use crate::transactions::Transactions;
use index::ReleasedData;
use live::LiveBytes;
use lru::ProducerLru;
use ottla_types::record::{
    AbortedRestored, BatchAppended, BatchesRestored, CatalogRecord, LogRecord, LogStartMoved, Marker,
    MarkerAppended, PartitionRecord, PartitionRestored, PartsInstalled, PartsRestored, ProducerRestored,
    ProducersExpired, SnapshotUnit, TransactionRecord,
};
use ottla_types::{LogPosition, Millis, Offset, ProducerId, TopicId, TopicPartition};
use runs::Runs;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use sweep::Sweeps;

/// A partition's end after a record at this position.
#[derive(Debug)]
struct Pending {
    position: LogPosition,
    partition: TopicPartition,
    end: Offset,
}

/// All partitions of a shard.
#[derive(Debug, Default)]
pub struct Partitions {
    table: BTreeMap<TopicPartition, Partition>,
    pending: VecDeque<Pending>,
    live: LiveBytes,
    runs: Runs,
    /// Batches and markers that lie in no run.
    tail: u64,
    lru: ProducerLru,
    sweeps: Sweeps,
}

/// The other machines, as far as commands for partitions need them.
#[derive(Clone, Copy)]
pub(crate) struct Others<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) transactions: &'a Transactions,
    /// Wall time, for timestamps.
    pub(crate) wall: Millis,
}

impl Partitions {
    /// Judges a command and replies to it.
    pub(crate) fn step(&self, now: Millis, command: PartitionCommand, others: Others<'_>, out: &mut Effects) {
        match command {
            PartitionCommand::Produce(command, ticket) => {
                let reply = self.produce(now, command, others, out);
                out.reply(ticket, reply);
            }
            PartitionCommand::WriteTxnMarkers(command, ticket) => {
                let reply = self.write_txn_markers(others.wall, &command, out);
                out.reply(ticket, reply);
            }
            PartitionCommand::DeleteRecords(command, ticket) => {
                let reply = self.delete_records(&command, others.catalog, out);
                out.reply(ticket, reply);
            }
            PartitionCommand::InstallParts(command) => self.install_parts(command, out),
        }
    }

    /// The partition, if it exists.
    pub fn get(&self, at: TopicPartition) -> Option<&Partition> {
        self.table.get(&at)
    }

    /// All partitions, in order.
    pub fn iter(&self) -> impl Iterator<Item = (TopicPartition, &Partition)> {
        self.table.iter().map(|(at, partition)| (*at, partition))
    }

    /// The partitions in a range, in order.
    pub(crate) fn range(
        &self,
        range: (Bound<TopicPartition>, Bound<TopicPartition>),
    ) -> impl Iterator<Item = (TopicPartition, &Partition)> {
        self.table.range(range).map(|(at, partition)| (*at, partition))
    }

    /// A position at or before the first byte of the log that a batch still needs; none if no batch needs any.
    pub fn oldest_live(&self) -> Option<LogPosition> {
        self.live.oldest()
    }

    /// False only if no batch needs a byte of the log from `start` up to `end`. Exact for multiples of 64 KiB.
    pub fn needs_log(&self, start: LogPosition, end: LogPosition) -> bool {
        self.live.any_in(start, end)
    }

    /// The runs that hold something readable, by number.
    pub fn runs(&self) -> impl Iterator<Item = (u64, RunUse)> {
        self.runs.iter()
    }

    /// What a run holds that can be read; none if nothing.
    pub fn run(&self, number: u64) -> Option<RunUse> {
        self.runs.get(number)
    }

    /// How many batches and markers of all partitions lie in no run: each costs memory.
    pub fn tail_entries(&self) -> u64 {
        self.tail
    }

    fn release(&mut self, released: &ReleasedData) {
        released.batches.iter().for_each(|batch| self.live.remove(batch));
        released.parts.iter().for_each(|part| self.runs.remove(part));
        self.tail -= released.batches.len() as u64;
    }

    fn apply_topic_deleted(&mut self, topic: TopicId) {
        let from = TopicPartition { topic, partition: 0 };
        let to = TopicPartition { topic, partition: i32::MAX };
        let gone: Vec<_> = self.table.range(from..=to).map(|(at, _)| *at).collect();
        for at in gone {
            if let Some(partition) = self.table.remove(&at) {
                self.release(&partition.release());
            }
        }
    }

    pub(crate) fn apply(&mut self, at: RecordPosition, record: &PartitionRecord) {
        match record {
            PartitionRecord::BatchAppended(appended) => self.apply_batch(at, appended),
            PartitionRecord::MarkerAppended(MarkerAppended { partition, marker, offset }) => {
                self.apply_marker(at.position, *partition, marker, *offset);
            }
            PartitionRecord::LogStartMoved(moved) => self.apply_log_start(moved),
            PartitionRecord::ProducersExpired(expired) => self.apply_expired(expired),
            PartitionRecord::PartsInstalled(installed) => self.apply_installed(installed),
            PartitionRecord::PartitionRestored(row) => self.apply_bounds(row),
            PartitionRecord::PartsRestored(row) => self.apply_parts(row),
            PartitionRecord::BatchesRestored(row) => self.apply_batches(row),
            PartitionRecord::ProducerRestored(row) => self.apply_producer(row),
            PartitionRecord::AbortedRestored(row) => self.apply_aborted(row),
        }
    }

    /// Partitions begin and end with their topic.
    pub(crate) fn apply_catalog(&mut self, record: &CatalogRecord, reach: &Reach) {
        match record {
            CatalogRecord::TopicCreated(created) => self.make(created.id, created.partitions, reach),
            CatalogRecord::PartitionsAdded(added) => self.make(added.id, added.partitions, reach),
            CatalogRecord::TopicDeleted(deleted) => self.apply_topic_deleted(deleted.id),
            CatalogRecord::ClusterCreated(_)
            | CatalogRecord::TopicConfigured(_)
            | CatalogRecord::BrokerConfigured(_) => {}
        }
    }

    /// The end of a transaction writes its markers.
    pub(crate) fn apply_transaction(&mut self, position: LogPosition, record: &TransactionRecord) {
        match record {
            TransactionRecord::TransactionEnded(ended) => {
                for (at, offset) in &ended.partitions {
                    self.apply_marker(position, *at, &ended.marker, *offset);
                }
            }
            TransactionRecord::ProducerIdsReserved(_)
            | TransactionRecord::TransactionUpdated(_)
            | TransactionRecord::TransactionExtended(_)
            | TransactionRecord::TransactionForgotten(_) => {}
        }
    }

    fn make(&mut self, topic: TopicId, count: i32, reach: &Reach) {
        for partition in 0..count {
            let at = TopicPartition { topic, partition };
            if reach.covers(|| SnapshotUnit::Partition(at)) {
                self.table.entry(at).or_default();
            }
        }
    }

    fn apply_batch(&mut self, at: RecordPosition, appended: &BatchAppended) {
        let Some(partition) = self.table.get_mut(&appended.partition) else { return };
        let known = partition.producer_count();
        let stored = partition.apply_batch(appended, at.payload);
        self.live.add(&stored);
        if partition.producer_count() > known
            && let Some(state) = partition.producer(appended.summary.producer_id)
        {
            self.lru.note(appended.partition, state);
        }
        self.tail += 1;
        let end = partition.next_offset();
        self.pending.push_back(Pending { position: at.position, partition: appended.partition, end });
    }

    fn apply_marker(&mut self, position: LogPosition, at: TopicPartition, marker: &Marker, offset: Offset) {
        let Some(partition) = self.table.get_mut(&at) else { return };
        partition.apply_marker(marker, offset);
        self.tail += 1;
        self.pending.push_back(Pending { position, partition: at, end: partition.next_offset() });
    }

    fn apply_log_start(&mut self, moved: &LogStartMoved) {
        let Some(partition) = self.table.get_mut(&moved.partition) else { return };
        let dropped = partition.apply_log_start(moved.log_start);
        self.release(&dropped);
    }

    /// A deleted partition has no use for parts, nor has one whose log starts behind them.
    fn apply_installed(&mut self, installed: &PartsInstalled) {
        let Some(partition) = self.table.get_mut(&installed.partition) else { return };
        let log_start = partition.log_start();
        let Some(released) = partition.apply_installed(installed) else { return };
        let kept = installed.parts.iter().filter(|part| part.last_offset >= log_start);
        kept.for_each(|part| self.runs.add(part));
        self.release(&released);
    }

    fn apply_expired(&mut self, expired: &ProducersExpired) {
        let Some(partition) = self.table.get_mut(&expired.partition) else { return };
        let gone = expired.producers.iter().filter_map(|id| partition.producer(*id));
        gone.for_each(|state| self.lru.drop(expired.partition, state));
        partition.apply_expired(&expired.producers);
    }

    /// Whether there may be more than `most` producers without transactions. Never false if there are.
    pub(crate) fn has_producers_over(&self, most: usize) -> bool {
        self.lru.len() > most
    }

    /// Those of the producers without transactions that are least recently used, by partition: `most` at most, so that
    /// no more than `leave` are left.
    pub(crate) fn least_recently_used(
        &mut self,
        leave: usize,
        most: usize,
    ) -> BTreeMap<TopicPartition, Vec<ProducerId>> {
        let table = &self.table;
        let found = self.lru.least(leave, most, |at, id| table.get(&at)?.producer(id));
        let mut by_partition = BTreeMap::<_, Vec<_>>::new();
        for (at, producer) in found {
            by_partition.entry(at).or_default().push(producer);
        }
        by_partition
    }

    fn apply_bounds(&mut self, row: &PartitionRestored) {
        self.table.entry(row.partition).or_default().apply_bounds(row);
    }

    fn apply_batches(&mut self, row: &BatchesRestored) {
        row.batches.iter().for_each(|batch| self.live.add(batch));
        self.tail += row.batches.len() as u64;
        self.table.entry(row.partition).or_default().apply_batches(&row.batches);
    }

    fn apply_parts(&mut self, row: &PartsRestored) {
        row.parts.iter().for_each(|part| self.runs.add(part));
        self.table.entry(row.partition).or_default().apply_parts(&row.parts);
    }

    fn apply_producer(&mut self, row: &ProducerRestored) {
        self.lru.note(row.partition, &row.state);
        self.table.entry(row.partition).or_default().apply_producer(&row.state);
    }

    fn apply_aborted(&mut self, row: &AbortedRestored) {
        self.table.entry(row.partition).or_default().apply_aborted(&row.aborted);
    }

    /// The partition that follows this one, or the first.
    pub(crate) fn after(&self, after: Option<TopicPartition>) -> Option<TopicPartition> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.table.range((from, Bound::Unbounded)).next().map(|(at, _)| *at)
    }

    pub(crate) fn snapshot_of(&self, at: TopicPartition, rows: &mut Vec<LogRecord>) {
        if let Some(partition) = self.table.get(&at) {
            partition.snapshot(at, rows);
        }
    }

    /// Everything in the log before `durable` is durable: high watermarks follow, readers are woken.
    pub(crate) fn durable(&mut self, durable: LogPosition, out: &mut Effects) {
        let mut advanced = BTreeSet::new();
        while let Some(pending) = self.pending.pop_front_if(|pending| pending.position < durable) {
            let Some(partition) = self.table.get_mut(&pending.partition) else { continue };
            if partition.advance(pending.end) {
                advanced.insert(pending.partition);
            }
        }
        advanced.into_iter().for_each(|at| out.advanced(at));
    }
}
