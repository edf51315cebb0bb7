//! Transactions over a connection: the responses in each version.

use crate::data::{TOPIC, batches, create, fetch_request, only, produce_request};
use crate::world::{Peer, broker};
use bytes::Bytes;
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use ottla_wire::messages::describe_producers_request::TopicRequest;
use ottla_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use ottla_wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, DescribeProducersRequest, DescribeTransactionsRequest,
    EndTxnRequest, InitProducerIdRequest, InitProducerIdResponse, ListTransactionsRequest,
    WriteTxnMarkersRequest,
};
use ottla_wire::{ErrorCode, Text, Uuid};

pub(crate) type Owner = (i64, i16);

pub(crate) async fn init(peer: &mut Peer, id: &str, given: Owner, version: i16) -> InitProducerIdResponse {
    let request = InitProducerIdRequest {
        transactional_id: Some(id.into()),
        transaction_timeout_ms: 60_000,
        producer_id: given.0,
        producer_epoch: given.1,
        ..Default::default()
    };
    peer.call(&request, version).await
}

pub(crate) async fn owner(peer: &mut Peer, id: &str) -> Owner {
    let response = init(peer, id, (-1, -1), 4).await;
    assert_eq!(response.error_code, 0);
    (response.producer_id, response.producer_epoch)
}

pub(crate) fn batch(owner: Owner, sequence: i32) -> Bytes {
    let mut builder =
        BatchBuilder::new(Compression::None).producer(owner.0, owner.1, sequence).transactional(true);
    builder.push(&NewRecord { timestamp: 1_700_000_000_000, key: None, value: Some(b"v"), headers: &[] });
    builder.build().unwrap()
}

pub(crate) async fn write(
    peer: &mut Peer,
    id: Option<&str>,
    owner: Owner,
    sequence: i32,
    version: i16,
) -> ErrorCode {
    let mut request = produce_request(Uuid::ZERO, 0, batch(owner, sequence));
    request.transactional_id = id.map(Text::from);
    let response = peer.call(&request, version).await;
    ErrorCode(response.responses[0].partition_responses[0].error_code)
}

pub(crate) async fn end(
    peer: &mut Peer,
    id: &str,
    owner: Owner,
    committed: bool,
    version: i16,
) -> (ErrorCode, Owner) {
    let request = EndTxnRequest {
        transactional_id: id.into(),
        producer_id: owner.0,
        producer_epoch: owner.1,
        committed,
        ..Default::default()
    };
    let response = peer.call(&request, version).await;
    (ErrorCode(response.error_code), (response.producer_id, response.producer_epoch))
}

pub(crate) async fn add(
    peer: &mut Peer,
    id: &str,
    owner: Owner,
    topics: &[(&str, i32)],
    version: i16,
) -> Vec<ErrorCode> {
    let topic = |(name, partition): &(&str, i32)| AddPartitionsToTxnTopic {
        name: (*name).into(),
        partitions: [*partition].into_iter().collect(),
        ..Default::default()
    };
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: id.into(),
        v3_and_below_producer_id: owner.0,
        v3_and_below_producer_epoch: owner.1,
        v3_and_below_topics: topics.iter().map(topic).collect(),
        ..Default::default()
    };
    let response = peer.call(&request, version).await;
    let results = response.results_by_topic_v3_and_below.iter().flat_map(|topic| &topic.results_by_partition);
    results.map(|result| ErrorCode(result.partition_error_code)).collect()
}

#[tokio::test]
async fn a_version_2_transaction_commits_and_aborts() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    assert_eq!(write(&mut peer, Some("t"), me, 0, 12).await, ErrorCode::NONE);
    let mut committed = fetch_request(id, 13, 0);
    committed.isolation_level = 1;
    let open = only(peer.call(&committed, 13).await);
    assert!(batches(&open).is_empty());
    assert_eq!((open.high_watermark, open.last_stable_offset), (1, 0));
    assert_eq!(open.aborted_transactions, Some(Vec::new()), "T-204");
    let (code, next) = end(&mut peer, "t", me, true, 5).await;
    assert_eq!((code, next), (ErrorCode::NONE, (me.0, me.1 + 1)));
    assert_eq!(write(&mut peer, Some("t"), next, 0, 12).await, ErrorCode::NONE);
    let (code, _) = end(&mut peer, "t", next, false, 5).await;
    assert_eq!(code, ErrorCode::NONE);
    let row = only(peer.call(&committed, 13).await);
    assert_eq!(batches(&row).len(), 4);
    let aborted = row.aborted_transactions.as_ref().unwrap();
    assert_eq!((aborted.len(), aborted[0].producer_id, aborted[0].first_offset), (1, me.0, 2));
    let marker = &batches(&row)[1];
    assert!(marker.header().is_control() && marker.header().is_transactional());
    assert_eq!((marker.header().base_offset, marker.header().producer_epoch), (1, next.1));
    marker.check_crc().unwrap();
}

#[tokio::test]
async fn t_220_each_version_has_its_code_for_the_fenced() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let old = owner(&mut peer, "t").await;
    let me = owner(&mut peer, "t").await;
    assert_eq!(old.0, me.0);
    let stale = (me.0, me.1 - 1);
    let code = |fenced_at: i16, version| {
        if version < fenced_at { ErrorCode::INVALID_PRODUCER_EPOCH } else { ErrorCode::PRODUCER_FENCED }
    };
    for version in 3..=5 {
        let response = init(&mut peer, "t", stale, version).await;
        assert_eq!(ErrorCode(response.error_code), code(4, version));
        assert_eq!((response.producer_id, response.producer_epoch), (-1, -1), "T-37");
    }
    for version in 0..=5 {
        let (found, owner) = end(&mut peer, "t", stale, true, version).await;
        assert_eq!((found, owner), (code(2, version), (-1, -1)));
    }
    for version in 0..=3 {
        assert_eq!(add(&mut peer, "t", stale, &[(TOPIC, 0)], version).await, [code(2, version)]);
    }
    for version in 0..=4 {
        let request = AddOffsetsToTxnRequest {
            transactional_id: "t".into(),
            producer_id: stale.0,
            producer_epoch: stale.1,
            group_id: "g".into(),
            ..Default::default()
        };
        assert_eq!(ErrorCode(peer.call(&request, version).await.error_code), code(2, version));
    }
    for version in 3..=12 {
        let found = write(&mut peer, Some("t"), stale, 0, version).await;
        assert_eq!(found, ErrorCode::INVALID_PRODUCER_EPOCH);
    }
    for (version, code) in [(10, ErrorCode::INVALID_TXN_STATE), (11, ErrorCode::TRANSACTION_ABORTABLE)] {
        assert_eq!(write(&mut peer, Some("t"), me, 0, version).await, code);
    }
    let denied = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    assert_eq!(write(&mut peer, None, me, 0, 12).await, denied, "T-60");
}

#[tokio::test]
async fn t_021_half_a_pair_is_no_request() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    for given in [(5, -1), (-1, 5)] {
        let response = init(&mut peer, "t", given, 4).await;
        assert_eq!(ErrorCode(response.error_code), ErrorCode::INVALID_REQUEST);
    }
}

#[tokio::test]
async fn t_082_one_unknown_partition_keeps_all_out() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    let asked = [(TOPIC, 0), ("nowhere", 0), ("__consumer_offsets", 0)];
    let codes = add(&mut peer, "t", me, &asked, 3).await;
    let expected = [
        ErrorCode::OPERATION_NOT_ATTEMPTED,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode::TOPIC_AUTHORIZATION_FAILED,
    ];
    assert_eq!(codes, expected);
    assert_eq!(end(&mut peer, "t", me, true, 3).await.0, ErrorCode::INVALID_TXN_STATE, "nothing began");
}

#[tokio::test]
async fn t_080_brokers_verify_several_transactions() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    assert_eq!(add(&mut peer, "t", me, &[(TOPIC, 0)], 0).await, [ErrorCode::NONE]);
    let topic = AddPartitionsToTxnTopic {
        name: TOPIC.into(),
        partitions: [0, 1].into_iter().collect(),
        ..Default::default()
    };
    let transaction = AddPartitionsToTxnTransaction {
        transactional_id: "t".into(),
        producer_id: me.0,
        producer_epoch: me.1,
        verify_only: true,
        topics: vec![topic],
        ..Default::default()
    };
    let request = AddPartitionsToTxnRequest { transactions: vec![transaction], ..Default::default() };
    for version in [4, 5] {
        let response = peer.call(&request, version).await;
        let results = &response.results_by_transaction[0].topic_results[0].results_by_partition;
        let codes: Vec<_> = results.iter().map(|result| ErrorCode(result.partition_error_code)).collect();
        assert_eq!(codes, [ErrorCode::NONE, ErrorCode::TRANSACTION_ABORTABLE]);
    }
}

#[tokio::test]
async fn t_230_t_234_a_hanging_transaction_is_found_and_ended_by_hand() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    write(&mut peer, Some("t"), me, 0, 12).await;
    let topic = TopicRequest {
        name: TOPIC.into(),
        partition_indexes: [0, 5].into_iter().collect(),
        ..Default::default()
    };
    let describe = DescribeProducersRequest { topics: vec![topic], ..Default::default() };
    let mut misnamed = describe.clone();
    misnamed.topics[0].name = "no such name!".into();
    let refused = peer.call(&misnamed, 0).await.topics.remove(0).partitions.remove(0);
    assert_eq!(ErrorCode(refused.error_code), ErrorCode::INVALID_TOPIC_EXCEPTION);
    let described = peer.call(&describe, 0).await.topics.remove(0).partitions;
    assert_eq!(described[1].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0);
    let producer = &described[0].active_producers[0];
    assert_eq!((producer.producer_id, producer.producer_epoch), (me.0, i32::from(me.1)));
    assert_eq!((producer.current_txn_start_offset, producer.coordinator_epoch), (0, -1));
    let topic = WritableTxnMarkerTopic {
        name: TOPIC.into(),
        partition_indexes: [0, 5].into_iter().collect(),
        ..Default::default()
    };
    let marker = WritableTxnMarker {
        producer_id: me.0,
        producer_epoch: me.1,
        transaction_result: false,
        topics: vec![topic],
        coordinator_epoch: 0,
        ..Default::default()
    };
    let request = WriteTxnMarkersRequest { markers: vec![marker.clone(), marker], ..Default::default() };
    let response = peer.call(&request, 1).await;
    assert_eq!(response.markers.len(), 1, "T-123: two markers of one producer answer as one");
    let partitions = &response.markers[0].topics[0].partitions;
    let codes: Vec<_> = partitions.iter().map(|p| (p.partition_index, p.error_code)).collect();
    assert_eq!(codes, [(0, 0), (5, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0)]);
    let described = peer.call(&describe, 0).await.topics.remove(0).partitions;
    assert_eq!(described[0].active_producers[0].current_txn_start_offset, -1);
}

#[tokio::test]
async fn t_231_t_233_transactions_are_described_and_listed() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let me = owner(&mut peer, "my-app-1").await;
    owner(&mut peer, "idle").await;
    write(&mut peer, Some("my-app-1"), me, 0, 12).await;
    let request = DescribeTransactionsRequest {
        transactional_ids: ["my-app-1", "idle", "", "unknown"].map(Text::from).to_vec(),
        ..Default::default()
    };
    let states = peer.call(&request, 0).await.transaction_states;
    assert_eq!(&states[0].transaction_state[..], "Ongoing");
    assert_eq!((&states[0].topics[0].topic[..], states[0].topics[0].partitions.to_vec()), (TOPIC, vec![0]));
    assert!(states[0].transaction_start_time_ms > 0);
    assert_eq!((&states[1].transaction_state[..], states[1].transaction_start_time_ms), ("Empty", -1));
    assert_eq!(ErrorCode(states[2].error_code), ErrorCode::INVALID_REQUEST);
    assert_eq!(ErrorCode(states[3].error_code), ErrorCode::TRANSACTIONAL_ID_NOT_FOUND);

    let mut list = async |states: &[&str], pattern: Option<&str>| {
        let request = ListTransactionsRequest {
            state_filters: states.iter().map(|state| Text::from(*state)).collect(),
            transactional_id_pattern: pattern.map(Text::from),
            ..Default::default()
        };
        peer.call(&request, 2).await
    };
    let names = |response: &ottla_wire::messages::ListTransactionsResponse| -> Vec<String> {
        response.transaction_states.iter().map(|state| String::from(&state.transactional_id)).collect()
    };
    assert_eq!(names(&list(&[], None).await), ["idle", "my-app-1"]);
    assert_eq!(names(&list(&["Ongoing"], None).await), ["my-app-1"]);
    assert_eq!(names(&list(&[], Some("my-.*")).await), ["my-app-1"]);
    assert!(names(&list(&[], Some("my")).await).is_empty(), "the whole id must match");
    let bad = list(&[], Some("(")).await;
    assert_eq!(ErrorCode(bad.error_code), ErrorCode::INVALID_REGULAR_EXPRESSION);
    let unknown = list(&["Nonsense", "PrepareCommit"], None).await;
    assert_eq!(unknown.unknown_state_filters, ["Nonsense"].map(Text::from));
    assert!(unknown.transaction_states.is_empty());
}
