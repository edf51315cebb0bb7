//! The batch that compaction writes, compared with a list of the kept records.

#![expect(clippy::unwrap_used, reason = "a test that finds something else than expected may panic")]

use bytes::Bytes;
use ottla_wire::batch::{Batch, BatchBuilder, Header, NewRecord, patch_leader_epoch};
use ottla_wire::codec::Compression;
use proptest::prelude::*;

const CAP: usize = 1 << 20;

/// A record as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn seen(bytes: &Bytes) -> Vec<Seen> {
    let batch = Batch::only(bytes).unwrap();
    batch.check_crc().unwrap();
    let set = batch.records(CAP).unwrap();
    let header = batch.header();
    let record = |record: ottla_wire::batch::Record<'_>| Seen {
        offset: header.base_offset + i64::from(record.offset_delta),
        timestamp: header.timestamp(record.timestamp_delta),
        key: record.key.map(<[u8]>::to_vec),
        value: record.value.map(<[u8]>::to_vec),
        headers: record.headers.map(|one| (one.key.to_vec(), one.value.map(<[u8]>::to_vec))).collect(),
    };
    set.iter().map(|one| record(one.unwrap())).collect()
}

fn made(records: &[Seen], codec: Compression) -> Bytes {
    let mut builder = BatchBuilder::new(codec).producer(9, 3, 70).transactional(true).base_offset(500);
    for record in records {
        let headers: Vec<Header<'_>> =
            record.headers.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect();
        builder.push(&NewRecord {
            timestamp: record.timestamp,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
        });
    }
    let mut bytes = builder.build().unwrap().to_vec();
    patch_leader_epoch(&mut bytes, 0);
    bytes.into()
}

fn records() -> impl Strategy<Value = Vec<Seen>> {
    let text = || prop::option::of(prop::collection::vec(any::<u8>(), 0..20));
    let headers = prop::collection::vec((prop::collection::vec(any::<u8>(), 0..5), text()), 0..3);
    let one = (0..1_000_000i64, text(), text(), headers);
    prop::collection::vec(one, 1..20).prop_map(|all| {
        let record =
            |(offset, (timestamp, key, value, headers))| Seen { offset, timestamp, key, value, headers };
        (500..).zip(all).map(record).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn what_is_left_is_what_was_asked_for(
        records in records(),
        mask in any::<u32>(),
        again in any::<u32>(),
        codec in prop::sample::select(Compression::ALL.to_vec()),
        horizon in prop::option::of(0..2_000_000i64),
    ) {
        let bytes = made(&records, codec);
        let batch = Batch::only(&bytes).unwrap();
        let stays = |mask: u32| move |offset: i64| mask >> (offset - 500) & 1 == 1;
        let left: Vec<Seen> = records.iter().filter(|one| stays(mask)(one.offset)).cloned().collect();
        let selection = batch.select(CAP, |one| stays(mask)(500 + i64::from(one.offset_delta))).unwrap();
        prop_assert_eq!(selection.kept(), left.len());
        prop_assert_eq!(selection.is_whole(), left.len() == records.len());
        prop_assert_eq!(selection.tombstones(), left.iter().filter(|one| one.value.is_none()).count());
        let less = selection.build(horizon).unwrap();
        prop_assert_eq!(seen(&less), left.clone());
        let less = Batch::only(&less).unwrap();
        let (was, is) = (batch.header(), less.header());
        prop_assert_eq!((is.base_offset, is.last_offset_delta), (was.base_offset, was.last_offset_delta));
        prop_assert_eq!((is.producer_id, is.producer_epoch, is.base_sequence), (9, 3, 70));
        prop_assert_eq!(is.partition_leader_epoch, 0);
        prop_assert!(is.is_transactional() && !is.is_control());
        if left.is_empty() {
            prop_assert_eq!((is.size(), is.record_count, is.max_timestamp), (61, 0, was.max_timestamp));
            prop_assert_eq!(is.delete_horizon(), None);
        } else {
            prop_assert_eq!(Some(is.max_timestamp), left.iter().map(|one| one.timestamp).max());
            prop_assert_eq!(is.delete_horizon(), horizon);
            prop_assert_eq!(is.compression().unwrap(), codec);
        }
        // A filtered batch can be filtered again, and keeps its horizon.
        let left: Vec<Seen> = left.into_iter().filter(|one| stays(again)(one.offset)).collect();
        let twice = less.select(CAP, |one| stays(again)(500 + i64::from(one.offset_delta))).unwrap();
        let twice = twice.build(None).unwrap();
        prop_assert_eq!(seen(&twice), left.clone());
        let kept = horizon.filter(|_| !left.is_empty());
        prop_assert_eq!(Batch::only(&twice).unwrap().header().delete_horizon(), kept);
    }
}

#[test]
fn the_time_of_the_append_stays_the_time_of_every_record() {
    let record = |offset| Seen { offset, timestamp: 10, key: None, value: None, headers: Vec::new() };
    let mut bytes = made(&[record(500), record(501)], Compression::None).to_vec();
    ottla_wire::batch::set_log_append_time(&mut bytes, 77);
    let batch = Batch::only(&Bytes::from(bytes)).unwrap();
    let selection = batch.select(CAP, |one| one.offset_delta == 1).unwrap();
    for horizon in [None, Some(5_000)] {
        let less = selection.build(horizon).unwrap();
        assert_eq!(seen(&less), [Seen { timestamp: 77, ..record(501) }]);
        assert!(Batch::only(&less).unwrap().header().is_log_append_time());
    }
}

#[test]
fn a_malformed_record_is_not_passed_over() {
    let record = Seen { offset: 500, timestamp: 10, key: None, value: None, headers: Vec::new() };
    let mut bytes = made(&[record], Compression::None).to_vec();
    bytes.pop();
    ottla_wire::batch::seal(&mut bytes).unwrap();
    assert!(Batch::only(&Bytes::from(bytes)).unwrap().select(CAP, |_| true).is_err());
}
