//! Committed and staged offsets, their deletion, and the snapshot rows that carry both.

use super::field::fields;
use ottla_types::record::{
    CommittedOffset, OffsetsCommitted, OffsetsDeleted, OffsetsRestored, OffsetsStaged, StagedRestored,
};

fields! {
    CommittedOffset { offset, leader_epoch, metadata, at }
    OffsetsCommitted { group_id, offsets }
    OffsetsStaged { group_id, producer_id, producer_epoch, offsets }
    OffsetsDeleted { group_id, partitions }
    OffsetsRestored { group_id, offsets }
    StagedRestored { group_id, producer_id, offsets }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::generators::{
        any_epoch, any_millis, any_offset, any_partition, any_position, any_producer, few, round_trip,
    };
    use ottla_types::record::{LogRecord, OffsetRecord};
    use proptest::prelude::*;

    fn any_committed() -> impl Strategy<Value = CommittedOffset> {
        (any_offset(), any::<i32>(), ".{0,8}", any_millis()).prop_map(
            |(offset, leader_epoch, metadata, at)| CommittedOffset { offset, leader_epoch, metadata, at },
        )
    }

    pub(crate) fn any_record() -> impl Strategy<Value = LogRecord> {
        let offsets = || few((any_partition(), any_committed()));
        let placed = || few((any_partition(), any_committed(), any_position()));
        prop_oneof![
            (".{0,8}", offsets()).prop_map(|(group_id, offsets)| {
                LogRecord::Offsets(OffsetRecord::OffsetsCommitted(OffsetsCommitted { group_id, offsets }))
            }),
            (".{0,8}", any_producer(), any_epoch(), offsets()).prop_map(
                |(group_id, producer_id, producer_epoch, offsets)| {
                    LogRecord::Offsets(OffsetRecord::OffsetsStaged(OffsetsStaged {
                        group_id,
                        producer_id,
                        producer_epoch,
                        offsets,
                    }))
                }
            ),
            (".{0,8}", few(any_partition())).prop_map(|(group_id, partitions)| {
                LogRecord::Offsets(OffsetRecord::OffsetsDeleted(OffsetsDeleted { group_id, partitions }))
            }),
            (".{0,8}", placed()).prop_map(|(group_id, offsets)| {
                LogRecord::Offsets(OffsetRecord::OffsetsRestored(OffsetsRestored { group_id, offsets }))
            }),
            (".{0,8}", any_producer(), placed()).prop_map(|(group_id, producer_id, offsets)| {
                LogRecord::Offsets(OffsetRecord::StagedRestored(StagedRestored {
                    group_id,
                    producer_id,
                    offsets,
                }))
            }),
        ]
    }

    proptest! {
        #[test]
        fn comes_back_as_written(record in any_record()) {
            round_trip(&record)?;
        }
    }
}
