//! Names that a topic may not have, internal topics, and a name that is used again.

use crate::data::{fetch_request, only, produce_request};
use crate::world::{Peer, broker};
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::messages::create_topics_request::CreatableTopic;
use ottla_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use ottla_wire::messages::delete_topics_request::DeleteTopicState;
use ottla_wire::messages::metadata_request::MetadataRequestTopic;
use ottla_wire::messages::metadata_response::MetadataResponseTopic;
use ottla_wire::messages::{
    CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest, FetchRequest, MetadataRequest,
};
use ottla_wire::{ErrorCode, Uuid};
use std::time::{Duration, Instant};

async fn create(peer: &mut Peer, names: &[&str]) -> Vec<ErrorCode> {
    let topic = |name: &&str| CreatableTopic {
        name: (*name).into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let topics = names.iter().map(topic).collect();
    let request = CreateTopicsRequest { topics, timeout_ms: 1000, ..Default::default() };
    let response = peer.call(&request, 7).await;
    let code = |name: &&str| {
        let topic = response.topics.iter().find(|topic| *topic.name == **name).unwrap();
        ErrorCode(topic.error_code)
    };
    names.iter().map(code).collect()
}

async fn delete(peer: &mut Peer, name: &str) -> ErrorCode {
    let topic = DeleteTopicState { name: Some(name.into()), ..Default::default() };
    let request = DeleteTopicsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() };
    ErrorCode(peer.call(&request, 6).await.responses[0].error_code)
}

async fn metadata(peer: &mut Peer, name: &str) -> MetadataResponseTopic {
    let topic = MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
    let request =
        MetadataRequest { topics: Some(vec![topic]), allow_auto_topic_creation: true, ..Default::default() };
    peer.call(&request, 12).await.topics.remove(0)
}

#[tokio::test]
async fn names_that_differ_in_dots_and_underscores_only_collide() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let collides = ErrorCode::INVALID_TOPIC_EXCEPTION;
    assert_eq!(create(&mut peer, &["a.b", "plain"]).await, [ErrorCode::NONE; 2]);
    assert_eq!(
        create(&mut peer, &["a_b", "a.b", "a-b"]).await,
        [collides, ErrorCode::TOPIC_ALREADY_EXISTS, ErrorCode::NONE]
    );
    assert_eq!(
        create(&mut peer, &["c_d.e", "c.d_e", "c_d"]).await,
        [ErrorCode::NONE, collides, ErrorCode::NONE]
    );
    assert_eq!(ErrorCode(metadata(&mut peer, "a_b").await.error_code), collides);
    assert_eq!(delete(&mut peer, "a.b").await, ErrorCode::NONE);
    assert_eq!(create(&mut peer, &["a_b"]).await, [ErrorCode::NONE]);
}

#[tokio::test]
async fn internal_topics_are_not_for_clients() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    for name in ["__consumer_offsets", "__transaction_state"] {
        for _ in 0..2 {
            let topic = metadata(&mut peer, name).await;
            let shown = (ErrorCode(topic.error_code), topic.is_internal, topic.partitions.len());
            assert_eq!(shown, (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, true, 0), "{name}");
        }
        assert_eq!(create(&mut peer, &[name]).await, [ErrorCode::TOPIC_ALREADY_EXISTS]);
        assert_eq!(delete(&mut peer, name).await, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(&NewRecord { timestamp: 1, key: Some(b"k"), value: None, headers: &[] });
        let mut request = produce_request(Uuid::ZERO, 0, builder.build().unwrap());
        request.topic_data[0].name = name.into();
        let part = peer.call(&request, 12).await.responses.remove(0).partition_responses.remove(0);
        assert_eq!(ErrorCode(part.error_code), ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
}

#[tokio::test]
async fn a_deleted_topic_is_seen_gone_before_a_client_creates_it_again() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let before = metadata(&mut peer, "t").await;
    assert_eq!((before.error_code, before.partitions.len()), (0, 1));
    assert_eq!(delete(&mut peer, "t").await, ErrorCode::NONE);
    let gone = metadata(&mut peer, "t").await;
    assert_eq!(
        (ErrorCode(gone.error_code), gone.partitions.len()),
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 0)
    );
    let again = metadata(&mut peer, "t").await;
    assert_eq!((again.error_code, again.partitions.len()), (0, 1));
    assert_ne!(again.topic_id, before.topic_id);
}

/// A Fetch that waits a minute for a record of the topic that tests share.
fn waiting(id: Uuid, version: i16, from: i64) -> FetchRequest {
    FetchRequest { max_wait_ms: 60_000, min_bytes: 1, ..fetch_request(id, version, from) }
}

#[tokio::test]
async fn a_fetch_that_waits_is_answered_when_its_topic_ends() {
    let server = broker(&[]).await;
    let (mut peer, mut reader) = (Peer::connect(&server).await, Peer::connect(&server).await);
    let name = crate::data::TOPIC;
    for version in [4, 11, 12, 13, 18] {
        for recreated in [false, true] {
            assert_eq!(create(&mut peer, &[name]).await, [ErrorCode::NONE]);
            let id = metadata(&mut peer, name).await.topic_id;
            reader.tell(&waiting(id, version, 0), version).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            let begun = Instant::now();
            assert_eq!(delete(&mut peer, name).await, ErrorCode::NONE);
            if recreated {
                assert_eq!(create(&mut peer, &[name]).await, [ErrorCode::NONE]);
            }
            let row = only(reader.hear::<FetchRequest>(version).await);
            assert!(begun.elapsed() < Duration::from_secs(20), "at once");
            let unknown = if version >= 13 {
                ErrorCode::UNKNOWN_TOPIC_ID
            } else {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            };
            let expected =
                ErrorCode(row.error_code) == unknown || recreated && version < 13 && row.error_code == 0;
            assert!(expected, "version {version}: {}", row.error_code);
            if recreated {
                assert_eq!(delete(&mut peer, name).await, ErrorCode::NONE);
            }
        }
    }
}

#[tokio::test]
async fn a_fetch_that_waits_is_answered_when_its_offset_is_deleted() {
    let server = broker(&[]).await;
    let (mut peer, mut reader) = (Peer::connect(&server).await, Peer::connect(&server).await);
    let id = crate::data::create(&mut peer, &[]).await;
    let mut builder = BatchBuilder::new(Compression::None);
    for _ in 0..3 {
        builder.push(&NewRecord { timestamp: 1, key: None, value: Some(b"v"), headers: &[] });
    }
    let batch = builder.build().unwrap();
    peer.call(&produce_request(Uuid::ZERO, 0, batch.clone()), 12).await;
    peer.call(&produce_request(Uuid::ZERO, 0, batch), 12).await;
    let request = FetchRequest { min_bytes: 1 << 20, ..waiting(id, 12, 2) };
    reader.tell(&request, 12).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let partition = DeleteRecordsPartition { partition_index: 0, offset: 4, ..Default::default() };
    let topic = DeleteRecordsTopic {
        name: crate::data::TOPIC.into(),
        partitions: vec![partition],
        ..Default::default()
    };
    let deletion = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() };
    peer.call(&deletion, 2).await;
    let begun = Instant::now();
    let row = only(reader.hear::<FetchRequest>(12).await);
    assert!(begun.elapsed() < Duration::from_secs(20), "at once");
    assert_eq!(ErrorCode(row.error_code), ErrorCode::OFFSET_OUT_OF_RANGE);
}

#[tokio::test]
async fn a_fetch_that_waits_is_answered_when_the_broker_stops() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = crate::data::create(&mut peer, &[]).await;
    peer.tell(&waiting(id, 12, 0), 12).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let stopping = tokio::spawn(server.stop());
    let row = only(peer.hear::<FetchRequest>(12).await);
    assert_eq!((row.error_code, row.high_watermark), (0, 0));
    stopping.await.unwrap();
}
