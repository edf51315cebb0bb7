//! What a topic's settings make of a batch: the codec it is stored with, the sizes and timestamps it may have, the
//! records that an answer names.

use crate::configs::set_topic;
use crate::data::{batches, create, fetch_request, only, produce_request};
use crate::world::{Peer, broker};
use bytes::Bytes;
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::messages::produce_response::PartitionProduceResponse;
use ottla_wire::{ErrorCode, Uuid};
use std::time::{SystemTime, UNIX_EPOCH};

/// A record: whether it has a key, the length of its value, its timestamp.
type Record = (bool, usize, i64);

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn batch(codec: Compression, records: &[Record]) -> Bytes {
    let mut builder = BatchBuilder::new(codec);
    for (has_key, length, timestamp) in records {
        let (key, value) = (has_key.then_some(&b"key"[..]), vec![b'v'; *length]);
        builder.push(&NewRecord { timestamp: *timestamp, key, value: Some(&value), headers: &[] });
    }
    builder.build().unwrap()
}

async fn produce(peer: &mut Peer, batch: Bytes) -> PartitionProduceResponse {
    let mut response = peer.call(&produce_request(Uuid::ZERO, 0, batch), 12).await;
    response.responses.remove(0).partition_responses.remove(0)
}

async fn code(peer: &mut Peer, batch: Bytes) -> ErrorCode {
    ErrorCode(produce(peer, batch).await.error_code)
}

/// The codecs of the stored batches, and that each holds the three records that were sent.
async fn stored(peer: &mut Peer, id: Uuid) -> Vec<Compression> {
    let row = only(peer.call(&fetch_request(id, 12, 0), 12).await);
    let codec = |batch: &ottla_wire::batch::Batch| {
        batch.validate_header().unwrap();
        batch.validate_records(1 << 20).unwrap();
        let set = batch.records(1 << 20).unwrap();
        assert!(set.iter().all(|record| record.unwrap().value.unwrap() == [b'v'; 500]));
        batch.header().compression().unwrap()
    };
    batches(&row).iter().map(codec).collect()
}

#[tokio::test]
async fn a_topic_stores_batches_in_its_own_codec() {
    let three = |codec| batch(codec, &[(true, 500, now()); 3]);
    for (name, target) in [
        ("uncompressed", Some(Compression::None)),
        ("gzip", Some(Compression::Gzip)),
        ("snappy", Some(Compression::Snappy)),
        ("lz4", Some(Compression::Lz4)),
        ("zstd", Some(Compression::Zstd)),
        ("producer", None),
    ] {
        let server = broker(&[]).await;
        let mut peer = Peer::connect(&server).await;
        let id = create(&mut peer, &[("compression.type", name), ("max.message.bytes", "10000")]).await;
        for codec in Compression::ALL {
            assert_eq!(code(&mut peer, three(codec)).await, ErrorCode::NONE, "{name} {codec:?}");
        }
        let expected: Vec<_> = Compression::ALL.into_iter().map(|codec| target.unwrap_or(codec)).collect();
        assert_eq!(stored(&mut peer, id).await, expected, "{name}");
        // Only uncompressed makes the batch larger than the topic takes.
        let packed = batch(Compression::Gzip, &[(true, 50_000, now())]);
        let expected = if name == "uncompressed" { ErrorCode::MESSAGE_TOO_LARGE } else { ErrorCode::NONE };
        assert_eq!(code(&mut peer, packed).await, expected, "{name}");
    }
}

#[tokio::test]
async fn the_codec_of_a_topic_changes_with_its_settings() {
    let server = broker(&[("compression.type", "lz4")]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    let plain = || batch(Compression::None, &[(true, 500, now()); 3]);
    code(&mut peer, plain()).await;
    set_topic(&mut peer, "compression.type", "zstd").await;
    code(&mut peer, plain()).await;
    set_topic(&mut peer, "compression.type", "producer").await;
    code(&mut peer, plain()).await;
    let expected = [Compression::Lz4, Compression::Zstd, Compression::None];
    assert_eq!(stored(&mut peer, id).await, expected);
}

#[tokio::test]
async fn records_may_be_too_large_when_decompressed() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[("max.decompressed.message.bytes", "1000")]).await;
    for codec in Compression::ALL {
        let (small, large) = (batch(codec, &[(false, 900, now())]), batch(codec, &[(false, 1100, now())]));
        assert_eq!(code(&mut peer, small).await, ErrorCode::NONE, "{codec:?}");
        let expected = if codec == Compression::None { ErrorCode::NONE } else { ErrorCode::INVALID_RECORD };
        assert_eq!(code(&mut peer, large).await, expected, "{codec:?}");
    }
}

#[tokio::test]
async fn the_size_of_a_batch_is_judged_before_its_contents() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[("max.message.bytes", "1000"), ("cleanup.policy", "compact")]).await;
    let sound = batch(Compression::None, &[(false, 2000, now())]);
    assert_eq!(code(&mut peer, sound.clone()).await, ErrorCode::MESSAGE_TOO_LARGE);
    let mut damaged = sound.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(code(&mut peer, damaged.into()).await, ErrorCode::MESSAGE_TOO_LARGE);
}

#[tokio::test]
async fn every_record_that_the_topic_refuses_is_named() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[("cleanup.policy", "compact")]).await;
    let (today, far) = (now(), now() + 100_000_000);
    for (records, expected, named) in [
        (vec![(true, 1, today), (false, 1, today), (true, 1, today), (false, 1, today)], 87, vec![1, 3]),
        (vec![(true, 1, today), (false, 1, today), (true, 1, far), (false, 1, far)], 32, vec![1, 2, 3]),
        (vec![(true, 1, far), (true, 1, today), (true, 1, far)], 32, vec![0, 2]),
    ] {
        for codec in [Compression::None, Compression::Lz4] {
            let part = produce(&mut peer, batch(codec, &records)).await;
            let found: Vec<i32> = part.record_errors.iter().map(|error| error.batch_index).collect();
            assert_eq!((part.error_code, found), (expected, named.clone()), "{records:?}");
            let message = |error: &ottla_wire::messages::produce_response::BatchIndexAndErrorMessage| {
                error.batch_index_error_message.as_ref().is_some_and(|text| !text.is_empty())
            };
            assert!(part.record_errors.iter().all(message));
        }
    }
    // More are not named than a bound.
    let part = produce(&mut peer, batch(Compression::None, &vec![(false, 1, today); 1500])).await;
    assert_eq!((part.error_code, part.record_errors.len()), (87, 1000));
}

#[tokio::test]
async fn a_timestamp_too_early_for_any_bound_is_refused() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    for (timestamp, expected) in [
        (i64::MIN, ErrorCode::INVALID_TIMESTAMP),
        (i64::MIN + now() + 100_000, ErrorCode::NONE),
        (-2, ErrorCode::NONE),
        (-1, ErrorCode::NONE),
    ] {
        let found = code(&mut peer, batch(Compression::None, &[(true, 1, timestamp)])).await;
        assert_eq!(found, expected, "{timestamp}");
    }
}
