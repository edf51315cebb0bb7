//! The facts about a record batch that the broker's decisions need.

use crate::{Millis, ProducerEpoch, ProducerId, sequence_after};

/// The source of the timestamps of a batch: the producer or the broker (attribute bit 3 of a record batch).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampType {
    /// Each record carries the producer's time.
    #[default]
    CreateTime,
    /// Every record has the time of its append.
    LogAppendTime,
}

/// The header of a record batch, as far as decisions need it. The bytes of the batch are passed separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSummary {
    /// Bytes of the whole batch, header included.
    pub size: u32,
    /// Offset of the last record less that of the first.
    pub last_offset_delta: i32,
    /// Records in the batch.
    pub record_count: i32,
    /// Timestamp of the first record, -1 for none.
    pub base_timestamp: Millis,
    /// The largest timestamp in the batch, -1 for none.
    pub max_timestamp: Millis,
    /// The source of the timestamps.
    pub timestamp_type: TimestampType,
    /// The producer, or [`ProducerId::NONE`].
    pub producer_id: ProducerId,
    /// Its epoch, or [`ProducerEpoch::NONE`].
    pub producer_epoch: ProducerEpoch,
    /// Sequence number of the first record, -1 for none.
    pub base_sequence: i32,
    /// Part of a transaction.
    pub transactional: bool,
    /// Holds a marker instead of data.
    pub control: bool,
}

impl BatchSummary {
    /// Sequence number of the last record, wrapped (T-48); -1 if the batch has none.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        sequence_after(self.base_sequence, self.last_offset_delta)
    }
}
