//! What holds for records of every kind.

use super::*;
use bytes::Bytes;
use ottla_types::record::{BatchAppended, PartitionRecord};
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

pub(crate) fn any_record() -> impl Strategy<Value = LogRecord> {
    prop_oneof![
        catalog::tests::any_record(),
        partition::tests::any_record(),
        transaction::tests::any_record(),
        group::tests::any_record(),
        offsets::tests::any_record(),
        restored::tests::any_record(),
    ]
}

fn entry_of(record: &LogRecord) -> Vec<u8> {
    let mut entry = Vec::new();
    let payload = encode(record, &mut entry);
    entry.extend(payload);
    entry
}

/// A record comes back as it was, the bytes of a batch from the place that is named.
pub(crate) fn round_trip(record: &LogRecord) -> Result<(), TestCaseError> {
    let entry = entry_of(record);
    let decoded = decode(&entry).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let found = match decoded.record {
        LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) => {
            let at = decoded.payload.ok_or_else(|| TestCaseError::fail("no payload"))?;
            LogRecord::Partitions(PartitionRecord::BatchAppended(BatchAppended {
                payload: entry[at..].to_vec().into(),
                ..batch
            }))
        }
        other => other,
    };
    prop_assert_eq!(&found, record);
    Ok(())
}

proptest! {
    #[test]
    fn every_cut_is_an_error(record in any_record()) {
        let entry = entry_of(&record);
        for len in 0..entry.len() {
            prop_assert!(decode(&entry[..len]).is_err(), "cut at {}", len);
        }
    }

    #[test]
    fn a_byte_too_many_is_an_error(record in any_record()) {
        let mut entry = entry_of(&record);
        entry.push(0);
        let error = decode(&entry).unwrap_err();
        prop_assert_eq!(error, DecodeError::Trailing { at: entry.len() - 1 });
    }

    #[test]
    fn damage_never_panics(record in any_record(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut entry = entry_of(&record);
        let at = at.index(entry.len());
        entry[at] = byte;
        let _ = decode(&entry);
    }

    #[test]
    fn garbage_never_panics(entry in vec(any::<u8>(), 0..300)) {
        let _ = decode(&entry);
    }
}

#[test]
fn tags_are_distinct_and_in_order() {
    assert!(KINDS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert_eq!(KINDS.len(), 29);
}

#[test]
fn an_unknown_kind_or_version_says_which() {
    assert_eq!(decode(&[200, 0]).unwrap_err(), DecodeError::Unknown { kind: 200, version: 0 });
    assert_eq!(decode(&[1, 9]).unwrap_err(), DecodeError::Unknown { kind: 1, version: 9 });
    assert_eq!(decode(&[]).unwrap_err(), DecodeError::Short { at: 0 });
}

#[test]
fn a_huge_count_is_refused_before_anything_is_allocated() {
    let mut entry = vec![6, 0];
    entry.extend(u32::MAX.to_le_bytes());
    assert_eq!(decode(&entry).unwrap_err(), DecodeError::Short { at: 2 });
}
