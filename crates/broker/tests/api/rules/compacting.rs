//! Compacted topics as clients see them, before and after crashes (T-212).

use super::restart::Node;
use crate::configs::set_topic;
use crate::data::{batches, create, fetch_request, only, produce_request};
use crate::transactions::{Owner, end, owner};
use crate::world::Peer;
use bytes::Bytes;
use ottla_core::config::Settings;
use ottla_store::testing::FaultMedium;
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::messages::fetch_response::PartitionData;
use ottla_wire::{ErrorCode, Text, Uuid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// A time so long ago that no part of a partition counts as active.
const TIME: i64 = 1_700_000_000_000;
/// Settings under which compaction starts as soon as possible.
const EAGER: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0"), ("segment.ms", "1")];

type Pair = (String, Option<String>);

async fn begin(seed: u64, broker: &[(&str, &str)], topic: &[(&str, &str)]) -> (Node, Peer, Uuid) {
    let mut configs: BTreeMap<String, String> =
        broker.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    configs.insert("log.cleaner.backoff.ms".to_owned(), "1".to_owned());
    let settings = Settings::from_configs(&configs).unwrap();
    let node = Node::start_with(FaultMedium::new(seed), settings).await;
    let mut peer = Peer::connect(&node.server).await;
    let id = create(&mut peer, &[&EAGER[..], topic].concat()).await;
    (node, peer, id)
}

fn keyed(by: Option<(Owner, i32)>, transactional: bool, records: &[Pair]) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::Lz4).transactional(transactional);
    if let Some(((id, epoch), sequence)) = by {
        builder = builder.producer(id, epoch, sequence);
    }
    for (key, value) in records {
        let value = value.as_deref().map(str::as_bytes);
        builder.push(&NewRecord { timestamp: TIME, key: Some(key.as_bytes()), value, headers: &[] });
    }
    builder.build().unwrap()
}

fn pair(key: impl ToString, value: Option<&str>) -> Pair {
    (key.to_string(), value.map(str::to_owned))
}

async fn put(
    peer: &mut Peer,
    id: Option<&str>,
    by: Option<(Owner, i32)>,
    records: &[Pair],
) -> (ErrorCode, i64) {
    let mut request = produce_request(Uuid::ZERO, 0, keyed(by, id.is_some(), records));
    request.transactional_id = id.map(Text::from);
    let row = peer.call(&request, 12).await.responses.remove(0).partition_responses.remove(0);
    (ErrorCode(row.error_code), row.base_offset)
}

/// What a read_committed reader gets from the first offset to the end, and the number of batches.
async fn read(peer: &mut Peer, id: Uuid) -> (Vec<(i64, Pair)>, usize) {
    let (mut at, mut all, mut count) = (0, Vec::new(), 0);
    loop {
        let mut request = fetch_request(id, 12, at);
        request.isolation_level = 1;
        let row = only(peer.call(&request, 12).await);
        assert_eq!(ErrorCode(row.error_code), ErrorCode::NONE);
        assert_eq!(row.last_stable_offset, row.high_watermark, "nothing is open");
        if at == row.high_watermark {
            return (all, count);
        }
        let before = at;
        count += take(&row, &mut at, &mut all);
        assert!(at > before, "a reader at {at} does not get on");
    }
}

/// Filters as consumers do: without markers, and without aborted records.
fn take(row: &PartitionData, at: &mut i64, all: &mut Vec<(i64, Pair)>) -> usize {
    let aborted = row.aborted_transactions.iter().flatten();
    let mut upcoming: Vec<_> = aborted.map(|one| (one.first_offset, one.producer_id)).collect();
    upcoming.sort_unstable();
    let (mut upcoming, mut aborting) = (VecDeque::from(upcoming), BTreeSet::new());
    let found = batches(row);
    for batch in &found {
        batch.check_crc().unwrap();
        let header = batch.header();
        let last = header.base_offset + i64::from(header.last_offset_delta);
        while let Some((_, producer)) = upcoming.pop_front_if(|next| next.0 <= last) {
            aborting.insert(producer);
        }
        let set = batch.records(1 << 20).unwrap();
        for record in set.iter().map(Result::unwrap) {
            let offset = header.base_offset + i64::from(record.offset_delta);
            if header.is_control() {
                aborting.remove(&header.producer_id);
            } else if offset >= *at && !(header.is_transactional() && aborting.contains(&header.producer_id))
            {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                all.push((offset, (text(record.key.unwrap()), record.value.map(text))));
            }
        }
        *at = (*at).max(last + 1);
    }
    found.len()
}

fn table(records: &[(i64, Pair)]) -> BTreeMap<String, String> {
    let mut table = BTreeMap::new();
    for (_, (key, value)) in records {
        match value {
            Some(value) => table.insert(key.clone(), value.clone()),
            None => table.remove(key),
        };
    }
    table
}

/// Reads until this many records and batches are left. The latest value of each key never changes meanwhile. Returns
/// the records.
async fn settle(
    peer: &mut Peer,
    id: Uuid,
    expected: &BTreeMap<String, String>,
    left: (usize, usize),
) -> Vec<(i64, Pair)> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (records, batches) = read(peer, id).await;
        assert_eq!(table(&records), *expected);
        if (records.len(), batches) == left {
            return records;
        }
        assert!(Instant::now() < until, "{batches} batches are left: {records:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn b_64_t_212_compaction_keeps_markers_apart() {
    let (node, mut peer, id) = begin(64, &[], &[("delete.retention.ms", "0")]).await;
    let mut me = owner(&mut peer, "t").await;
    let mut expected = BTreeMap::new();
    for number in 0..20 {
        let (key, commit) = (format!("k{number}"), number % 2 == 0);
        assert_eq!(
            put(&mut peer, Some("t"), Some((me, 0)), &[pair(&key, Some("v"))]).await.0,
            ErrorCode::NONE
        );
        if commit {
            expected.insert(key, "v".to_owned());
        }
        me = end(&mut peer, "t", me, commit, 5).await.1;
    }
    // Ten batches with their markers, and the last marker, which holds the producer's epoch.
    let records = settle(&mut peer, id, &expected, (10, 21)).await;
    let (node, mut peer) = node.crash(true).await;
    assert_eq!(settle(&mut peer, id, &expected, (10, 21)).await, records);
    let (_node, mut peer) = node.crash(false).await;
    assert_eq!(settle(&mut peer, id, &expected, (10, 21)).await, records);
    assert_eq!(put(&mut peer, Some("t"), Some((me, 0)), &[pair("k1", Some("w"))]).await.0, ErrorCode::NONE);
}

#[tokio::test]
async fn b_66_t_212_a_transaction_over_several_passes_is_never_seen() {
    // The memory holds 768 keys, so one pass covers two batches.
    let (node, mut peer, id) = begin(66, &[("log.cleaner.dedupe.buffer.size", "1")], &[]).await;
    let me = owner(&mut peer, "t").await;
    let many = |round: i32, of: &str| -> Vec<Pair> {
        (0..300).map(|key| (format!("{round}-{key}"), Some(of.to_owned()))).collect()
    };
    let mut expected = BTreeMap::new();
    for round in 0..5 {
        assert_eq!(put(&mut peer, None, None, &many(round, "plain")).await.0, ErrorCode::NONE);
        let by = Some((me, 300 * round));
        assert_eq!(put(&mut peer, Some("t"), by, &many(round, "aborted")).await.0, ErrorCode::NONE);
        expected.extend(many(round, "plain").into_iter().map(|(key, value)| (key, value.unwrap())));
    }
    let (node, mut peer) = node.crash(false).await;
    assert_eq!(end(&mut peer, "t", me, false, 5).await.0, ErrorCode::NONE);
    // Five plain batches and the marker. Every read in between found the same latest values.
    settle(&mut peer, id, &expected, (1500, 6)).await;
    let (_node, mut peer) = node.crash(true).await;
    settle(&mut peer, id, &expected, (1500, 6)).await;
}

#[tokio::test]
async fn b_67_t_54_t_212_a_producer_goes_on_after_its_records_are_gone() {
    for snapshot in [false, true] {
        let (node, mut peer, id) = begin(67, &[], &[]).await;
        let (one, other) = ((70, 0), (71, 0));
        for sequence in 0..5 {
            assert_eq!(
                put(&mut peer, None, Some((one, sequence)), &[pair("k", Some("one"))]).await.0,
                ErrorCode::NONE
            );
        }
        assert_eq!(
            put(&mut peer, None, Some((other, 0)), &[pair("k", Some("other"))]).await.0,
            ErrorCode::NONE
        );
        let expected = BTreeMap::from([("k".to_owned(), "other".to_owned())]);
        // The last batch of the first producer stays, without records.
        let records = settle(&mut peer, id, &expected, (1, 2)).await;
        assert_eq!(records, [(5, pair("k", Some("other")))]);
        let (_node, mut peer) = node.crash(snapshot).await;
        assert_eq!(
            put(&mut peer, None, Some((one, 4)), &[pair("k", Some("one"))]).await,
            (ErrorCode::NONE, 4)
        );
        assert_eq!(
            put(&mut peer, None, Some((one, 5)), &[pair("k", Some("one"))]).await,
            (ErrorCode::NONE, 6)
        );
        assert_eq!(put(&mut peer, None, Some((one, 9)), &[]).await.0, ErrorCode::INVALID_RECORD);
    }
}

#[tokio::test]
async fn t_212_tombstones_go_after_their_time_and_readers_still_arrive() {
    let (node, mut peer, id) = begin(1, &[], &[("delete.retention.ms", "0")]).await;
    for key in 0..3 {
        put(&mut peer, None, None, &[pair(key, Some("v")), pair(key + 10, Some("v"))]).await;
        put(&mut peer, None, None, &[pair(key, None)]).await;
    }
    let expected: BTreeMap<_, _> = (10..13).map(|key| (key.to_string(), "v".to_owned())).collect();
    // Three batches of one record each, and the last batch, which is empty.
    let records = settle(&mut peer, id, &expected, (3, 4)).await;
    assert_eq!(records.iter().map(|record| record.0).collect::<Vec<_>>(), [1, 4, 7]);
    let (_node, mut peer) = node.crash(false).await;
    settle(&mut peer, id, &expected, (3, 4)).await;
    put(&mut peer, None, None, &[pair(11, Some("w"))]).await;
    let expected = BTreeMap::from([("10", "v"), ("11", "w"), ("12", "v")]);
    let expected = expected.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    settle(&mut peer, id, &expected, (3, 3)).await;
}

#[tokio::test]
async fn tombstones_stay_for_their_time() {
    let (_node, mut peer, id) = begin(2, &[], &[]).await;
    put(&mut peer, None, None, &[pair("k", Some("v")), pair("l", Some("v"))]).await;
    put(&mut peer, None, None, &[pair("k", None)]).await;
    put(&mut peer, None, None, &[pair("l", Some("w"))]).await;
    let expected = BTreeMap::from([("l".to_owned(), "w".to_owned())]);
    let records = settle(&mut peer, id, &expected, (2, 2)).await;
    assert_eq!(records, [(2, pair("k", None)), (3, pair("l", Some("w")))]);
    let row = only(peer.call(&fetch_request(id, 12, 0), 12).await);
    let horizon = batches(&row)[0].header().delete_horizon().unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
    assert!((0..=86_400_000).contains(&(horizon - now)), "a day from when the pass saw it");
}

#[tokio::test]
async fn a_topic_is_compacted_from_when_it_is_told_to() {
    let (_node, mut peer, id) = begin(3, &[], &[("cleanup.policy", "delete"), ("retention.ms", "-1")]).await;
    for _ in 0..4 {
        put(&mut peer, None, None, &[pair("k", Some("v"))]).await;
    }
    assert_eq!(read(&mut peer, id).await.0.len(), 4);
    set_topic(&mut peer, "cleanup.policy", "compact").await;
    let expected = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    assert_eq!(settle(&mut peer, id, &expected, (1, 1)).await, [(3, pair("k", Some("v")))]);
    set_topic(&mut peer, "min.compaction.lag.ms", "9000000000000").await;
    put(&mut peer, None, None, &[pair("k", Some("v"))]).await;
    assert_eq!(read(&mut peer, id).await.0.len(), 2);
    set_topic(&mut peer, "min.compaction.lag.ms", "0").await;
    assert_eq!(settle(&mut peer, id, &expected, (1, 1)).await, [(4, pair("k", Some("v")))]);
}
