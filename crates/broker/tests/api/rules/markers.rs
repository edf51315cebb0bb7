//! WriteTxnMarkers, with which administrators end hanging transactions.

use crate::data::{TOPIC, batches, create, fetch_request, only};
use crate::transactions::{Owner, end, init, owner, write};
use crate::world::{Peer, broker};
use ottla_wire::messages::describe_producers_request::TopicRequest;
use ottla_wire::messages::describe_producers_response::ProducerState;
use ottla_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use ottla_wire::messages::{DescribeProducersRequest, WriteTxnMarkersRequest};
use ottla_wire::{ErrorCode, Text};

fn marker(by: Owner, committed: bool, level: i8, topics: &[(&str, &[i32])]) -> WritableTxnMarker {
    let topic = |(name, partitions): &(&str, &[i32])| WritableTxnMarkerTopic {
        name: Text::from(*name),
        partition_indexes: partitions.iter().copied().collect(),
        ..Default::default()
    };
    WritableTxnMarker {
        producer_id: by.0,
        producer_epoch: by.1,
        transaction_result: committed,
        topics: topics.iter().map(topic).collect(),
        transaction_version: level,
        ..Default::default()
    }
}

/// The rows of the response in their order: producer, topic, partition and code.
async fn mark(
    peer: &mut Peer,
    markers: Vec<WritableTxnMarker>,
    version: i16,
) -> Vec<(i64, String, i32, ErrorCode)> {
    let response = peer.call(&WriteTxnMarkersRequest { markers, ..Default::default() }, version).await;
    let mut rows = Vec::new();
    for marker in &response.markers {
        for topic in &marker.topics {
            for partition in &topic.partitions {
                let code = ErrorCode(partition.error_code);
                rows.push((marker.producer_id, String::from(&topic.name), partition.partition_index, code));
            }
        }
    }
    rows
}

async fn producers(peer: &mut Peer, partition: i32) -> Vec<ProducerState> {
    let topic = TopicRequest {
        name: TOPIC.into(),
        partition_indexes: [partition].into_iter().collect(),
        ..Default::default()
    };
    let request = DescribeProducersRequest { topics: vec![topic], ..Default::default() };
    peer.call(&request, 0).await.topics.remove(0).partitions.remove(0).active_producers
}

#[tokio::test]
async fn t_122_only_version_2_says_the_transaction_version() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    write(&mut peer, Some("t"), me, 0, 12).await;
    let one = |version: i8| vec![marker(me, false, version, &[(TOPIC, &[0])])];
    // Under the rules of transaction version 2 an equal epoch does not end an open transaction; under those of version
    // 0 it does.
    assert_eq!(mark(&mut peer, one(2), 2).await[0].3, ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(mark(&mut peer, one(0), 2).await[0].3, ErrorCode::NONE);
    write(&mut peer, Some("t"), me, 1, 12).await;
    assert_eq!(mark(&mut peer, one(0), 1).await[0].3, ErrorCode::NONE);
    assert!(producers(&mut peer, 0).await.iter().all(|one| one.current_txn_start_offset == -1));
}

#[tokio::test]
async fn b_13_t_123_t_124_several_markers_have_one_answer_with_all_results() {
    let server = broker(&[]).await;
    let (mut peer, mut other) = (Peer::connect(&server).await, Peer::connect(&server).await);
    create(&mut peer, &[]).await;
    assert_eq!(mark(&mut peer, Vec::new(), 1).await, [], "nothing asked, nothing answered");
    for round in 0..100 {
        let (one, two) = ((1000 + round, 0), (5000 + round, 0));
        let markers = vec![
            marker(one, true, 0, &[("__consumer_offsets", &[7]), (TOPIC, &[0])]),
            marker(two, false, 0, &[(TOPIC, &[0, 1])]),
        ];
        // Both send at the same time; each gets its own response, once.
        let (found, _) = tokio::join!(
            mark(&mut peer, markers, 1),
            mark(&mut other, vec![marker((9000 + round, 0), true, 0, &[(TOPIC, &[0])])], 1)
        );
        let topic = TOPIC.to_owned();
        let expected = [
            (one.0, "__consumer_offsets".to_owned(), 7, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            (one.0, topic.clone(), 0, ErrorCode::NONE),
            (two.0, topic.clone(), 0, ErrorCode::NONE),
            (two.0, topic, 1, ErrorCode::NONE),
        ];
        assert_eq!(found, expected);
    }
    // The markers are durable when the response arrives: every marker has its offset.
    assert_eq!(producers(&mut peer, 0).await.len(), 300);
    assert_eq!(producers(&mut peer, 1).await.len(), 100);
}

#[tokio::test]
async fn t_230_all_producers_of_a_partition_are_listed() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    write(&mut peer, Some("t"), me, 0, 12).await;
    mark(&mut peer, vec![marker((900, 4), true, 0, &[(TOPIC, &[0])])], 1).await;
    use crate::data::produce_request;
    use crate::rules::produce::{codes, sound};
    let plain = sound(Some(((901, 2), 5)), 3, false, ottla_wire::codec::Compression::None);
    codes(&mut peer, &produce_request(ottla_wire::Uuid::ZERO, 0, plain), 12).await;
    let found = producers(&mut peer, 0).await;
    let rows: Vec<_> = found
        .iter()
        .map(|one| {
            let epochs = (one.producer_epoch, one.coordinator_epoch);
            (one.producer_id, epochs, one.last_sequence, one.current_txn_start_offset)
        })
        .collect();
    let expected = [(me.0, (0, -1), 0, 0), (900, (4, 0), -1, -1), (901, (2, -1), 7, -1)];
    assert_eq!(rows, expected);
    assert!(found.iter().all(|one| one.last_timestamp > 0));
}

#[tokio::test]
async fn t_234_t_236_an_administrators_abort_may_be_repeated() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    write(&mut peer, Some("t"), me, 0, 12).await;
    let open = producers(&mut peer, 0).await.remove(0);
    assert_eq!((open.current_txn_start_offset, open.coordinator_epoch), (0, -1));
    for _ in 0..2 {
        let found = mark(&mut peer, vec![marker(me, false, 0, &[(TOPIC, &[0])])], 1).await;
        assert_eq!(found[0].3, ErrorCode::NONE);
        assert_eq!(producers(&mut peer, 0).await[0].current_txn_start_offset, -1);
    }
    let mut committed = fetch_request(id, 12, 0);
    committed.isolation_level = 1;
    let row = only(peer.call(&committed, 12).await);
    assert_eq!(row.last_stable_offset, row.high_watermark);
    assert!(batches(&row).len() <= 3, "one more marker at most");
    assert_eq!(row.aborted_transactions.map(|all| all.len()), Some(1));
}

#[tokio::test]
async fn b_06_t_33_t_34_fencing_an_open_transaction_bumps_once() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let mut me = owner(&mut peer, "t").await;
    while me.1 < 5 {
        me = end(&mut peer, "t", me, false, 5).await.1;
    }
    assert_eq!(write(&mut peer, Some("t"), me, 0, 12).await, ErrorCode::NONE);
    let fence = init(&mut peer, "t", (-1, -1), 4).await;
    assert_eq!(ErrorCode(fence.error_code), ErrorCode::CONCURRENT_TRANSACTIONS);
    let marked = producers(&mut peer, 0).await.remove(0);
    assert_eq!((marked.producer_epoch, marked.current_txn_start_offset), (6, -1));
    let next = init(&mut peer, "t", (-1, -1), 4).await;
    assert_eq!((next.error_code, next.producer_id, next.producer_epoch), (0, me.0, 7));
}
