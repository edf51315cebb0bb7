//! The index of a partition, from offsets to batches: parts of runs first, then the batches that still lie in the log.
//!
//! ```text
//!   log start                                                next offset
//!      ├── part ──┼── part ──────┼── part ──┼ batch ┼ batch ┼ batch ┤
//! ```

use super::tail::Tail;
use ottla_types::record::{PartsInstalled, RunPart, StoredBatch};
use ottla_types::{Millis, Offset};
use std::ops::Range;

/// A piece of what a reader gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// One batch, whole.
    Batch(StoredBatch),
    /// The batches of a part from the one that holds `from`, or else follows it, that end before `to`.
    Part {
        /// The part.
        part: RunPart,
        /// Where the reader begins.
        from: Offset,
        /// The end, exclusive.
        to: Offset,
    },
}

/// What a partition releases.
#[derive(Debug, Default)]
pub(crate) struct ReleasedData {
    pub(super) parts: Vec<RunPart>,
    pub(super) batches: Vec<StoredBatch>,
}

/// The batches of a partition in offset order.
#[derive(Debug, Default)]
pub(super) struct Index {
    parts: Vec<RunPart>,
    tail: Tail,
    /// Bytes of the parts.
    bytes: u64,
}

impl Index {
    pub(super) fn push(&mut self, batch: &StoredBatch) {
        self.tail.push(batch);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.tail.bytes()
    }

    pub(super) fn parts(&self) -> &[RunPart] {
        &self.parts
    }

    pub(super) fn tail(&self) -> &Tail {
        &self.tail
    }

    /// The parts from the one that holds `offset`, or else follows it, onwards.
    pub(super) fn parts_from(&self, offset: Offset) -> &[RunPart] {
        let first = self.parts.partition_point(|part| part.last_offset < offset);
        self.parts.get(first..).unwrap_or_default()
    }

    /// What may hold the first record from `from` on, of this time or later.
    pub(super) fn at_time(&self, time: Millis, from: Offset, to: Offset) -> Option<Source> {
        let part = self.parts_from(from).iter().find(|part| part.max_timestamp >= time);
        let part = part.map(|part| Source::Part { part: *part, from, to });
        part.or_else(|| self.tail.at_time(time, from).map(Source::Batch))
    }

    /// What holds the first record with the largest timestamp of all, which is -1 if no record has any; none if there
    /// is nothing.
    pub(super) fn latest_time(&self, to: Offset) -> Option<Source> {
        let batch = self.tail.latest_time();
        let latest = self.parts.iter().map(|part| part.max_timestamp).max();
        let part = latest.and_then(|latest| self.parts.iter().find(|part| part.max_timestamp == latest));
        match (part, batch) {
            (Some(part), Some(batch)) if batch.max_timestamp > part.max_timestamp => {
                Some(Source::Batch(batch))
            }
            (Some(part), _) => Some(Source::Part { part: *part, from: part.base_offset, to }),
            (None, batch) => batch.map(Source::Batch),
        }
    }

    /// Takes out the parts and batches that end before `offset`.
    pub(super) fn drop_below(&mut self, offset: Offset) -> ReleasedData {
        let count = self.parts.partition_point(|part| part.last_offset < offset);
        let parts: Vec<_> = self.parts.drain(..count).collect();
        self.bytes -= bytes(&parts);
        ReleasedData { parts, batches: self.tail.drop_front(self.tail.count_below(offset)) }
    }

    /// Whether a range can be replaced by these parts: it cuts no part and no batch, no batch in the log lies before
    /// it, and the parts lie in it one after the other.
    pub(super) fn takes(&self, installed: &PartsInstalled) -> bool {
        self.range(installed).is_some() && in_order(installed)
    }

    /// Replaces what a range holds with parts that begin at or after `log_start` or hold it. Returns what the range
    /// held; none, without any change, if the parts do not fit.
    pub(super) fn install(&mut self, installed: &PartsInstalled, log_start: Offset) -> Option<ReleasedData> {
        let (parts, batches) = self.range(installed).filter(|_| in_order(installed))?;
        let kept = installed.parts.iter().filter(|part| part.last_offset >= log_start).copied();
        self.bytes += kept.clone().map(|part| part.bytes).sum::<u64>();
        let parts: Vec<_> = self.parts.splice(parts, kept).collect();
        self.bytes -= bytes(&parts);
        Some(ReleasedData { parts, batches: self.tail.drop_front(batches) })
    }

    /// What a range holds: parts, and how many of the first batches in the log.
    fn range(&self, PartsInstalled { from, to, .. }: &PartsInstalled) -> Option<(Range<usize>, usize)> {
        let first = self.parts.partition_point(|part| part.last_offset < *from);
        let end = self.parts.partition_point(|part| part.base_offset <= *to).max(first);
        let inside = |part: &RunPart| part.base_offset >= *from && part.last_offset <= *to;
        let batches = self.tail.count_below(to.plus(1));
        let before = batches > 0 && self.tail.iter().next().is_some_and(|batch| batch.base_offset < *from);
        let cut = self.tail.from(to.plus(1)).next().is_some_and(|batch| batch.base_offset <= *to);
        let whole = self.parts.get(first..end)?.iter().all(inside) && !before && !cut;
        (from <= to && whole).then_some((first..end, batches))
    }

    pub(super) fn restore(&mut self, parts: &[RunPart]) {
        self.bytes += bytes(parts);
        self.parts.extend_from_slice(parts);
    }

    /// Everything.
    pub(super) fn release(&self) -> ReleasedData {
        ReleasedData { parts: self.parts.clone(), batches: self.tail.iter().collect() }
    }
}

fn in_order(PartsInstalled { from, to, parts, .. }: &PartsInstalled) -> bool {
    let apart = parts.is_sorted_by(|one, next| one.last_offset < next.base_offset);
    let inside = |part: &RunPart| part.base_offset <= part.last_offset && part.last_offset <= *to;
    apart && parts.iter().all(inside) && parts.first().is_none_or(|part| part.base_offset >= *from)
}

fn bytes(parts: &[RunPart]) -> u64 {
    parts.iter().map(|part| part.bytes).sum()
}
