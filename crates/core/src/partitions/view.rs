//! What readers may see of a partition.

use super::Partition;
use super::batch_size::size;
use super::index::Source;
use crate::refusal::Refusal;
use ottla_types::record::{AbortedTransaction, RunPart, StoredBatch};
use ottla_types::{Millis, Offset};
use std::fmt::{self, Display};

/// The isolation level of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Everything that is durable (T-203).
    Uncommitted,
    /// Only what is decided (T-201).
    Committed,
}

/// The plan of a read: the batches that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// Where the batches are, in offset order; the first one of all holds the asked offset, or follows it. Only the
    /// last source may hold more than fits: it is read up to `max_bytes` of the whole plan.
    pub sources: Vec<Source>,
    /// Bytes of all of them, and of the last one no more than fits. Inside a part they are estimated: by its share of
    /// the offsets.
    pub bytes: u64,
    /// No more than this is read, but for a first batch that is larger.
    pub most: u64,
    /// The most bytes that are to be read, in whole batches.
    pub max_bytes: u64,
    /// The first batch is read even if it is larger than that.
    pub first_whole: bool,
    /// The end of what is durable.
    pub high_watermark: Offset,
    /// The end of what is decided, whatever the isolation (T-204).
    pub last_stable: Offset,
    /// The first offset that can be read.
    pub log_start: Offset,
    /// Aborted transactions that touch these sources, by marker offset; empty unless only committed data was asked for
    /// (T-205).
    pub aborted: Vec<AbortedTransaction>,
}

impl ReadPlan {
    /// The sources that are single batches in the log.
    pub fn batches(&self) -> impl Iterator<Item = &StoredBatch> + Clone {
        self.sources.iter().filter_map(|source| match source {
            Source::Batch(batch) => Some(batch),
            Source::Part { .. } => None,
        })
    }

    /// The last offset that its sources may hold; none if there is none.
    pub fn last_offset(&self) -> Option<Offset> {
        self.sources.last().map(Source::last_offset)
    }

    /// Leaves out the aborted transactions that begin behind `last`, the last offset that was read in the end.
    pub fn trim_aborted(&mut self, last: Offset) {
        self.aborted.retain(|aborted| aborted.first_offset <= last);
    }
}

impl Source {
    /// The first offset it may hold.
    pub fn base_offset(&self) -> Offset {
        match self {
            Source::Batch(batch) => batch.base_offset,
            Source::Part { part, from, .. } => part.base_offset.max(*from),
        }
    }

    /// The largest timestamp in it, -1 for none.
    pub fn max_timestamp(&self) -> Millis {
        match self {
            Source::Batch(batch) => batch.max_timestamp,
            Source::Part { part, .. } => part.max_timestamp,
        }
    }

    /// The last offset it may hold.
    pub fn last_offset(&self) -> Offset {
        match self {
            Source::Batch(batch) => batch.last_offset,
            Source::Part { part, to, .. } => part.last_offset.min(to.plus(-1)),
        }
    }
}

/// The asked offset is below the start of the log, or beyond its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The asked offset.
    pub asked: Offset,
    /// The first offset that can be read.
    pub log_start: Offset,
    /// The end of what can be read.
    pub high_watermark: Offset,
}

impl Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutOfRange { asked, log_start, high_watermark } = self;
        write!(f, "offset {} is not between the start of the log, {}, ", asked.0, log_start.0)?;
        write!(f, "and the high watermark, {}", high_watermark.0)
    }
}

impl Refusal for OutOfRange {
    fn rule(&self) -> Option<&'static str> {
        None
    }
}

impl Partition {
    /// The batches from `from` on, as many as fit into `max_bytes`. With `first_whole` the first batch comes even if it
    /// does not fit.
    ///
    /// # Errors
    /// `from` is not between the start of the log and the high watermark.
    pub fn read(
        &self,
        from: Offset,
        max_bytes: u64,
        first_whole: bool,
        isolation: Isolation,
    ) -> Result<ReadPlan, OutOfRange> {
        if from < self.log_start || from > self.high_watermark {
            return Err(OutOfRange {
                asked: from,
                log_start: self.log_start,
                high_watermark: self.high_watermark,
            });
        }
        let end = self.end(isolation);
        let mut taken = ReadCollector { sources: Vec::new(), bytes: 0, most: 0, max_bytes, first_whole };
        let parts = self.index.parts_from(from).iter().take_while(|part| part.base_offset.max(from) < end);
        let full =
            parts.map(|part| Source::Part { part: *part, from, to: end }).any(|source| !taken.take(source));
        if !full {
            let batches = self.index.tail().from(from).take_while(|batch| batch.last_offset < end);
            let _full = batches.map(Source::Batch).any(|source| !taken.take(source));
        }
        let ReadCollector { sources, bytes, most, .. } = taken;
        let aborted = match (isolation, sources.last()) {
            (Isolation::Committed, Some(last)) => self.aborted_between(from, last.last_offset()),
            _ => Vec::new(),
        };
        Ok(ReadPlan {
            sources,
            bytes,
            most,
            max_bytes,
            first_whole,
            high_watermark: self.high_watermark,
            last_stable: self.last_stable(),
            log_start: self.log_start,
            aborted,
        })
    }

    /// Bytes that a read from `from` could get, counted up to `enough` (whole batches). Inside a part they are
    /// estimated: by its share of the offsets.
    pub fn readable_bytes(&self, from: Offset, enough: u64, isolation: Isolation) -> u64 {
        let end = self.end(isolation);
        let mut bytes = 0;
        for part in self.index.parts_from(from).iter().take_while(|part| part.base_offset.max(from) < end) {
            bytes += share(part, from, end);
            if bytes >= enough {
                return bytes;
            }
        }
        bytes + self.index.tail().bytes_between(from, end, enough - bytes)
    }

    /// The end of what a reader sees (T-210).
    pub fn end(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::Uncommitted => self.high_watermark,
            Isolation::Committed => self.last_stable(),
        }
    }

    /// What may hold the first record from an offset on, of this time or later; the record itself is found in its
    /// bytes.
    pub fn find_time(&self, time: Millis, from: Offset, isolation: Isolation) -> Option<Source> {
        let end = self.end(isolation);
        let source = self.index.at_time(time, from, end)?;
        let readable = match &source {
            // The log may start, and so what is decided end, within a batch.
            Source::Batch(batch) => batch.last_offset < end,
            Source::Part { .. } => source.base_offset() < end,
        };
        readable.then_some(source)
    }

    /// What holds the record with the latest timestamp (ListOffsets, KIP-734); none if it lies beyond the end.
    pub fn find_latest_time(&self, isolation: Isolation) -> Option<Source> {
        let end = self.end(isolation);
        self.index.latest_time(end).filter(|source| source.base_offset() < end)
    }

    /// Where a leader epoch ends: epoch and offset. `current` is the partition's leader epoch, the only one that its
    /// log knows.
    pub fn end_of_epoch(&self, leader_epoch: i32, current: i32) -> Option<(i32, Offset)> {
        (leader_epoch == current).then_some((current, self.high_watermark))
    }

    /// Aborted transactions with records or their marker between these offsets, inclusive, by marker offset.
    pub fn aborted_between(&self, from: Offset, last: Offset) -> Vec<AbortedTransaction> {
        let first = self.aborted.partition_point(|aborted| aborted.marker_offset < from);
        let touched = |aborted: &&AbortedTransaction| aborted.first_offset <= last;
        self.aborted.range(first..).filter(touched).copied().collect()
    }
}

/// About how many bytes of a part lie from an offset on and before an end: its share of the offsets.
fn share(part: &RunPart, from: Offset, to: Offset) -> u64 {
    let all = part.last_offset.0 - part.base_offset.0 + 1;
    let some = part.last_offset.plus(1).min(to).0 - part.base_offset.max(from).0;
    if some >= all {
        return part.bytes;
    }
    let bytes = i128::from(part.bytes) * i128::from(some.max(0)) / i128::from(all.max(1));
    u64::try_from(bytes).unwrap_or(part.bytes).max(1)
}

/// What a read takes until it has enough.
struct ReadCollector {
    sources: Vec<Source>,
    bytes: u64,
    most: u64,
    max_bytes: u64,
    first_whole: bool,
}

impl ReadCollector {
    /// Takes a source, or does not. False if no more can be taken: what follows a source that is not read whole would
    /// leave a gap.
    fn take(&mut self, source: Source) -> bool {
        let left = self.max_bytes.saturating_sub(self.most);
        let must = self.first_whole && self.sources.is_empty();
        let (bytes, most, fits) = match &source {
            Source::Batch(batch) => {
                let bytes = u64::from(size(batch));
                (bytes, bytes, bytes <= left)
            }
            Source::Part { part, from, to } => {
                let fits = part.bytes <= left;
                (share(part, *from, *to).min(left.max(1)), part.bytes.min(left), fits)
            }
        };
        let cut = matches!(source, Source::Part { .. }) && left > 0;
        if !fits && !must && !cut {
            return false;
        }
        self.bytes += bytes;
        self.most += most;
        self.sources.push(source);
        fits
    }
}
