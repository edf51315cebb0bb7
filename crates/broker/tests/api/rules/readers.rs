//! The records that read_committed and read_uncommitted readers get.

use crate::data::{TOPIC, batches, create, fetch_request, only, produce_request};
use crate::rules::produce::{codes, sound};
use crate::transactions::{Owner, end, owner, write};
use crate::world::{Peer, broker};
use ottla_wire::codec::Compression;
use ottla_wire::messages::FetchRequest;
use ottla_wire::messages::ListOffsetsRequest;
use ottla_wire::messages::fetch_response::PartitionData;
use ottla_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::{ErrorCode, Uuid};
use std::collections::BTreeSet;

fn reading(id: Uuid, from: i64, isolation: i8) -> FetchRequest {
    FetchRequest { isolation_level: isolation, ..fetch_request(id, 12, from) }
}

async fn read(peer: &mut Peer, id: Uuid, from: i64, isolation: i8) -> PartitionData {
    only(peer.call(&reading(id, from, isolation), 12).await)
}

async fn latest(peer: &mut Peer, isolation: i8, timestamp: i64) -> i64 {
    let partition = ListOffsetsPartition { timestamp, ..Default::default() };
    let topic = ListOffsetsTopic { name: TOPIC.into(), partitions: vec![partition], ..Default::default() };
    let request =
        ListOffsetsRequest { isolation_level: isolation, topics: vec![topic], ..Default::default() };
    peer.call(&request, 7).await.topics.remove(0).partitions.remove(0).offset
}

/// Writes a batch, of a transaction if there is an id; its base offset.
async fn put(peer: &mut Peer, id: Option<(&str, Owner, i32)>, count: usize, codec: Compression) -> i64 {
    let batch = sound(id.map(|(_, by, sequence)| (by, sequence)), count, true, codec);
    let mut request = produce_request(Uuid::ZERO, 0, batch);
    request.transactional_id = id.map(|(id, ..)| id.into());
    let (code, offset) = codes(peer, &request, 12).await[0];
    assert_eq!(code, ErrorCode::NONE);
    offset
}

/// The offsets of the records that a read_committed client delivers to its application from a response.
fn delivered(row: &PartitionData) -> Vec<i64> {
    let mut waiting: Vec<_> = row.aborted_transactions.iter().flatten().collect();
    waiting.sort_by_key(|aborted| aborted.first_offset);
    let mut dropped = BTreeSet::new();
    let mut offsets = Vec::new();
    for batch in batches(row) {
        let header = batch.header();
        while waiting.first().is_some_and(|next| next.first_offset <= header.base_offset) {
            dropped.insert(waiting.remove(0).producer_id);
        }
        if header.is_control() {
            dropped.remove(&header.producer_id);
        } else if !(header.is_transactional() && dropped.contains(&header.producer_id)) {
            offsets.extend(header.base_offset..=header.base_offset + i64::from(header.last_offset_delta));
        }
    }
    offsets
}

#[tokio::test]
async fn t_201_t_203_t_204_what_each_isolation_sees_of_an_open_transaction() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    put(&mut peer, None, 2, Compression::None).await;
    let me = owner(&mut peer, "t").await;
    put(&mut peer, Some(("t", me, 0)), 3, Compression::None).await;
    put(&mut peer, None, 1, Compression::None).await;
    for (isolation, expected) in [(0, 3), (1, 1)] {
        let row = read(&mut peer, id, 0, isolation).await;
        assert_eq!((row.high_watermark, row.last_stable_offset), (6, 2), "isolation {isolation}");
        assert_eq!(batches(&row).len(), expected);
        assert_eq!(row.aborted_transactions.is_some(), isolation == 1);
    }
    for from in [2, 4, 6] {
        let row = read(&mut peer, id, from, 1).await;
        assert_eq!((row.error_code, batches(&row).len()), (0, 0), "from {from}: legal, and nothing yet");
    }
    let beyond = read(&mut peer, id, 7, 1).await;
    assert_eq!(ErrorCode(beyond.error_code), ErrorCode::OFFSET_OUT_OF_RANGE);
    assert_eq!((beyond.last_stable_offset, beyond.aborted_transactions), (-1, None));
    // Bytes behind the last stable offset do not count towards `min_bytes`.
    let mut waiting = reading(id, 2, 1);
    waiting.max_wait_ms = 30;
    let begun = std::time::Instant::now();
    assert!(batches(&only(peer.call(&waiting, 12).await)).is_empty());
    assert!(begun.elapsed().as_millis() >= 30);
    end(&mut peer, "t", me, false, 5).await;
    let all = read(&mut peer, id, 0, 0).await;
    assert_eq!((batches(&all).len(), all.aborted_transactions), (4, None), "isolation 0 sees it all");
    assert_eq!(delivered(&read(&mut peer, id, 0, 1).await), [0, 1, 5]);
}

#[tokio::test]
async fn t_205_t_206_whatever_the_reader_asks_for_it_can_tell_what_is_aborted() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    let (mut one, mut two) = (owner(&mut peer, "one").await, owner(&mut peer, "two").await);
    let mut kept = Vec::new();
    for round in 0..6 {
        let mine = put(&mut peer, Some(("one", one, 0)), 2, Compression::None).await;
        let yours = put(&mut peer, Some(("two", two, 0)), 1, Compression::None).await;
        let late = put(&mut peer, Some(("one", one, 2)), 1, Compression::None).await;
        kept.push(put(&mut peer, None, 1, Compression::None).await);
        two = end(&mut peer, "two", two, round % 3 == 0, 5).await.1;
        one = end(&mut peer, "one", one, round % 2 == 0, 5).await.1;
        if round % 2 == 0 {
            kept.extend([mine, mine + 1, late]);
        }
        if round % 3 == 0 {
            kept.push(yours);
        }
    }
    kept.sort_unstable();
    let end = read(&mut peer, id, 0, 1).await.high_watermark;
    for from in 0..end {
        for most in [1, 200, 500, 1 << 20] {
            let mut request = reading(id, from, 1);
            request.topics[0].partitions[0].partition_max_bytes = most;
            let row = only(peer.call(&request, 12).await);
            let until = batches(&row).last().map_or(from, |batch| {
                batch.header().base_offset + i64::from(batch.header().last_offset_delta)
            });
            let found: Vec<_> = delivered(&row).into_iter().filter(|offset| *offset >= from).collect();
            let expected: Vec<_> =
                kept.iter().copied().filter(|offset| (from..=until).contains(offset)).collect();
            assert_eq!(found, expected, "from {from}, at most {most} bytes");
        }
    }
    let all = read(&mut peer, id, 0, 1).await.aborted_transactions.unwrap();
    assert_eq!(all.len(), 3 + 4);
    assert!(
        all.iter().filter(|aborted| aborted.producer_id == one.0).count() == 3,
        "several of one producer"
    );
}

#[tokio::test]
async fn b_53_t_208_a_waiting_reader_learns_what_was_aborted_meanwhile() {
    let server = broker(&[]).await;
    let (mut peer, mut reader) = (Peer::connect(&server).await, Peer::connect(&server).await);
    let id = create(&mut peer, &[]).await;
    let mut me = owner(&mut peer, "t").await;
    let mut from = 0;
    for _ in 0..50 {
        let mut waiting = reading(id, from, 1);
        waiting.max_wait_ms = 30_000;
        reader.tell(&waiting, 12).await;
        put(&mut peer, Some(("t", me, 0)), 2, Compression::None).await;
        me = end(&mut peer, "t", me, false, 5).await.1;
        let row = only(reader.hear::<FetchRequest>(12).await);
        // The response may be from between the batch and its marker, or from behind both. It never has a record to
        // deliver.
        assert_eq!(delivered(&row), []);
        from += 3;
        if batches(&row).is_empty() {
            assert!(row.last_stable_offset < from);
        } else {
            assert_eq!(row.aborted_transactions.as_ref().map(Vec::len), Some(1));
        }
    }
}

#[tokio::test]
async fn b_55_aborted_batches_of_every_codec_are_told_apart() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    let mut me = owner(&mut peer, "t").await;
    let mut kept = Vec::new();
    for (round, codec) in Compression::ALL.into_iter().cycle().take(20).enumerate() {
        let committed = round % 3 == 1;
        let base = put(&mut peer, Some(("t", me, 0)), 3, codec).await;
        let found = read(&mut peer, id, base, 0).await;
        let header = *batches(&found)[0].header();
        assert_eq!((header.compression(), header.is_transactional()), (Ok(codec), true));
        assert_eq!((header.producer_id, header.producer_epoch), me, "kept as it was sent");
        me = end(&mut peer, "t", me, committed, 5).await.1;
        if committed {
            kept.extend(base..base + 3);
        }
    }
    let row = read(&mut peer, id, 0, 1).await;
    assert_eq!(delivered(&row), kept);
}

#[tokio::test]
async fn b_61_t_202_t_210_ends_by_isolation() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    put(&mut peer, None, 5, Compression::None).await;
    let (one, two) = (owner(&mut peer, "one").await, owner(&mut peer, "two").await);
    put(&mut peer, Some(("one", one, 0)), 1, Compression::None).await;
    put(&mut peer, Some(("two", two, 0)), 3, Compression::None).await;
    end(&mut peer, "two", two, true, 5).await;
    assert_eq!((latest(&mut peer, 1, -1).await, latest(&mut peer, 0, -1).await), (5, 10));
    // read_committed readers do not find a timestamp that only records behind the last stable offset have.
    let held = [latest(&mut peer, 1, 1_700_000_000_000).await, latest(&mut peer, 1, -3).await];
    assert!(held.iter().all(|offset| *offset < 5), "{held:?}");
    assert_eq!(delivered(&read(&mut peer, id, 0, 1).await), [0, 1, 2, 3, 4]);
    end(&mut peer, "one", one, false, 5).await;
    assert_eq!(delivered(&read(&mut peer, id, 0, 1).await), [0, 1, 2, 3, 4, 6, 7, 8]);
    assert_eq!(latest(&mut peer, 1, -1).await, 11);
}

#[tokio::test]
async fn b_62_t_214_the_end_lies_behind_the_marker() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    assert_eq!(write(&mut peer, Some("t"), me, 0, 12).await, ErrorCode::NONE);
    end(&mut peer, "t", me, true, 5).await;
    for isolation in [0, 1] {
        assert_eq!(latest(&mut peer, isolation, -1).await, 2);
        assert_eq!(batches(&read(&mut peer, id, 0, isolation).await).len(), 2);
        let row = read(&mut peer, id, 2, isolation).await;
        assert_eq!((row.error_code, batches(&row).len()), (0, 0));
    }
}

#[tokio::test]
async fn b_70_an_offset_inside_a_batch_gets_the_batch_as_it_was_sent() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    let mut base = 0;
    for codec in Compression::ALL {
        let sent = sound(None, 10, false, codec);
        put(&mut peer, None, 10, codec).await;
        for isolation in [0, 1] {
            let row = read(&mut peer, id, base + 7, isolation).await;
            assert_eq!(row.error_code, 0);
            let found = row.records.as_ref().unwrap().to_bytes();
            assert_eq!(found[..8], base.to_be_bytes(), "from the batch's own first offset on");
            // Except for offset and leader epoch, which the broker assigns and no checksum covers.
            assert_eq!(found[8..12], sent[8..12]);
            assert_eq!(found[16..], sent[16..], "{codec:?}");
        }
        base += 10;
    }
}
