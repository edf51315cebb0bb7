//! Which parts of the log still hold batches that can be read.

use ottla_types::LogPosition;
use ottla_types::record::{BatchPlace, StoredBatch};
use std::collections::BTreeMap;

/// The log is accounted for in slices of this many bytes: as fine as the smallest segment, coarse enough to be few.
const SLICE: u64 = 64 << 10;

/// Batches in each slice of the log that has any.
#[derive(Debug, Default)]
pub(super) struct LiveBytes {
    slices: BTreeMap<u64, u64>,
}

impl LiveBytes {
    pub(super) fn add(&mut self, batch: &StoredBatch) {
        for slice in slices(batch) {
            *self.slices.entry(slice).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, batch: &StoredBatch) {
        for slice in slices(batch) {
            let Some(count) = self.slices.get_mut(&slice) else { continue };
            *count -= 1;
            if *count == 0 {
                self.slices.remove(&slice);
            }
        }
    }

    /// A position at or before the first live byte, by less than a slice.
    pub(super) fn oldest(&self) -> Option<LogPosition> {
        self.slices.first_key_value().map(|(slice, _)| LogPosition(slice * SLICE))
    }

    /// False only if no byte from `start` up to `end` is live.
    pub(super) fn any_in(&self, start: LogPosition, end: LogPosition) -> bool {
        start < end && self.slices.range(start.0 / SLICE..=(end.0 - 1) / SLICE).next().is_some()
    }
}

fn slices(batch: &StoredBatch) -> std::ops::RangeInclusive<u64> {
    match batch.place {
        BatchPlace::Log { position, size } => {
            position.0 / SLICE..=(position.0 + u64::from(size).saturating_sub(1)) / SLICE
        }
        #[expect(clippy::reversed_empty_ranges, reason = "a marker lies nowhere, so it touches no slice")]
        BatchPlace::Marker(_) => 1..=0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_types::{Millis, Offset};

    fn batch(position: u64, size: u32) -> StoredBatch {
        StoredBatch {
            base_offset: Offset(0),
            last_offset: Offset(0),
            max_timestamp: Millis(0),
            appended: Millis(0),
            place: BatchPlace::Log { position: LogPosition(position), size },
        }
    }

    #[test]
    fn a_slice_is_live_while_a_batch_touches_it() {
        let mut live = LiveBytes::default();
        let straddling = batch(SLICE - 10, 20);
        live.add(&straddling);
        live.add(&batch(5 * SLICE, 100));
        assert_eq!(live.oldest(), Some(LogPosition(0)));
        assert!(live.any_in(LogPosition(SLICE), LogPosition(2 * SLICE)));
        assert!(!live.any_in(LogPosition(2 * SLICE), LogPosition(5 * SLICE)));
        live.remove(&straddling);
        assert_eq!(live.oldest(), Some(LogPosition(5 * SLICE)));
        assert!(!live.any_in(LogPosition(0), LogPosition(5 * SLICE)));
    }
}
