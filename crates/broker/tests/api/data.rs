//! Produce, Fetch, ListOffsets and DeleteRecords over a connection.

use crate::world::{Peer, broker};
use bytes::Bytes;
use ottla_wire::batch::{Batch, BatchBuilder, NewRecord, split};
use ottla_wire::codec::Compression;
use ottla_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use ottla_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use ottla_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_wire::messages::fetch_response::{FetchResponse, PartitionData};
use ottla_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::messages::list_offsets_response::ListOffsetsPartitionResponse;
use ottla_wire::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::messages::produce_response::PartitionProduceResponse;
use ottla_wire::messages::{
    CreateTopicsRequest, DeleteRecordsRequest, FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest,
    ProduceRequest,
};
use ottla_wire::{ErrorCode, Records, Uuid};
use std::time::{Duration, Instant};

pub(crate) const TOPIC: &str = "events";
const NOW: i64 = 1_700_000_000_000;

pub(crate) async fn create(peer: &mut Peer, configs: &[(&str, &str)]) -> Uuid {
    let config = |(name, value): &(&str, &str)| CreatableTopicConfig {
        name: (*name).into(),
        value: Some((*value).into()),
        ..Default::default()
    };
    let topic = CreatableTopic {
        name: TOPIC.into(),
        num_partitions: 2,
        replication_factor: 1,
        configs: configs.iter().map(config).collect(),
        ..Default::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() };
    let response = peer.call(&request, 7).await;
    assert_eq!(response.topics[0].error_code, 0);
    response.topics[0].topic_id
}

fn records(count: i64, compression: Compression) -> Bytes {
    let mut builder = BatchBuilder::new(compression);
    for n in 0..count {
        let value = format!("value-{n}");
        let record =
            NewRecord { timestamp: NOW + n, key: Some(b"key"), value: Some(value.as_bytes()), headers: &[] };
        builder.push(&record);
    }
    builder.build().unwrap()
}

pub(crate) fn produce_request(topic_id: Uuid, index: i32, batch: Bytes) -> ProduceRequest {
    let partition = PartitionProduceData { index, records: Some(Records::from(batch)), ..Default::default() };
    let topic = TopicProduceData {
        name: TOPIC.into(),
        topic_id,
        partition_data: vec![partition],
        ..Default::default()
    };
    ProduceRequest { acks: -1, timeout_ms: 1000, topic_data: vec![topic], ..Default::default() }
}

async fn produce(peer: &mut Peer, version: i16, id: Uuid, batch: Bytes) -> PartitionProduceResponse {
    let id = if version >= 13 { id } else { Uuid::ZERO };
    let mut request = produce_request(id, 0, batch);
    if version >= 13 {
        request.topic_data[0].name = "".into();
    }
    let mut response = peer.call(&request, version).await;
    response.responses.remove(0).partition_responses.remove(0)
}

pub(crate) fn fetch_request(topic_id: Uuid, version: i16, from: i64) -> FetchRequest {
    let partition = FetchPartition {
        partition: 0,
        fetch_offset: from,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let mut topic = FetchTopic { partitions: vec![partition], ..Default::default() };
    if version >= 13 {
        topic.topic_id = topic_id;
    } else {
        topic.topic = TOPIC.into();
    }
    FetchRequest { max_wait_ms: 0, min_bytes: 1, topics: vec![topic], ..Default::default() }
}

pub(crate) fn only(mut response: FetchResponse) -> PartitionData {
    assert_eq!(response.error_code, 0);
    response.responses.remove(0).partitions.remove(0)
}

pub(crate) fn batches(row: &PartitionData) -> Vec<Batch> {
    let bytes = row.records.as_ref().unwrap().to_bytes();
    split(&bytes).map(Result::unwrap).collect()
}

async fn offset_at(peer: &mut Peer, version: i16, timestamp: i64) -> ListOffsetsPartitionResponse {
    let partition = ListOffsetsPartition { timestamp, ..Default::default() };
    let topic = ListOffsetsTopic { name: TOPIC.into(), partitions: vec![partition], ..Default::default() };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    peer.call(&request, version).await.topics.remove(0).partitions.remove(0)
}

#[tokio::test]
async fn what_is_produced_is_fetched_in_every_version_and_codec() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    let mut expected = 0;
    for version in 3..=13 {
        for codec in Compression::ALL {
            let part = produce(&mut peer, version, id, records(3, codec)).await;
            if codec == Compression::Zstd && version < 7 {
                assert_eq!(part.error_code, ErrorCode::UNSUPPORTED_COMPRESSION_TYPE.0);
                continue;
            }
            assert_eq!((part.error_code, part.base_offset), (0, expected), "version {version}, {codec:?}");
            expected += 3;
        }
    }
    for version in 4..=18 {
        let row = only(peer.call(&fetch_request(id, version, 0), version).await);
        let found = batches(&row);
        assert_eq!((row.error_code, row.high_watermark, row.last_stable_offset), (0, expected, expected));
        assert!(row.aborted_transactions.is_none());
        assert_eq!(found.len(), 51, "version {version}: zstd is sent to every version");
        assert_eq!(found[0].header().base_offset, 0);
        for batch in &found {
            batch.check_crc().unwrap();
            assert_eq!(batch.records(1 << 20).unwrap().iter().count(), 3);
        }
        // B-70: a fetch from an offset inside a batch returns the whole batch.
        let inside = only(peer.call(&fetch_request(id, version, 4), version).await);
        assert_eq!(batches(&inside)[0].header().base_offset, 3);
    }
}

#[tokio::test]
async fn b_74_records_are_never_null() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    for version in [4, 11, 12, 16] {
        let empty = only(peer.call(&fetch_request(id, version, 0), version).await);
        assert_eq!((empty.error_code, empty.records), (0, Some(Records::default())));
        let beyond = only(peer.call(&fetch_request(id, version, 1), version).await);
        assert_eq!(beyond.error_code, ErrorCode::OFFSET_OUT_OF_RANGE.0);
        assert_eq!((beyond.high_watermark, beyond.records), (-1, Some(Records::default())));
        let mut other = fetch_request(Uuid([9; 16]), version, 0);
        if version < 13 {
            other.topics[0].topic = "other".into();
        }
        let unknown = only(peer.call(&other, version).await);
        let code =
            if version < 13 { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION } else { ErrorCode::UNKNOWN_TOPIC_ID };
        assert_eq!((unknown.error_code, unknown.records), (code.0, Some(Records::default())));
    }
}

#[tokio::test]
async fn a_fetch_waits_for_data_and_no_longer() {
    let server = broker(&[]).await;
    let (mut reader, mut writer) = (Peer::connect(&server).await, Peer::connect(&server).await);
    let id = create(&mut writer, &[]).await;
    let mut request = fetch_request(id, 12, 0);
    request.max_wait_ms = 30_000;
    let begun = Instant::now();
    let (response, _) = tokio::join!(reader.call(&request, 12), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        produce(&mut writer, 12, id, records(1, Compression::None)).await
    });
    assert_eq!(batches(&only(response)).len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(20));
    let mut request = fetch_request(id, 12, 1);
    request.max_wait_ms = 50;
    assert!(batches(&only(reader.call(&request, 12).await)).is_empty());
}

#[tokio::test]
async fn a_session_answers_with_news_only() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    let mut request = fetch_request(id, 13, 0);
    request.session_epoch = 0;
    let first = peer.call(&request, 13).await;
    assert!(first.session_id > 0);
    let next = |epoch| FetchRequest {
        session_id: first.session_id,
        session_epoch: epoch,
        min_bytes: 1,
        ..Default::default()
    };
    assert!(peer.call(&next(1), 13).await.responses.is_empty());
    produce(&mut peer, 13, id, records(1, Compression::None)).await;
    assert_eq!(batches(&only(peer.call(&next(2), 13).await)).len(), 1);
    let stale = peer.call(&next(2), 13).await;
    assert_eq!(stale.error_code, ErrorCode::INVALID_FETCH_SESSION_EPOCH.0);
}

#[tokio::test]
async fn limits_are_kept_but_the_first_batch_comes_whole() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    for _ in 0..3 {
        produce(&mut peer, 12, id, records(10, Compression::None)).await;
    }
    let mut request = fetch_request(id, 12, 0);
    request.max_bytes = 1;
    assert_eq!(batches(&only(peer.call(&request, 12).await)).len(), 1);
    let mut request = fetch_request(id, 12, 0);
    request.topics[0].partitions[0].partition_max_bytes = 500;
    assert_eq!(batches(&only(peer.call(&request, 12).await)).len(), 2);
}

#[tokio::test]
async fn bad_batches_are_refused_with_the_code_that_says_why() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[("max.message.bytes", "1000")]).await;
    let sound = records(2, Compression::None);
    let mut broken = sound.to_vec();
    broken[70] ^= 1;
    let mut strange = sound.to_vec();
    strange[16] = 3;
    let cases = [
        (Bytes::from(broken), ErrorCode::CORRUPT_MESSAGE),
        // Bytes that end inside a batch are an invalid record; an illegal length or format is a corrupt message.
        (sound.slice(..sound.len() - 1), ErrorCode::INVALID_RECORD),
        (sound.slice(..7), ErrorCode::INVALID_RECORD),
        (Bytes::from_static(&[0; 75]), ErrorCode::CORRUPT_MESSAGE),
        (strange.into(), ErrorCode::CORRUPT_MESSAGE),
        (Bytes::from([sound.clone(), sound.clone()].concat()), ErrorCode::INVALID_RECORD),
        (Bytes::new(), ErrorCode::INVALID_RECORD),
        (records(100, Compression::None), ErrorCode::MESSAGE_TOO_LARGE),
        (sound, ErrorCode::NONE),
    ];
    for (batch, code) in cases {
        let part = produce(&mut peer, 13, id, batch).await;
        assert_eq!(ErrorCode(part.error_code), code);
        assert_eq!(part.base_offset, if code == ErrorCode::NONE { 0 } else { -1 });
    }
    let unknown = produce(&mut peer, 13, Uuid([9; 16]), records(1, Compression::None)).await;
    assert_eq!(ErrorCode(unknown.error_code), ErrorCode::UNKNOWN_TOPIC_ID);
    let mut request = produce_request(Uuid::ZERO, 7, records(1, Compression::None));
    let part = peer.call(&request, 12).await.responses.remove(0).partition_responses.remove(0);
    assert_eq!(ErrorCode(part.error_code), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    request.acks = 2;
    let part = peer.call(&request, 12).await.responses.remove(0).partition_responses.remove(0);
    assert_eq!(ErrorCode(part.error_code), ErrorCode::INVALID_REQUIRED_ACKS);
}

#[tokio::test]
async fn a_batch_that_no_log_can_hold_is_refused_whatever_the_topic_allows() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[("max.message.bytes", "10000000")]).await;
    let batch = |size: usize| {
        let value = vec![7; size];
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(&NewRecord { timestamp: NOW, key: None, value: Some(&value), headers: &[] });
        builder.build().unwrap()
    };
    // The segments of this log have 4 MiB, and a record may take half a segment.
    let part = produce(&mut peer, 13, id, batch(3 << 20)).await;
    assert_eq!(ErrorCode(part.error_code), ErrorCode::MESSAGE_TOO_LARGE);
    let part = produce(&mut peer, 13, id, batch((2 << 20) - 1024)).await;
    assert_eq!(ErrorCode(part.error_code), ErrorCode::NONE);
}

#[tokio::test]
async fn a_compacted_topic_names_the_record_without_a_key() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[("cleanup.policy", "compact")]).await;
    let mut builder = BatchBuilder::new(Compression::Gzip);
    for key in [Some(&b"k"[..]), None, None] {
        builder.push(&NewRecord { timestamp: NOW, key, value: Some(b"v"), headers: &[] });
    }
    let part = produce(&mut peer, 13, id, builder.build().unwrap()).await;
    assert_eq!(ErrorCode(part.error_code), ErrorCode::INVALID_RECORD);
    assert_eq!(part.record_errors[0].batch_index, 1);
}

#[tokio::test]
async fn t_50_acks_0_has_no_answer_but_a_closed_connection_on_error() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    let mut request = produce_request(Uuid::ZERO, 0, records(1, Compression::None));
    request.acks = 0;
    peer.tell(&request, 12).await;
    assert_eq!(offset_at(&mut peer, 7, -1).await.offset, 1, "the next answer is that of the next request");
    request.topic_data[0].partition_data[0].index = 9;
    peer.tell(&request, 12).await;
    assert!(peer.is_closed().await);
    let mut peer = Peer::connect(&server).await;
    assert_eq!(batches(&only(peer.call(&fetch_request(id, 12, 0), 12).await)).len(), 1);
}

#[tokio::test]
async fn log_append_time_is_in_the_answer_and_in_the_batch() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[("message.timestamp.type", "LogAppendTime")]).await;
    let part = produce(&mut peer, 12, id, records(2, Compression::None)).await;
    assert!(part.log_append_time_ms > NOW);
    let row = only(peer.call(&fetch_request(id, 12, 0), 12).await);
    let batch = &batches(&row)[0];
    batch.check_crc().unwrap();
    assert!(batch.header().is_log_append_time());
    assert_eq!(batch.header().max_timestamp, part.log_append_time_ms);
}

#[tokio::test]
async fn offsets_are_listed_by_time_in_every_version() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    produce(&mut peer, 12, id, records(5, Compression::Lz4)).await;
    produce(&mut peer, 12, id, records(9, Compression::None)).await;
    for version in 1..=11 {
        assert_eq!(offset_at(&mut peer, version, -1).await.offset, 14, "version {version}");
        assert_eq!(offset_at(&mut peer, version, -2).await.offset, 0);
        let found = offset_at(&mut peer, version, NOW + 3).await;
        assert_eq!((found.timestamp, found.offset), (NOW + 3, 3));
        assert_eq!(offset_at(&mut peer, version, NOW + 7).await.offset, 12);
        assert_eq!(offset_at(&mut peer, version, NOW + 99).await.offset, -1);
        let latest = offset_at(&mut peer, version, -3).await;
        let expected = if version < 7 { (ErrorCode::UNSUPPORTED_VERSION.0, -1) } else { (0, 13) };
        assert_eq!((latest.error_code, latest.offset), expected);
    }
}

#[tokio::test]
async fn deleted_records_are_gone_and_the_epoch_ends_at_the_end() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    produce(&mut peer, 12, id, records(5, Compression::None)).await;
    for (offset, expected) in [(2, (0, 2)), (9, (ErrorCode::OFFSET_OUT_OF_RANGE.0, -1)), (-1, (0, 5))] {
        let partition = DeleteRecordsPartition { partition_index: 0, offset, ..Default::default() };
        let topic =
            DeleteRecordsTopic { name: TOPIC.into(), partitions: vec![partition], ..Default::default() };
        let request = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 100, ..Default::default() };
        let part = peer.call(&request, 2).await.topics.remove(0).partitions.remove(0);
        assert_eq!((part.error_code, part.low_watermark), expected);
    }
    assert_eq!(offset_at(&mut peer, 7, -2).await.offset, 5);
    for (epoch, expected) in [(0, (0, 5)), (1, (-1, -1))] {
        let partition = OffsetForLeaderPartition { leader_epoch: epoch, ..Default::default() };
        let topic =
            OffsetForLeaderTopic { topic: TOPIC.into(), partitions: vec![partition], ..Default::default() };
        let request = OffsetForLeaderEpochRequest { topics: vec![topic], ..Default::default() };
        let end = peer.call(&request, 4).await.topics.remove(0).partitions.remove(0);
        assert_eq!((end.leader_epoch, end.end_offset), expected);
    }
}

#[tokio::test]
async fn pipelined_batches_of_one_producer_stay_in_order() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let batch = |sequence| {
        let mut builder = BatchBuilder::new(Compression::None).producer(7, 0, sequence);
        builder.push(&NewRecord { timestamp: NOW, key: None, value: Some(b"v"), headers: &[] });
        builder.build().unwrap()
    };
    for sequence in 0..5 {
        peer.tell(&produce_request(Uuid::ZERO, 0, batch(sequence)), 12).await;
    }
    for expected in 0..5 {
        let response = peer.hear::<ProduceRequest>(12).await;
        let part = &response.responses[0].partition_responses[0];
        assert_eq!((part.error_code, part.base_offset), (0, expected));
    }
}
