//! Metadata in all its versions.

use crate::world::{Peer, broker, header};
use ottla_wire::messages::metadata_request::MetadataRequestTopic;
use ottla_wire::messages::{MetadataRequest, MetadataResponse};
use ottla_wire::{ErrorCode, Uuid};

fn named(names: &[&str], create: bool) -> MetadataRequest {
    let topic = |name: &&str| MetadataRequestTopic { name: Some((*name).into()), ..Default::default() };
    MetadataRequest {
        topics: Some(names.iter().map(topic).collect()),
        allow_auto_topic_creation: create,
        ..Default::default()
    }
}

fn with_id(topic_id: Uuid) -> MetadataRequest {
    let topic = MetadataRequestTopic { topic_id, name: None, ..Default::default() };
    MetadataRequest { topics: Some(vec![topic]), ..Default::default() }
}

fn all() -> MetadataRequest {
    MetadataRequest { topics: None, ..Default::default() }
}

fn rows(response: &MetadataResponse) -> Vec<(String, ErrorCode, usize)> {
    let row = |topic: &ottla_wire::messages::metadata_response::MetadataResponseTopic| {
        let name = topic.name.as_ref().map(String::from).unwrap_or_default();
        (name, ErrorCode(topic.error_code), topic.partitions.len())
    };
    response.topics.iter().map(row).collect()
}

fn row(name: &str, error: ErrorCode, partitions: usize) -> (String, ErrorCode, usize) {
    (name.to_owned(), error, partitions)
}

#[tokio::test]
async fn a_topic_that_is_asked_for_is_created_in_every_version() {
    let server = broker(&[("num.partitions", "3")]).await;
    let mut peer = Peer::connect(&server).await;
    for version in 0..=13 {
        let name = format!("topic-{version}");
        let response = peer.call(&named(&[&name], true), version).await;
        assert_eq!(rows(&response), [row(&name, ErrorCode::NONE, 3)], "version {version}");
        let broker = &response.brokers[0];
        assert_eq!((broker.node_id, &broker.host[..]), (1, "localhost"));
        assert_eq!(broker.port, i32::from(server.local_addr().port()));
        assert_eq!(response.topics[0].topic_id.is_zero(), version < 10);
        if version >= 1 {
            assert_eq!(response.controller_id, 1, "clients send admin requests there");
        }
        let partition = &response.topics[0].partitions[2];
        assert_eq!((partition.partition_index, partition.leader_id, partition.error_code), (2, 1, 0));
        assert_eq!((partition.replica_nodes.to_vec(), partition.isr_nodes.to_vec()), (vec![1], vec![1]));
    }
    assert_eq!(peer.call(&all(), 13).await.topics.len(), 14);
}

#[tokio::test]
async fn a_topic_is_not_created_against_the_will_of_client_or_broker() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    for version in 4..=13 {
        let response = peer.call(&named(&["t"], false), version).await;
        assert_eq!(rows(&response), [row("t", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 0)]);
    }
    let server = broker(&[("auto.create.topics.enable", "false")]).await;
    let mut peer = Peer::connect(&server).await;
    for version in 0..=13 {
        let response = peer.call(&named(&["t"], true), version).await;
        assert_eq!(rows(&response), [row("t", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 0)]);
    }
    assert_eq!(peer.call(&all(), 13).await.topics.len(), 0);
}

#[tokio::test]
async fn illegal_names_are_told_apart() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    for create in [false, true] {
        let response = peer.call(&named(&["a b", "", ".."], create), 12).await;
        let invalid = ErrorCode::INVALID_TOPIC_EXCEPTION;
        assert_eq!(rows(&response), [row("a b", invalid, 0), row("", invalid, 0), row("..", invalid, 0)]);
    }
}

#[tokio::test]
async fn a_name_asked_for_twice_is_answered_once() {
    let server = broker(&[]).await;
    let response = Peer::connect(&server).await.call(&named(&["b", "a", "b"], true), 12).await;
    assert_eq!(rows(&response), [row("b", ErrorCode::NONE, 1), row("a", ErrorCode::NONE, 1)]);
}

#[tokio::test]
async fn topics_are_found_by_id_from_version_12_on() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = peer.call(&named(&["t"], true), 12).await.topics[0].topic_id;
    for version in [12, 13] {
        assert_eq!(rows(&peer.call(&with_id(id), version).await), [row("t", ErrorCode::NONE, 1)]);
        let unknown = peer.call(&with_id(Uuid([1; 16])), version).await;
        assert_eq!(unknown.topics[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID.0);
        assert_eq!((&unknown.topics[0].name, unknown.topics[0].topic_id), (&None, Uuid([1; 16])));
    }
    for version in [10, 11] {
        let refused = peer.call(&with_id(id), version).await;
        assert_eq!(rows(&refused), [row("", ErrorCode::INVALID_REQUEST, 0)]);
    }
}

#[tokio::test]
async fn b_77_null_and_empty_mean_all_or_none() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    peer.call(&named(&["t"], true), 4).await;
    assert_eq!(peer.call(&named(&[], true), 0).await.topics.len(), 1, "version 0: empty is all");
    for version in 1..=13 {
        assert_eq!(peer.call(&all(), version).await.topics.len(), 1, "version {version}: null is all");
        assert_eq!(
            peer.call(&named(&[], true), version).await.topics.len(),
            0,
            "version {version}: empty is none"
        );
    }
    peer.send_frame(&[&header(3, 0, Some("x"), false)[..], b"\xff\xff\xff\xff"].concat()).await;
    assert!(peer.is_closed().await, "version 0 has no null");
}

#[tokio::test]
async fn authorized_operations_are_all_of_them() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let asked = MetadataRequest {
        include_cluster_authorized_operations: true,
        include_topic_authorized_operations: true,
        ..named(&["t"], true)
    };
    let response = peer.call(&asked, 10).await;
    assert_eq!(response.cluster_authorized_operations, 8096);
    assert_eq!(response.topics[0].topic_authorized_operations, 3576);
    let response = peer.call(&named(&["t"], true), 10).await;
    assert_eq!(response.cluster_authorized_operations, i32::MIN);
    assert_eq!(response.topics[0].topic_authorized_operations, i32::MIN);
}
