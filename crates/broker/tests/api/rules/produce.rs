//! Produce: its checks, their order, and the state after them.

use crate::data::{TOPIC, batches, create, fetch_request, only, produce_request};
use crate::transactions::{Owner, add, end, init, owner, write};
use crate::world::{Peer, broker, header};
use bytes::Bytes;
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::messages::{ApiVersionsRequest, ProduceRequest};
use ottla_wire::{ErrorCode, Text, Uuid};

const NOW: i64 = 1_700_000_000_000;

/// A batch of records, with a producer id if one is given.
pub(super) fn sound(
    by: Option<(Owner, i32)>,
    count: usize,
    transactional: bool,
    codec: Compression,
) -> Bytes {
    let mut builder = BatchBuilder::new(codec);
    if let Some(((producer_id, epoch), sequence)) = by {
        builder = builder.producer(producer_id, epoch, sequence).transactional(transactional);
    }
    for n in 0..count {
        let value = format!("value {n}");
        builder.push(&NewRecord {
            timestamp: NOW,
            key: Some(b"k"),
            value: Some(value.as_bytes()),
            headers: &[],
        });
    }
    builder.build().unwrap()
}

/// The batch with other header bytes from `at` on, and the checksum of the changed batch.
pub(super) fn patched(batch: &[u8], at: usize, bytes: &[u8]) -> Bytes {
    let mut batch = batch.to_vec();
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch.into()
}

/// The batch with a byte flipped behind its checksum.
fn broken(batch: &[u8]) -> Bytes {
    let mut batch = batch.to_vec();
    *batch.last_mut().unwrap() ^= 1;
    batch.into()
}

/// Code and base offset of a Produce response, by partition.
pub(super) async fn codes(peer: &mut Peer, request: &ProduceRequest, version: i16) -> Vec<(ErrorCode, i64)> {
    let response = peer.call(request, version).await;
    let parts = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    parts.map(|part| (ErrorCode(part.error_code), part.base_offset)).collect()
}

async fn code(peer: &mut Peer, batch: Bytes, version: i16) -> ErrorCode {
    codes(peer, &produce_request(Uuid::ZERO, 0, batch), version).await[0].0
}

#[tokio::test]
async fn t_08_produce_is_advertised_from_0_and_served_from_3() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let told = peer.call(&ApiVersionsRequest::default(), 0).await;
    let produce = told.api_keys.iter().find(|row| row.api_key == 0).unwrap();
    assert_eq!((produce.min_version, produce.max_version), (0, 13));
    for version in 0..=2 {
        let mut peer = Peer::connect(&server).await;
        // acks 1, a timeout, no topics.
        let body = b"\0\x01\0\0\0\x64\0\0\0\0";
        peer.send_frame(&[&header(0, version, Some("x"), false)[..], body].concat()).await;
        assert!(peer.is_closed().await, "version {version}");
    }
}

#[tokio::test]
async fn t_40_of_two_faults_the_first_in_order_is_told() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[("max.message.bytes", "500")]).await;
    let me = owner(&mut peer, "t").await;
    let good = sound(Some((me, 0)), 1, false, Compression::None);
    let base_5 = |batch: &[u8]| patched(batch, 0, &5_i64.to_be_bytes());
    let negative = |batch: &[u8]| patched(batch, 53, &(-3_i32).to_be_bytes());
    let control = |batch: &[u8]| patched(batch, 21, &0x20_i16.to_be_bytes());
    let large = sound(Some((me, 7)), 90, false, Compression::None);
    let zstd = sound(None, 1, false, Compression::Zstd);
    let gap = sound(Some((me, 7)), 1, false, Compression::None);
    let twice = |batch: &Bytes| Bytes::from([batch.clone(), batch.clone()].concat());
    let invalid = ErrorCode::INVALID_RECORD;
    // The partition knows the producer, at an epoch above the stale one.
    assert_eq!(code(&mut peer, good.clone(), 12).await, ErrorCode::NONE);
    for (version, batch, expected) in [
        (12, twice(&broken(&good)), invalid),
        (6, base_5(&zstd), ErrorCode::UNSUPPORTED_COMPRESSION_TYPE),
        (12, base_5(&broken(&good)), invalid),
        (12, broken(&negative(&good)), ErrorCode::CORRUPT_MESSAGE),
        (12, control(&gap), invalid),
        (12, large, ErrorCode::MESSAGE_TOO_LARGE),
        (12, good.clone(), ErrorCode::NONE),
        (12, gap, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER),
    ] {
        assert_eq!(code(&mut peer, batch, version).await, expected);
    }
    // First duplicates, then the epoch, then the sequence, and only then whether the batch is transactional.
    let next = init(&mut peer, "t", (-1, -1), 4).await;
    let now = (next.producer_id, next.producer_epoch);
    assert_eq!(write(&mut peer, Some("t"), now, 0, 12).await, ErrorCode::NONE);
    let plain = |by, sequence| sound(Some((by, sequence)), 1, false, Compression::None);
    for (batch, expected) in [
        (plain(now, 0), ErrorCode::NONE),
        (plain(me, 9), ErrorCode::INVALID_PRODUCER_EPOCH),
        (plain(now, 9), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER),
        (plain(now, 1), ErrorCode::INVALID_TXN_STATE),
    ] {
        assert_eq!(code(&mut peer, batch, 12).await, expected);
    }
}

#[tokio::test]
async fn t_49_t_57_what_clients_may_not_write() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    let mine = sound(Some((me, 0)), 1, false, Compression::None);
    let transactional = sound(Some((me, 0)), 1, true, Compression::None);
    for batch in [
        patched(&mine, 21, &0x20_i16.to_be_bytes()),
        patched(&transactional, 21, &0x30_i16.to_be_bytes()),
        patched(&mine, 53, &(-2_i32).to_be_bytes()),
        patched(&transactional, 43, &(-1_i64).to_be_bytes()),
    ] {
        let mut request = produce_request(Uuid::ZERO, 0, batch);
        request.transactional_id = Some("t".into());
        assert_eq!(codes(&mut peer, &request, 12).await, [(ErrorCode::INVALID_RECORD, -1)]);
    }
    assert!(batches(&only(peer.call(&fetch_request(id, 12, 0), 12).await)).is_empty());
    assert_eq!(end(&mut peer, "t", me, true, 5).await.0, ErrorCode::INVALID_TXN_STATE, "nothing began");
}

#[tokio::test]
async fn t_51_t_72_partitions_do_not_depend_on_each_other() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let two = |first: Bytes, second: Bytes| {
        let mut request = produce_request(Uuid::ZERO, 0, first);
        let more = produce_request(Uuid::ZERO, 1, second).topic_data.remove(0);
        request.topic_data[0].partition_data.extend(more.partition_data);
        request
    };
    let plain = sound(None, 3, false, Compression::None);
    for (first, second, expected) in [
        (broken(&plain), plain.clone(), [(ErrorCode::CORRUPT_MESSAGE, -1), (ErrorCode::NONE, 0)]),
        (plain.clone(), broken(&plain), [(ErrorCode::NONE, 0), (ErrorCode::CORRUPT_MESSAGE, -1)]),
        (plain.clone(), plain.clone(), [(ErrorCode::NONE, 3), (ErrorCode::NONE, 3)]),
    ] {
        assert_eq!(codes(&mut peer, &two(first, second), 12).await, expected);
    }
    // In a transaction of version 1, only the partition that was added accepts a batch.
    let me = owner(&mut peer, "t").await;
    add(&mut peer, "t", me, &[(TOPIC, 1)], 3).await;
    let mine = sound(Some((me, 0)), 1, true, Compression::None);
    let mut request = two(mine.clone(), mine);
    request.transactional_id = Some("t".into());
    let found = codes(&mut peer, &request, 11).await;
    assert_eq!(found, [(ErrorCode::TRANSACTION_ABORTABLE, -1), (ErrorCode::NONE, 6)]);
}

#[tokio::test]
async fn t_60_t_61_what_drops_out_before_the_transaction() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    let mine = || sound(Some((me, 0)), 1, true, Compression::None);
    // Without a transactional id no batch of the request is appended, not even the plain ones.
    let mut request = produce_request(Uuid::ZERO, 0, mine());
    let plain = produce_request(Uuid::ZERO, 1, sound(None, 1, false, Compression::None)).topic_data.remove(0);
    request.topic_data[0].partition_data.extend(plain.partition_data);
    let denied = (ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1);
    assert_eq!(codes(&mut peer, &request, 12).await, [denied; 2]);
    // A partition that does not exist is not added.
    let mut request = produce_request(Uuid::ZERO, 9, mine());
    request.transactional_id = Some("t".into());
    assert_eq!(codes(&mut peer, &request, 12).await[0].0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    let mut request = produce_request(Uuid([9; 16]), 0, mine());
    request.transactional_id = Some("t".into());
    request.topic_data[0].name = "".into();
    assert_eq!(codes(&mut peer, &request, 13).await[0].0, ErrorCode::UNKNOWN_TOPIC_ID);
    assert_eq!(end(&mut peer, "t", me, true, 5).await.0, ErrorCode::INVALID_TXN_STATE, "nothing began");
    // A transactional id is ignored if no batch is transactional.
    let mut request = produce_request(id, 0, sound(None, 1, false, Compression::None));
    request.transactional_id = Some("never seen".into());
    assert_eq!(codes(&mut peer, &request, 12).await, [(ErrorCode::NONE, 0)]);
}

#[tokio::test]
async fn t_05_t_64_each_version_of_produce_joins_or_verifies() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let topic_id = create(&mut peer, &[]).await;
    for version in 3..=13 {
        let id = format!("t{version}");
        let me = owner(&mut peer, &id).await;
        let mut request = produce_request(topic_id, 0, sound(Some((me, 0)), 1, true, Compression::None));
        request.transactional_id = Some(Text::from(id.as_str()));
        if version >= 13 {
            request.topic_data[0].name = "".into();
        }
        let found = codes(&mut peer, &request, version).await[0].0;
        let expected = match version {
            ..=10 => ErrorCode::INVALID_TXN_STATE,
            11 => ErrorCode::TRANSACTION_ABORTABLE,
            _ => ErrorCode::NONE,
        };
        assert_eq!(found, expected, "version {version}");
        let began = end(&mut peer, &id, me, true, 5).await.0 == ErrorCode::NONE;
        assert_eq!(began, version >= 12, "version {version}");
    }
}

#[tokio::test]
async fn b_15_t_68_a_batch_beside_an_abort_lies_before_the_marker_or_nowhere() {
    let server = broker(&[]).await;
    let (mut peer, mut other) = (Peer::connect(&server).await, Peer::connect(&server).await);
    let id = create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    let mut sequence = 0;
    let mut outcomes = [0, 0];
    for _ in 0..100 {
        add(&mut peer, "t", me, &[(TOPIC, 0)], 3).await;
        let (written, ended) =
            tokio::join!(write(&mut peer, Some("t"), me, sequence, 11), end(&mut other, "t", me, false, 3));
        assert_eq!(ended.0, ErrorCode::NONE);
        match written {
            ErrorCode::NONE => sequence += 1,
            refused => assert_eq!(refused, ErrorCode::TRANSACTION_ABORTABLE),
        }
        outcomes[usize::from(written == ErrorCode::NONE)] += 1;
        let mut committed = fetch_request(id, 12, 0);
        committed.isolation_level = 1;
        let row = only(peer.call(&committed, 12).await);
        assert_eq!(row.last_stable_offset, row.high_watermark, "nothing hangs");
        assert!(batches(&row).last().is_none_or(|last| last.header().is_control()), "a marker is last");
    }
    assert_eq!(outcomes.iter().sum::<i32>(), 100);
    // Adding another partition does not affect the batch.
    add(&mut peer, "t", me, &[(TOPIC, 0)], 3).await;
    for _ in 0..100 {
        let (written, added) = tokio::join!(
            write(&mut peer, Some("t"), me, sequence, 11),
            add(&mut other, "t", me, &[(TOPIC, 1)], 3)
        );
        assert_eq!((written, added), (ErrorCode::NONE, vec![ErrorCode::NONE]));
        sequence += 1;
    }
}

#[tokio::test]
async fn b_11_t_66_the_next_transaction_follows_at_once() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    let mut me = owner(&mut peer, "t").await;
    for round in 0..1000 {
        let mut request = produce_request(Uuid::ZERO, 0, sound(Some((me, 0)), 1, true, Compression::None));
        request.transactional_id = Some("t".into());
        assert_eq!(codes(&mut peer, &request, 12).await, [(ErrorCode::NONE, 2 * round)]);
        let (code, next) = end(&mut peer, "t", me, true, 5).await;
        assert_eq!(code, ErrorCode::NONE);
        me = next;
    }
    let mut committed = fetch_request(id, 12, 0);
    committed.isolation_level = 1;
    let row = only(peer.call(&committed, 12).await);
    let bases: Vec<_> = batches(&row).iter().map(|batch| batch.header().base_offset).collect();
    assert_eq!(bases, (0..2000).collect::<Vec<_>>());
    assert_eq!(row.aborted_transactions.as_deref(), Some(&[][..]));
}

#[tokio::test]
async fn b_30_b_32_t_48_sequences_wrap_on_the_wire() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let at = |by: i64, sequence, count| sound(Some(((by, 0), sequence)), count, false, Compression::None);
    for (batch, expected) in [
        (at(70, 2_147_483_640, 20), (ErrorCode::NONE, 0)),
        (at(70, 2_147_483_640, 20), (ErrorCode::NONE, 0)),
        (at(70, 12, 1), (ErrorCode::NONE, 20)),
        (at(71, 2_147_483_646, 1), (ErrorCode::NONE, 21)),
        (at(71, 0, 1), (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1)),
        (at(71, 2_147_483_647, 1), (ErrorCode::NONE, 22)),
        (at(71, 0, 1), (ErrorCode::NONE, 23)),
    ] {
        assert_eq!(codes(&mut peer, &produce_request(Uuid::ZERO, 0, batch), 12).await, [expected]);
    }
}

#[tokio::test]
async fn producers_above_the_limit_are_forgotten_and_counted() {
    let server = broker(&[("ottla.producers.max", "10")]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    for producer in 1..=14 {
        let request = produce_request(id, 0, sound(Some(((producer, 0), 0)), 1, false, Compression::None));
        assert_eq!(codes(&mut peer, &request, 12).await[0].0, ErrorCode::NONE);
    }
    let forgotten = || server.context().metrics().producers_forgotten.get();
    for _ in 0..1000 {
        if forgotten() >= 4 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{} of 4 producers are counted", forgotten());
}
