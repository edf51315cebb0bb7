//! From an offset to the batch that holds it.

use ottla_types::record::{BatchPlace, StoredBatch};
use ottla_types::{Millis, Offset};
use std::collections::VecDeque;

/// Size of a marker's batch (T-120), counted like any other.
pub(super) const MARKER_BYTES: u32 = 78;

/// The batches of a partition in offset order.
#[derive(Debug, Default)]
pub(super) struct BatchIndex {
    batches: VecDeque<StoredBatch>,
    bytes: u64,
}

impl BatchIndex {
    pub(super) fn push(&mut self, batch: StoredBatch) {
        self.bytes += u64::from(size(&batch));
        self.batches.push_back(batch);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &StoredBatch> {
        self.batches.iter()
    }

    /// The batches from the one that holds `offset`, or else follows it, onwards.
    pub(super) fn from(&self, offset: Offset) -> impl Iterator<Item = &StoredBatch> {
        let first = self.batches.partition_point(|batch| batch.last_offset < offset);
        self.batches.range(first..)
    }

    /// The first batch from `from` on and below `end` that may hold a record of this time or later. A linear walk: timestamps
    /// have no order.
    pub(super) fn at_time(&self, time: Millis, from: Offset, end: Offset) -> Option<&StoredBatch> {
        self.from(from)
            .take_while(|batch| batch.base_offset < end)
            .find(|batch| batch.max_timestamp >= time && matches!(batch.place, BatchPlace::Log { .. }))
    }

    /// The first batch below `end` with the largest timestamp of all.
    pub(super) fn latest_time(&self, end: Offset) -> Option<&StoredBatch> {
        let readable = self.batches.iter().take_while(|batch| batch.base_offset < end);
        readable
            .filter(|batch| matches!(batch.place, BatchPlace::Log { .. }) && batch.max_timestamp >= Millis(0))
            .reduce(|best, batch| if batch.max_timestamp > best.max_timestamp { batch } else { best })
    }

    /// Takes out the batches that end before `offset`.
    pub(super) fn drop_below(&mut self, offset: Offset) -> Vec<StoredBatch> {
        let count = self.batches.partition_point(|batch| batch.last_offset < offset);
        let dropped: Vec<_> = self.batches.drain(..count).collect();
        self.bytes -= dropped.iter().map(|batch| u64::from(size(batch))).sum::<u64>();
        dropped
    }

    /// All batches, in runs of at most `length`.
    pub(super) fn rows(&self, length: usize) -> impl Iterator<Item = Vec<StoredBatch>> {
        let starts = (0..self.batches.len()).step_by(length);
        starts.map(move |start| self.batches.iter().skip(start).take(length).copied().collect())
    }
}

/// Bytes of a batch as clients see it.
pub(super) fn size(batch: &StoredBatch) -> u32 {
    match batch.place {
        BatchPlace::Log { size, .. } => size,
        BatchPlace::Marker(_) => MARKER_BYTES,
    }
}
