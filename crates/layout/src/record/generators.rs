//! Random ids and numbers for the property tests of records, and the round trip that each kind of record must survive.

use super::{decode, encode};
use bytes::Bytes;
use ottla_types::record::{BatchAppended, LogRecord, PartitionRecord};
use ottla_types::{LogPosition, Millis, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition};
use proptest::collection::vec;
use proptest::prelude::*;

pub(crate) fn any_topic() -> impl Strategy<Value = TopicId> {
    any::<[u8; 16]>().prop_map(TopicId)
}

pub(crate) fn any_partition() -> impl Strategy<Value = TopicPartition> {
    (any_topic(), any::<i32>()).prop_map(|(topic, partition)| TopicPartition { topic, partition })
}

pub(crate) fn any_millis() -> impl Strategy<Value = Millis> {
    any::<i64>().prop_map(Millis)
}

pub(crate) fn any_offset() -> impl Strategy<Value = Offset> {
    any::<i64>().prop_map(Offset)
}

pub(crate) fn any_position() -> impl Strategy<Value = LogPosition> {
    any::<u64>().prop_map(LogPosition)
}

pub(crate) fn any_producer() -> impl Strategy<Value = ProducerId> {
    any::<i64>().prop_map(ProducerId)
}

pub(crate) fn any_epoch() -> impl Strategy<Value = ProducerEpoch> {
    any::<i16>().prop_map(ProducerEpoch)
}

pub(crate) fn any_bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

pub(crate) fn any_configs() -> impl Strategy<Value = Vec<(String, String)>> {
    few((".{0,8}", ".{0,8}"))
}

pub(crate) fn few<T: std::fmt::Debug>(one: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    vec(one, 0..4)
}

pub(crate) fn entry_of(record: &LogRecord) -> Vec<u8> {
    let mut entry = Vec::new();
    let payload = encode(record, &mut entry);
    entry.extend(payload);
    entry
}

/// Checks that a record is decoded as it was encoded. The bytes of a batch are those at the returned offset.
pub(crate) fn round_trip(record: &LogRecord) -> Result<(), TestCaseError> {
    let entry = entry_of(record);
    let decoded = decode(&entry).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let found = match decoded.record {
        LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) => {
            let at = decoded.payload.ok_or_else(|| TestCaseError::fail("no payload"))?;
            let batch = BatchAppended { payload: entry[at..].to_vec().into(), ..batch };
            LogRecord::Partitions(PartitionRecord::BatchAppended(batch))
        }
        other => other,
    };
    prop_assert_eq!(&found, record);
    Ok(())
}
