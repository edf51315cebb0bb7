//! Divides the batches of a partition into parts, by `segment.bytes` and `segment.ms`.

use ottla_types::{Millis, Offset};

/// The largest distance between the first and the last offset of a part, as in a segment of Kafka.
const LARGEST_SPAN: i64 = i32::MAX as i64;

/// The properties of a batch that decide where a part ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutBatch {
    /// Bytes of the batch.
    pub bytes: u64,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Its largest timestamp, -1 for none.
    pub max_timestamp: Millis,
    /// When it was appended.
    pub appended: Millis,
}

/// Decides for one batch after the other whether it begins a new part.
#[derive(Clone, Debug)]
pub struct PartCutter {
    max_bytes: u64,
    max_span: Millis,
    open: Option<OpenPart>,
}

#[derive(Clone, Copy, Debug)]
struct OpenPart {
    base_offset: Offset,
    bytes: u64,
    first: CutBatch,
}

impl PartCutter {
    /// Parts of at most `max_bytes` (unless a single batch is larger), whose batches lie less than `max_span` apart.
    pub fn new(max_bytes: u64, max_span: Millis) -> PartCutter {
        PartCutter { max_bytes, max_span, open: None }
    }

    /// Adds the next batch, which begins at `base_offset`; true if a new part begins with it, as with the first one.
    pub fn begins(&mut self, base_offset: Offset, batch: CutBatch) -> bool {
        if let Some(open) = &mut self.open
            && open.takes(&batch, self.max_bytes, self.max_span)
        {
            open.bytes += batch.bytes;
            return false;
        }
        self.open = Some(OpenPart { base_offset, bytes: batch.bytes, first: batch });
        true
    }
}

impl OpenPart {
    fn takes(&self, batch: &CutBatch, max_bytes: u64, max_span: Millis) -> bool {
        // The time of a batch is its timestamp if both have one, as in Kafka, else when it was appended.
        let stamped = batch.max_timestamp.0 >= 0 && self.first.max_timestamp.0 >= 0;
        let span = if stamped {
            batch.max_timestamp.0.saturating_sub(self.first.max_timestamp.0)
        } else {
            batch.appended.0.saturating_sub(self.first.appended.0)
        };
        self.bytes.saturating_add(batch.bytes) <= max_bytes
            && span <= max_span.0
            && batch.last_offset.0.saturating_sub(self.base_offset.0) <= LARGEST_SPAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(bytes: u64, last: i64, time: i64, appended: i64) -> CutBatch {
        CutBatch { bytes, last_offset: Offset(last), max_timestamp: Millis(time), appended: Millis(appended) }
    }

    #[test]
    fn a_part_is_cut_by_bytes() {
        let mut cutter = PartCutter::new(1000, Millis(i64::MAX));
        let cuts = [400, 600, 1, 5000, 1000].map(|bytes| cutter.begins(Offset(0), batch(bytes, 0, 0, 0)));
        assert_eq!(cuts, [true, false, true, true, true]);
    }

    #[test]
    fn a_part_is_cut_by_time_of_records_or_else_of_appending() {
        let mut cutter = PartCutter::new(u64::MAX, Millis(100));
        let cuts = [(50, 0), (150, 0), (20, 0), (151, 0), (-1, 101), (-1, 201), (400, 301)]
            .map(|(time, appended)| cutter.begins(Offset(0), batch(1, 0, time, appended)));
        assert_eq!(cuts, [true, false, false, true, true, false, true]);
    }

    #[test]
    fn a_part_is_cut_where_a_distance_of_offsets_would_not_fit_32_bits() {
        let mut cutter = PartCutter::new(u64::MAX, Millis(i64::MAX));
        let last = 7 + i64::from(i32::MAX);
        let cuts = [(7, 7), (8, last), (last, last + 1)]
            .map(|(base, last)| cutter.begins(Offset(base), batch(1, last, 0, 0)));
        assert_eq!(cuts, [true, false, true]);
    }
}
