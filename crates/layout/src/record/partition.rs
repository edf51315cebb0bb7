//! Records of partitions: batches, markers, a moved start of the log, expired producers, rewritten batches.
//!
//! The bytes of a batch are not copied when the record is decoded. The fields come first, and the batch bytes fill the
//! rest of the entry, so that they can be sent directly from the log.

use super::field::{DecodeError, Field, Reader, fields};
use crate::span::FieldValue;
use bytes::Bytes;
use ottla_types::record::{
    BatchAppended, LogStartMoved, Marker, MarkerAppended, PartsInstalled, ProducersExpired, RunPart,
};
use ottla_types::{BatchSummary, TimestampType};

fields! {
    BatchSummary {
        size, last_offset_delta, record_count, base_timestamp, max_timestamp, timestamp_type,
        producer_id, producer_epoch, base_sequence, transactional, control,
    }
    Marker { commit, producer_id, producer_epoch, coordinator_epoch, at }
    MarkerAppended { partition, marker, offset }
    LogStartMoved { partition, log_start }
    ProducersExpired { partition, producers }
    RunPart {
        run, base_offset, last_offset, bytes, max_timestamp, appended, data, directory, pages, clean, horizon,
    }
    PartsInstalled { partition, from, to, parts }
}

/// The fields of a batch; the caller adds its bytes.
impl Field for BatchAppended {
    const WORD: &'static str = "BatchAppended";

    fn put(&self, out: &mut Vec<u8>) {
        self.partition.put(out);
        self.base_offset.put(out);
        self.leader_epoch.put(out);
        self.at.put(out);
        self.summary.put(out);
    }

    /// Skips the batch bytes: they stay where they are.
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let record = BatchAppended {
            partition: input.field("partition")?,
            base_offset: input.field("base_offset")?,
            leader_epoch: input.field("leader_epoch")?,
            at: input.field("at")?,
            summary: input.field("summary")?,
            payload: Bytes::new(),
        };
        let size = record.summary.size as usize;
        input.span("batch", None, "record batch", |input| {
            input.bytes(size)?;
            input.set_value(|| FieldValue::Bytes(size));
            Ok(())
        })?;
        Ok(record)
    }
}

const CHECKSUM: usize = 17;
const ATTRIBUTES: usize = 21;
const MAX_TIMESTAMP: usize = 35;
const LOG_APPEND_TIME: u8 = 1 << 3;

/// Writes what the broker assigned into the stored copy of a batch (record batch v2): base offset and leader epoch,
/// which its checksum does not cover; for log append time also attribute bit 3, the largest timestamp, and the checksum
/// anew. A batch shorter than a header is left alone: the broker refuses those earlier.
pub fn patch_batch(record: &BatchAppended, batch: &mut [u8]) {
    if batch.len() < MAX_TIMESTAMP + 8 {
        return;
    }
    batch[..8].copy_from_slice(&record.base_offset.0.to_be_bytes());
    batch[12..16].copy_from_slice(&record.leader_epoch.to_be_bytes());
    if record.summary.timestamp_type == TimestampType::LogAppendTime {
        batch[ATTRIBUTES + 1] |= LOG_APPEND_TIME;
        batch[MAX_TIMESTAMP..][..8].copy_from_slice(&record.summary.max_timestamp.0.to_be_bytes());
        let checksum = crc32c::crc32c(&batch[ATTRIBUTES..]);
        batch[CHECKSUM..][..4].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::generators::{
        any_epoch, any_millis, any_offset, any_partition, any_producer, few, round_trip,
    };
    use ottla_types::record::{LogRecord, PartitionRecord};
    use ottla_types::{Millis, Offset};
    use proptest::prelude::*;

    pub(crate) fn any_marker() -> impl Strategy<Value = Marker> {
        (any::<bool>(), any_producer(), any_epoch(), any::<i32>(), any_millis()).prop_map(
            |(commit, producer_id, producer_epoch, coordinator_epoch, at)| Marker {
                commit,
                producer_id,
                producer_epoch,
                coordinator_epoch,
                at,
            },
        )
    }

    fn any_summary() -> impl Strategy<Value = BatchSummary> {
        let numbers = (any::<i32>(), any::<i32>(), any::<i32>());
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        (numbers, any_millis(), any_millis(), any_producer(), any_epoch(), flags).prop_map(
            |((last, count, sequence), base, max, producer_id, producer_epoch, flags)| BatchSummary {
                size: 0,
                last_offset_delta: last,
                record_count: count,
                base_timestamp: base,
                max_timestamp: max,
                timestamp_type: if flags.0 {
                    TimestampType::LogAppendTime
                } else {
                    TimestampType::CreateTime
                },
                producer_id,
                producer_epoch,
                base_sequence: sequence,
                transactional: flags.1,
                control: flags.2,
            },
        )
    }

    pub(crate) fn any_batch() -> impl Strategy<Value = BatchAppended> {
        let payload = proptest::collection::vec(any::<u8>(), 0..200);
        (any_partition(), any_offset(), any::<i32>(), any_millis(), any_summary(), payload).prop_map(
            |(partition, base_offset, leader_epoch, at, summary, payload)| BatchAppended {
                partition,
                base_offset,
                leader_epoch,
                at,
                summary: BatchSummary { size: payload.len() as u32, ..summary },
                payload: payload.into(),
            },
        )
    }

    pub(crate) fn any_part() -> impl Strategy<Value = RunPart> {
        let places = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>());
        (places, any_offset(), any_offset(), (any_millis(), any_millis(), any_millis()), any::<bool>())
            .prop_map(|((run, bytes, data, directory, pages), base_offset, last_offset, times, clean)| {
                RunPart {
                    run,
                    base_offset,
                    last_offset,
                    bytes,
                    max_timestamp: times.0,
                    appended: times.1,
                    data,
                    directory,
                    pages,
                    clean,
                    horizon: times.2,
                }
            })
    }

    pub(crate) fn any_record() -> impl Strategy<Value = LogRecord> {
        prop_oneof![
            any_batch().prop_map(LogRecord::from),
            (any_partition(), any_marker(), any_offset()).prop_map(|(partition, marker, offset)| {
                LogRecord::Partitions(PartitionRecord::MarkerAppended(MarkerAppended {
                    partition,
                    marker,
                    offset,
                }))
            }),
            (any_partition(), any_offset()).prop_map(|(partition, log_start)| {
                LogRecord::Partitions(PartitionRecord::LogStartMoved(LogStartMoved { partition, log_start }))
            }),
            (any_partition(), proptest::collection::vec(any_producer(), 0..5)).prop_map(
                |(partition, producers)| {
                    LogRecord::Partitions(PartitionRecord::ProducersExpired(ProducersExpired {
                        partition,
                        producers,
                    }))
                }
            ),
            (any_partition(), any_offset(), any_offset(), few(any_part())).prop_map(
                |(partition, from, to, parts)| {
                    LogRecord::Partitions(PartitionRecord::PartsInstalled(PartsInstalled {
                        partition,
                        from,
                        to,
                        parts,
                    }))
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn comes_back_as_written(record in any_record()) {
            round_trip(&record)?;
        }

        #[test]
        fn patching_touches_only_what_the_broker_assigns(record in any_batch()) {
            let mut batch = record.payload.to_vec();
            patch_batch(&record, &mut batch);
            if batch.len() < 43 {
                prop_assert_eq!(&batch, &record.payload);
                return Ok(());
            }
            let append_time = record.summary.timestamp_type == TimestampType::LogAppendTime;
            for (at, (new, old)) in batch.iter().zip(&record.payload).enumerate() {
                let assigned = at < 8 || (12..16).contains(&at);
                let stamped = append_time && ((17..21).contains(&at) || at == 22 || (35..43).contains(&at));
                prop_assert!(new == old || assigned || stamped, "byte {}", at);
            }
        }
    }

    #[test]
    fn log_append_time_sets_the_bit_the_time_and_the_checksum() {
        let summary = BatchSummary {
            size: 61,
            last_offset_delta: 0,
            record_count: 0,
            base_timestamp: Millis(1),
            max_timestamp: Millis(1234),
            timestamp_type: TimestampType::LogAppendTime,
            producer_id: ottla_types::ProducerId::NONE,
            producer_epoch: ottla_types::ProducerEpoch::NONE,
            base_sequence: -1,
            transactional: false,
            control: false,
        };
        let record = BatchAppended {
            partition: ottla_types::TopicPartition { topic: ottla_types::TopicId::ZERO, partition: 0 },
            base_offset: Offset(77),
            leader_epoch: 5,
            at: Millis(1234),
            summary,
            payload: Bytes::new(),
        };
        let mut batch = vec![0; 61];
        patch_batch(&record, &mut batch);
        assert_eq!(batch[..8], 77i64.to_be_bytes());
        assert_eq!(batch[12..16], 5i32.to_be_bytes());
        assert_eq!(batch[21..23], [0, 8]);
        assert_eq!(batch[35..43], 1234i64.to_be_bytes());
        assert_eq!(batch[17..21], crc32c::crc32c(&batch[21..]).to_be_bytes());
    }
}
