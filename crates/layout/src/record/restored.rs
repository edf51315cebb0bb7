//! Snapshot rows of partitions: bounds, where batches lie, producers, aborted transactions.

use super::field::{DecodeError, Field, Reader, fields};
use ottla_types::record::{
    AbortedRestored, AbortedTransaction, BatchPlace, BatchesRestored, PartitionRestored, PartsRestored,
    ProducerBatch, ProducerRestored, ProducerState, SnapshotReached, SnapshotUnit, StoredBatch,
};

impl Field for BatchPlace {
    const WORD: &'static str = "place";

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            BatchPlace::Log { position, size } => {
                0u8.put(out);
                position.put(out);
                size.put(out);
            }
            BatchPlace::Marker(marker) => {
                1u8.put(out);
                marker.put(out);
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let marker = input.span("marker", None, "u8", |input| {
            input.choice("place of a batch", |value| match value {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            })
        })?;
        if marker {
            return input.field("marker").map(BatchPlace::Marker);
        }
        Ok(BatchPlace::Log { position: input.field("position")?, size: input.field("size")? })
    }
}

impl Field for SnapshotUnit {
    const WORD: &'static str = "unit";

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            SnapshotUnit::Broker => 0u8.put(out),
            SnapshotUnit::Topic(id) => (1u8, *id).put(out),
            SnapshotUnit::Partition(at) => (2u8, *at).put(out),
            SnapshotUnit::TransactionalId(id) => (3u8, id.clone()).put(out),
            SnapshotUnit::Group(id) => (4u8, id.clone()).put(out),
            SnapshotUnit::Offsets(id) => (5u8, id.clone()).put(out),
            SnapshotUnit::All => 6u8.put(out),
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = input.span("kind", None, "u8", |input| {
            input.choice("unit of a snapshot", |value| (value <= 6).then_some(value))
        })?;
        Ok(match kind {
            0 => SnapshotUnit::Broker,
            1 => SnapshotUnit::Topic(input.field("topic")?),
            2 => SnapshotUnit::Partition(input.field("partition")?),
            3 => SnapshotUnit::TransactionalId(input.field("transactional_id")?),
            4 => SnapshotUnit::Group(input.field("group_id")?),
            5 => SnapshotUnit::Offsets(input.field("group_id")?),
            _ => SnapshotUnit::All,
        })
    }
}

fields! {
    PartitionRestored { partition, log_start, next_offset }
    StoredBatch { base_offset, last_offset, max_timestamp, appended, place }
    BatchesRestored { partition, batches }
    PartsRestored { partition, parts }
    ProducerBatch { first_sequence, last_sequence, first_offset, last_offset, timestamp }
    ProducerState {
        producer_id, epoch, coordinator_epoch, last_append, last_timestamp, transaction_start, batches,
    }
    ProducerRestored { partition, state }
    AbortedTransaction { producer_id, first_offset, marker_offset }
    AbortedRestored { partition, aborted }
    SnapshotReached { unit }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::generators::{
        any_epoch, any_millis, any_offset, any_partition, any_position, any_producer, any_topic, few,
        round_trip,
    };
    use crate::record::partition::tests::{any_marker, any_part};
    use ottla_types::record::{LogRecord, PartitionRecord};
    use proptest::option;
    use proptest::prelude::*;

    fn any_stored() -> impl Strategy<Value = StoredBatch> {
        let place = prop_oneof![
            (any_position(), any::<u32>()).prop_map(|(position, size)| BatchPlace::Log { position, size }),
            any_marker().prop_map(BatchPlace::Marker),
        ];
        (any_offset(), any_offset(), any_millis(), any_millis(), place).prop_map(
            |(base_offset, last_offset, max_timestamp, appended, place)| StoredBatch {
                base_offset,
                last_offset,
                max_timestamp,
                appended,
                place,
            },
        )
    }

    fn any_state() -> impl Strategy<Value = ProducerState> {
        let batch = (any::<i32>(), any::<i32>(), any_offset(), any_offset(), any_millis()).prop_map(
            |(first_sequence, last_sequence, first_offset, last_offset, timestamp)| ProducerBatch {
                first_sequence,
                last_sequence,
                first_offset,
                last_offset,
                timestamp,
            },
        );
        let times = (any_millis(), any_millis());
        (any_producer(), any_epoch(), any::<i32>(), times, option::of(any_offset()), few(batch)).prop_map(
            |(producer_id, epoch, coordinator_epoch, times, transaction_start, batches)| ProducerState {
                producer_id,
                epoch,
                coordinator_epoch,
                last_append: times.0,
                last_timestamp: times.1,
                transaction_start,
                batches,
            },
        )
    }

    fn any_unit() -> impl Strategy<Value = SnapshotUnit> {
        prop_oneof![
            Just(SnapshotUnit::Broker),
            any_topic().prop_map(SnapshotUnit::Topic),
            any_partition().prop_map(SnapshotUnit::Partition),
            ".{0,8}".prop_map(SnapshotUnit::TransactionalId),
            ".{0,8}".prop_map(SnapshotUnit::Group),
            ".{0,8}".prop_map(SnapshotUnit::Offsets),
            Just(SnapshotUnit::All),
        ]
    }

    pub(crate) fn any_record() -> impl Strategy<Value = LogRecord> {
        let aborted = (any_producer(), any_offset(), any_offset()).prop_map(
            |(producer_id, first_offset, marker_offset)| AbortedTransaction {
                producer_id,
                first_offset,
                marker_offset,
            },
        );
        prop_oneof![
            (any_partition(), any_offset(), any_offset()).prop_map(|(partition, log_start, next_offset)| {
                LogRecord::Partitions(PartitionRecord::PartitionRestored(PartitionRestored {
                    partition,
                    log_start,
                    next_offset,
                }))
            }),
            (any_partition(), few(any_stored())).prop_map(|(partition, batches)| {
                LogRecord::Partitions(PartitionRecord::BatchesRestored(BatchesRestored {
                    partition,
                    batches,
                }))
            }),
            (any_partition(), any_state()).prop_map(|(partition, state)| {
                LogRecord::Partitions(PartitionRecord::ProducerRestored(ProducerRestored {
                    partition,
                    state,
                }))
            }),
            (any_partition(), few(aborted)).prop_map(|(partition, aborted)| {
                LogRecord::Partitions(PartitionRecord::AbortedRestored(AbortedRestored {
                    partition,
                    aborted,
                }))
            }),
            (any_partition(), few(any_part())).prop_map(|(partition, parts)| {
                LogRecord::Partitions(PartitionRecord::PartsRestored(PartsRestored { partition, parts }))
            }),
            any_unit().prop_map(|unit| LogRecord::SnapshotReached(SnapshotReached { unit })),
        ]
    }

    proptest! {
        #[test]
        fn comes_back_as_written(record in any_record()) {
            round_trip(&record)?;
        }
    }
}
