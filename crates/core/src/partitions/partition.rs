//! A partition: its bounds, where its batches lie, its producers and its transactions.
//!
//! ```text
//!   log start        last stable        high watermark      next offset
//!      │ read by all      │ read uncommitted   │ not durable yet  │
//!      ├──────────────────┼────────────────────┼──────────────────┤
//! ```
//!
//! The high watermark is volatile: it follows what the host calls durable. All else comes from records alone.

use super::index::{Index, ReleasedData};
use super::open::{Holder, OpenTransactions};
use super::producer::{ProducerRefusal, Producers, Verdict};
use crate::refusal::Rejection;
use ottla_types::record::{
    AbortedRestored, AbortedTransaction, BatchAppended, BatchPlace, BatchesRestored, LogRecord, Marker,
    PartitionRecord, PartitionRestored, PartsInstalled, PartsRestored, ProducerRestored, ProducerState,
    RunPart, StoredBatch,
};
use ottla_types::{BatchSummary, LogPosition, Millis, Offset, ProducerId, TopicPartition};
use std::collections::VecDeque;

/// Rows of a snapshot hold at most this many batches or aborted transactions.
const ROW: usize = 1024;

/// One partition.
#[derive(Debug, Default)]
pub struct Partition {
    pub(super) log_start: Offset,
    pub(super) next_offset: Offset,
    pub(super) high_watermark: Offset,
    pub(super) index: Index,
    pub(super) producers: Producers,
    pub(super) open: OpenTransactions,
    pub(super) aborted: VecDeque<AbortedTransaction>,
}

impl Partition {
    /// The first offset that can be read.
    pub fn log_start(&self) -> Offset {
        self.log_start
    }

    /// The offset the next record takes.
    pub fn next_offset(&self) -> Offset {
        self.next_offset
    }

    /// The end of the durable records, which is the end for every reader.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// The end of what is decided: below it no transaction is open, nor one whose end is not durable (T-200, T-213).
    pub fn last_stable(&self) -> Offset {
        let unstable = self.open.first().unwrap_or(self.high_watermark).max(self.log_start);
        unstable.min(self.high_watermark)
    }

    /// What holds the last stable offset below the high watermark; none if nothing does.
    pub fn holder(&self) -> Option<Holder> {
        self.open.earliest().filter(|holder| holder.first_offset() < self.high_watermark)
    }

    /// Bytes of all batches that can be read.
    pub fn bytes(&self) -> u64 {
        self.index.bytes()
    }

    /// Its older batches, which lie in runs, in offset order.
    pub fn parts(&self) -> &[RunPart] {
        self.index.parts()
    }

    /// Its newest batches, which lie in the log, in offset order.
    pub fn tail(&self) -> impl Iterator<Item = StoredBatch> {
        self.index.tail().iter()
    }

    /// How many batches and markers lie in no run.
    pub fn tail_entries(&self) -> usize {
        self.index.tail().len()
    }

    /// Bytes of the batches and markers that lie in no run.
    pub fn tail_bytes(&self) -> u64 {
        self.index.tail().bytes()
    }

    /// Whether parts can take the place of what a range holds: the range cuts no part and no batch, no batch that lies
    /// in the log comes before it, and the parts lie in it one after the other. [`LogRecord::from`] of anything else
    /// has no effect.
    pub fn takes(&self, installed: &PartsInstalled) -> bool {
        self.index.takes(installed)
    }

    /// How many producers are known.
    pub fn producer_count(&self) -> usize {
        self.producers.count()
    }

    /// All known producers, by id (T-230).
    pub fn producers(&self) -> impl Iterator<Item = &ProducerState> {
        self.producers.iter()
    }

    /// What the partition knows of a producer.
    pub fn producer(&self, id: ProducerId) -> Option<&ProducerState> {
        self.producers.get(id)
    }

    pub(crate) fn judge_batch(
        &self,
        summary: &BatchSummary,
        first_must_be_zero: bool,
    ) -> Result<Verdict, Rejection<ProducerRefusal>> {
        self.producers.judge(summary, first_must_be_zero)
    }

    /// Takes in a batch; no judgement here (T-58).
    pub(crate) fn apply_batch(&mut self, appended: &BatchAppended, position: LogPosition) -> StoredBatch {
        let last_offset = appended.base_offset.plus(i64::from(appended.summary.last_offset_delta));
        let stored = StoredBatch {
            base_offset: appended.base_offset,
            last_offset,
            max_timestamp: appended.summary.max_timestamp,
            appended: if appended.summary.max_timestamp < Millis(0) { appended.at } else { Millis::NONE },
            place: BatchPlace::Log { position, size: appended.summary.size },
        };
        self.index.push(&stored);
        self.next_offset = last_offset.plus(1);
        if let Some(opened) = self.producers.append(appended, last_offset) {
            self.open.begin(opened, appended.summary.producer_id);
        }
        stored
    }

    /// Takes in a marker (T-128).
    pub(crate) fn apply_marker(&mut self, marker: &Marker, offset: Offset) {
        self.index.push(&StoredBatch {
            base_offset: offset,
            last_offset: offset,
            max_timestamp: marker.at,
            appended: Millis::NONE,
            place: BatchPlace::Marker(*marker),
        });
        self.next_offset = offset.plus(1);
        let Some(first_offset) = self.producers.mark(marker) else { return };
        self.open.end(first_offset, marker.producer_id, offset);
        if !marker.commit && first_offset < offset {
            let producer_id = marker.producer_id;
            self.aborted.push_back(AbortedTransaction { producer_id, first_offset, marker_offset: offset });
        }
    }

    /// Drops whole parts and batches below the new start and everything else that no client can request; returns what
    /// was dropped.
    pub(crate) fn apply_log_start(&mut self, log_start: Offset) -> ReleasedData {
        self.log_start = self.log_start.max(log_start);
        self.next_offset = self.next_offset.max(self.log_start);
        while self.aborted.front().is_some_and(|aborted| aborted.marker_offset < self.log_start) {
            self.aborted.pop_front();
        }
        self.index.drop_below(self.log_start)
    }

    /// Puts parts in the place of what a range held; returns that, or nothing if they do not fit.
    pub(crate) fn apply_installed(&mut self, installed: &PartsInstalled) -> Option<ReleasedData> {
        let released = self.index.install(installed, self.log_start)?;
        if installed.parts.iter().all(|part| part.clean) {
            self.forget_aborted(installed);
        }
        Some(released)
    }

    /// Compaction took all aborted data out of a range: no reader has to learn of transactions whose data lay in it
    /// alone. One that ends behind the range may have data there (T-212).
    fn forget_aborted(&mut self, PartsInstalled { from, to, .. }: &PartsInstalled) {
        let nothing_before = self.index.parts().first().is_none_or(|part| part.base_offset >= *from);
        let in_range = |one: &AbortedTransaction| {
            one.marker_offset <= *to && (nothing_before || one.first_offset >= *from)
        };
        self.aborted.retain(|one| !in_range(one));
    }

    pub(crate) fn apply_expired(&mut self, producers: &[ProducerId]) {
        producers.iter().for_each(|id| self.producers.forget(*id));
    }

    /// Everything below `end` is durable. True if that is news.
    pub(crate) fn advance(&mut self, end: Offset) -> bool {
        if end <= self.high_watermark {
            return false;
        }
        self.high_watermark = end;
        self.open.settle(end);
        true
    }

    pub(crate) fn apply_bounds(&mut self, row: &PartitionRestored) {
        self.log_start = row.log_start;
        self.next_offset = row.next_offset;
        self.high_watermark = row.next_offset;
    }

    pub(crate) fn apply_batches(&mut self, batches: &[StoredBatch]) {
        batches.iter().for_each(|batch| self.index.push(batch));
    }

    pub(crate) fn apply_parts(&mut self, parts: &[RunPart]) {
        self.index.restore(parts);
    }

    pub(crate) fn apply_producer(&mut self, state: &ProducerState) {
        if let Some(first_offset) = state.transaction_start {
            self.open.begin(first_offset, state.producer_id);
        }
        self.producers.put(state.clone());
    }

    pub(crate) fn apply_aborted(&mut self, aborted: &[AbortedTransaction]) {
        self.aborted.extend(aborted);
    }

    pub(crate) fn snapshot(&self, partition: TopicPartition, rows: &mut Vec<LogRecord>) {
        let (log_start, next_offset) = (self.log_start, self.next_offset);
        rows.push(LogRecord::Partitions(PartitionRecord::PartitionRestored(PartitionRestored {
            partition,
            log_start,
            next_offset,
        })));
        for parts in self.parts().chunks(ROW) {
            rows.push(LogRecord::Partitions(PartitionRecord::PartsRestored(PartsRestored {
                partition,
                parts: parts.to_vec(),
            })));
        }
        let tail: Vec<_> = self.tail().collect();
        for batches in tail.chunks(ROW) {
            rows.push(LogRecord::Partitions(PartitionRecord::BatchesRestored(BatchesRestored {
                partition,
                batches: batches.to_vec(),
            })));
        }
        for state in self.producers.iter().cloned() {
            rows.push(LogRecord::Partitions(PartitionRecord::ProducerRestored(ProducerRestored {
                partition,
                state,
            })));
        }
        let aborted: Vec<_> = self.aborted.iter().copied().collect();
        for chunk in aborted.chunks(ROW) {
            rows.push(LogRecord::Partitions(PartitionRecord::AbortedRestored(AbortedRestored {
                partition,
                aborted: chunk.to_vec(),
            })));
        }
    }

    /// All that it holds, when it goes.
    pub(crate) fn release(&self) -> ReleasedData {
        self.index.release()
    }
}
