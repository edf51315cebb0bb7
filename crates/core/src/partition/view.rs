//! What readers may see of a partition.

use super::index::size;
use super::{LEADER_EPOCH, Partition};
use crate::refusal::Refusal;
use ottla_types::record::{AbortedTransaction, StoredBatch};
use ottla_types::{Millis, Offset};
use std::fmt::{self, Display};

/// What a reader wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Everything that is durable (T-203).
    Uncommitted,
    /// Only what is decided (T-201).
    Committed,
}

/// What a read gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// Whole batches in offset order; the first one holds the asked offset, or follows it.
    pub batches: Vec<StoredBatch>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The end of what is durable.
    pub high_watermark: Offset,
    /// The end of what is decided, whatever the isolation (T-204).
    pub last_stable: Offset,
    /// The first offset that can be read.
    pub log_start: Offset,
    /// Aborted transactions that touch these batches, by marker offset; empty unless only committed data was asked for (T-205).
    pub aborted: Vec<AbortedTransaction>,
}

impl ReadPlan {
    /// How many offsets the batches span.
    pub fn offsets(&self) -> u64 {
        let span = |batch: &StoredBatch| u64::try_from(batch.last_offset.0 - batch.base_offset.0 + 1);
        self.batches.iter().map(|batch| span(batch).unwrap_or(0)).sum()
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
    /// The batches from `from` on, as many as fit into `max_bytes`. With `first_whole` the first batch comes even if it does
    /// not fit.
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
        let mut batches = Vec::new();
        let mut bytes = 0;
        for batch in self.index.from(from).take_while(|batch| batch.last_offset < self.end(isolation)) {
            let total = bytes + u64::from(size(batch));
            if total > max_bytes && !(first_whole && batches.is_empty()) {
                break;
            }
            bytes = total;
            batches.push(*batch);
        }
        let aborted = self.aborted_in(from, &batches, isolation);
        Ok(ReadPlan {
            batches,
            bytes,
            high_watermark: self.high_watermark,
            last_stable: self.last_stable(),
            log_start: self.log_start,
            aborted,
        })
    }

    /// Bytes that a read from `from` could get, counted up to `enough` (whole batches).
    pub fn readable_bytes(&self, from: Offset, enough: u64, isolation: Isolation) -> u64 {
        let end = self.end(isolation);
        let mut bytes = 0;
        for batch in self.index.from(from).take_while(|batch| batch.last_offset < end) {
            bytes += u64::from(size(batch));
            if bytes >= enough {
                break;
            }
        }
        bytes
    }

    /// The end of what a reader sees (T-210).
    pub fn end(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::Uncommitted => self.high_watermark,
            Isolation::Committed => self.last_stable(),
        }
    }

    /// The first batch from an offset on with a record of this time or later; the record itself is found in its bytes.
    pub fn find_time(&self, time: Millis, from: Offset, isolation: Isolation) -> Option<StoredBatch> {
        self.index.at_time(time, from, self.end(isolation)).copied()
    }

    /// The batch with the latest timestamp (ListOffsets, KIP-734).
    pub fn find_latest_time(&self, isolation: Isolation) -> Option<StoredBatch> {
        self.index.latest_time(self.end(isolation)).copied()
    }

    /// Where a leader epoch ends: epoch and offset, none if the log knows no such epoch.
    pub fn end_of_epoch(&self, leader_epoch: i32) -> Option<(i32, Offset)> {
        (leader_epoch == LEADER_EPOCH).then_some((LEADER_EPOCH, self.high_watermark))
    }

    /// Aborted transactions whose marker is at or after the asked offset and that began before the end of the batches (T-205).
    fn aborted_in(
        &self,
        from: Offset,
        batches: &[StoredBatch],
        isolation: Isolation,
    ) -> Vec<AbortedTransaction> {
        match (isolation, batches.last()) {
            (Isolation::Committed, Some(last)) => self.aborted_between(from, last.last_offset),
            _ => Vec::new(),
        }
    }

    /// Aborted transactions with records or their marker between these offsets, inclusive, by marker offset.
    pub fn aborted_between(&self, from: Offset, last: Offset) -> Vec<AbortedTransaction> {
        let first = self.aborted.partition_point(|aborted| aborted.marker_offset < from);
        let touched = |aborted: &&AbortedTransaction| aborted.first_offset <= last;
        self.aborted.range(first..).filter(touched).copied().collect()
    }
}
