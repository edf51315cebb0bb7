//! Which batches are too old or too many.

use super::Partition;
use super::index::size;
use ottla_types::record::StoredBatch;
use ottla_types::{Millis, Offset};

/// How much is kept of a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    pub(crate) time: Option<Millis>,
    pub(crate) bytes: Option<i64>,
}

impl Partition {
    /// Where the log should start, if later than it does. Never past the high watermark; whole batches only.
    pub(crate) fn retained_from(&self, now: Millis, keep: Keep) -> Option<Offset> {
        let mut bytes = i64::try_from(self.bytes()).unwrap_or(i64::MAX);
        let mut start = None;
        for batch in self.stored().take_while(|batch| batch.last_offset < self.high_watermark) {
            let left = bytes - i64::from(size(batch));
            let too_old = keep.time.is_some_and(|span| now.since(time_of(batch)) > span);
            let too_many = keep.bytes.is_some_and(|most| left >= most);
            if !too_old && !too_many {
                break;
            }
            bytes = left;
            start = Some(batch.last_offset.plus(1));
        }
        start
    }

    pub(crate) fn idle_producers(&self, now: Millis, expiration: Millis) -> Vec<ottla_types::ProducerId> {
        self.producers.idle(now, expiration)
    }
}

/// The time retention counts from.
fn time_of(batch: &StoredBatch) -> Millis {
    if batch.max_timestamp >= Millis(0) { batch.max_timestamp } else { batch.appended }
}
