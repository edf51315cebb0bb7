//! Every verdict names the rule and the values that it was judged by.

use crate::data::{TOPIC, fetch_request, produce_request};
use crate::groups::{self, join, joining, leaving};
use crate::trace::{kept, traced};
use crate::transactions::{Owner, add, batch, end, init, owner, write};
use crate::world::Peer;
use bytes::Bytes;
use ottla_broker::{Server, TraceFilter};
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::messages::create_topics_request::CreatableTopic;
use ottla_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use ottla_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use ottla_wire::messages::{
    AddOffsetsToTxnRequest, CreateTopicsRequest, HeartbeatRequest, InitProducerIdRequest, ListOffsetsRequest,
    Request, SyncGroupRequest, TxnOffsetCommitRequest, WriteTxnMarkersRequest,
};
use ottla_wire::{Text, Uuid};

/// The verdicts of the exchange with the number `count`.
async fn verdicts(server: &Server, count: usize) -> Vec<String> {
    let all = kept(server, &TraceFilter::default(), count).await;
    assert_eq!(all.len(), count);
    let codes: Vec<_> = all[count - 1].verdicts.iter().map(|verdict| verdict.code).collect();
    assert!(
        codes.iter().all(|code| all[count - 1].errors.contains(code)),
        "the codes are those of the response"
    );
    all[count - 1].verdicts.iter().map(ToString::to_string).collect()
}

/// The verdicts of one request, the first of its broker.
async fn on<M: Request>(request: &M, version: i16) -> Vec<String> {
    let (server, mut peer, _) = traced().await;
    peer.call(request, version).await;
    verdicts(&server, 1).await
}

fn initialise(id: Option<&str>, timeout: i32, given: Owner) -> InitProducerIdRequest {
    InitProducerIdRequest {
        transactional_id: id.map(Text::from),
        transaction_timeout_ms: timeout,
        producer_id: given.0,
        producer_epoch: given.1,
        ..Default::default()
    }
}

/// A batch outside transactions.
fn idempotent((producer_id, epoch): Owner, sequence: i32, count: usize) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None).producer(producer_id, epoch, sequence);
    for _ in 0..count {
        builder.push(&NewRecord { timestamp: 1_700_000_000_000, key: None, value: Some(b"v"), headers: &[] });
    }
    builder.build().unwrap()
}

/// A broker in which the transactional id "x" has a producer of epoch 1.
async fn owned() -> (Server, Peer, Owner) {
    let (server, mut peer, _) = traced().await;
    owner(&mut peer, "x").await;
    let me = owner(&mut peer, "x").await;
    assert_eq!(me.1, 1);
    (server, peer, me)
}

#[tokio::test]
async fn t_21_t_23_t_25_a_request_that_makes_no_sense() {
    let said = on(&initialise(Some("x"), 1000, (4, -1)), 4).await;
    assert_eq!(said, ["T-21: producer id and epoch are given both or not at all"]);
    let said = on(&initialise(Some(""), 1000, (-1, -1)), 4).await;
    assert_eq!(said, ["T-23: transactional id \"\": the transactional id is empty"]);
    let said = on(&initialise(Some("x"), 0, (-1, -1)), 4).await;
    let words =
        "0 is not between 1 and 900000: no transaction timeout that the broker allows, in milliseconds";
    assert_eq!(said, [format!("T-25: transactional id \"x\": {words}")]);
}

#[tokio::test]
async fn t_28_t_31_an_old_owner_of_an_id() {
    let (server, mut peer, me) = owned().await;
    init(&mut peer, "x", (me.0, 0), 4).await;
    let words = format!(
        "producer {0} asks with epoch 0, the owner is producer {0} with epoch 1, and no earlier epoch may retry: fenced",
        me.0
    );
    assert_eq!(verdicts(&server, 3).await, [format!("T-31: transactional id \"x\": {words}")]);
    init(&mut peer, "x", (me.0 + 7, 1), 4).await;
    assert!(verdicts(&server, 4).await[0].starts_with(&format!(
        "T-28: transactional id \"x\": producer {} asks with epoch 1, the owner is producer {}",
        me.0 + 7,
        me.0
    )));
}

#[tokio::test]
async fn t_33_an_open_transaction_is_aborted_first() {
    let (server, mut peer, me) = owned().await;
    write(&mut peer, Some("x"), me, 0, 12).await;
    init(&mut peer, "x", (-1, -1), 4).await;
    let words = format!(
        "the open transaction of producer {}, epoch 1, was aborted: ask again for the next epoch",
        me.0
    );
    assert_eq!(verdicts(&server, 4).await, [format!("T-33: transactional id \"x\": {words}")]);
}

#[tokio::test]
async fn t_42_t_44_t_45_t_46_t_47_t_55_batches_that_do_not_follow() {
    let (server, mut peer, _) = traced().await;
    let mut count = 0;
    for (given, sequence, expected) in [
        ((70, 3), 0, None),
        ((70, 3), 5, Some("T-47: events-0: producer 70 sent sequence 5, expected 1: out of order")),
        ((70, 3), 1, None),
        ((70, 2), 2, Some("T-44: events-0: producer 70 has epoch 2, current is 3: fenced")),
        ((70, 4), 2, Some("T-45: events-0: producer 70 sent sequence 2, expected 0: out of order")),
    ] {
        let request = produce_request(Uuid::ZERO, 0, idempotent(given, sequence, 1));
        peer.call(&request, 12).await;
        count += 1;
        assert_eq!(verdicts(&server, count).await, Vec::from_iter(expected));
    }
    peer.call(&produce_request(Uuid::ZERO, 0, idempotent((70, 3), 0, 2)), 12).await;
    let said = verdicts(&server, count + 1).await;
    assert_eq!(said, ["T-42: events-0: producer 70 sent sequence 0, expected 2: out of order"]);

    let (server, mut peer, me) = owned().await;
    write(&mut peer, Some("x"), me, 3, 12).await;
    let said = verdicts(&server, 3).await;
    assert_eq!(
        said,
        [format!("T-46: events-0: producer {} sent sequence 3, expected 0: out of order", me.0)]
    );
    write(&mut peer, Some("x"), me, 0, 12).await;
    peer.call(&produce_request(Uuid::ZERO, 0, idempotent(me, 1, 1)), 12).await;
    let words = "has a transaction open here since offset 0: a batch outside it cannot be appended";
    assert_eq!(verdicts(&server, 5).await, [format!("T-55: events-0: producer {} {words}", me.0)]);
}

#[tokio::test]
async fn t_50_t_60_t_61_t_64_t_83_requests_of_producers() {
    let (server, mut peer, me) = owned().await;
    let mut request = produce_request(Uuid::ZERO, 0, batch(me, 0));
    request.acks = 2;
    peer.call(&request, 12).await;
    assert_eq!(verdicts(&server, 3).await, ["T-50: events-0: acks must be 0, 1 or -1"]);
    write(&mut peer, None, me, 0, 12).await;
    let said = verdicts(&server, 4).await;
    assert_eq!(said, ["T-60: events-0: a transactional batch without a transactional id"]);
    peer.call(&produce_request(Uuid::ZERO, 9, idempotent(me, 0, 1)), 12).await;
    assert_eq!(verdicts(&server, 5).await, ["T-61: events-9: the topic has no such partition"]);
    write(&mut peer, Some("x"), me, 0, 11).await;
    assert_eq!(
        verdicts(&server, 6).await,
        ["T-64: events-0: the transaction is Empty: the partition is not in it"]
    );
    write(&mut peer, Some("x"), (me.0, 0), 0, 11).await;
    let fenced = format!("events-0: producer {} has epoch 0, current is 1: fenced", me.0);
    assert_eq!(verdicts(&server, 7).await, [format!("T-64: {fenced}")]);
    write(&mut peer, Some("x"), (me.0, 0), 0, 12).await;
    assert_eq!(verdicts(&server, 8).await, [format!("T-83: {fenced}")]);
    write(&mut peer, Some("unknown"), me, 0, 12).await;
    let words = "the transactional id was never initialised, or has expired";
    let unknown = "the transactional id does not belong to this producer";
    assert_eq!(verdicts(&server, 9).await, [format!("T-83: events-0: {words}: {unknown}")]);
}

#[tokio::test]
async fn t_56_batches_of_several_producers() {
    let (server, mut peer, me) = owned().await;
    let mut request = produce_request(Uuid::ZERO, 0, batch(me, 0));
    request.transactional_id = Some("x".into());
    let other = produce_request(Uuid::ZERO, 1, batch((me.0 + 1, 0), 0)).topic_data.remove(0);
    request.topic_data[0].partition_data.extend(other.partition_data);
    peer.call(&request, 12).await;
    let words = "the transactional batches of the request are from several producers";
    assert_eq!(verdicts(&server, 3).await, [0, 1].map(|n| format!("T-56: events-{n}: {words}")));
}

#[tokio::test]
async fn t_82_t_83_t_151_adding_to_a_transaction() {
    let (server, mut peer, me) = owned().await;
    add(&mut peer, "x", me, &[(TOPIC, 0), ("nowhere", 0)], 3).await;
    assert_eq!(
        verdicts(&server, 3).await,
        [
            "T-82: events-0: not attempted, because another partition cannot be added",
            "T-82: nowhere-0: there is no such partition"
        ]
    );
    add(&mut peer, "x", (me.0, 0), &[(TOPIC, 0)], 3).await;
    let fenced = format!("producer {} has epoch 0, current is 1: fenced", me.0);
    assert_eq!(verdicts(&server, 4).await, [format!("T-83: transactional id \"x\", events-0: {fenced}")]);
    let request = AddOffsetsToTxnRequest {
        transactional_id: "x".into(),
        producer_id: me.0 + 9,
        producer_epoch: 1,
        group_id: "g".into(),
        ..Default::default()
    };
    peer.call(&request, 4).await;
    let words = format!("producer {} asks, the owner is producer {}", me.0 + 9, me.0);
    let wrong = "the transactional id does not belong to this producer";
    assert_eq!(verdicts(&server, 5).await, [format!("T-83: transactional id \"x\": {words}: {wrong}")]);
}

#[tokio::test]
async fn t_100_t_101_t_102_t_103_ends_that_cannot_be() {
    let (server, mut peer, me) = owned().await;
    let named = |rule: &str, words: &str| format!("{rule}: transactional id \"x\": {words}");
    end(&mut peer, "x", me, true, 4).await;
    let said = verdicts(&server, 3).await;
    assert_eq!(said, [named("T-101", "the transaction is Empty and cannot commit: invalid in this state")]);
    end(&mut peer, "x", me, true, 5).await;
    let said = verdicts(&server, 4).await;
    assert_eq!(said, [named("T-102", "the transaction is Empty and cannot commit: invalid in this state")]);
    write(&mut peer, Some("x"), me, 0, 12).await;
    init(&mut peer, "x", (-1, -1), 4).await;
    end(&mut peer, "x", me, true, 5).await;
    let fenced = format!("producer {} has epoch 1, current is 2: fenced", me.0);
    assert_eq!(verdicts(&server, 7).await, [named("T-103", &fenced)]);
    end(&mut peer, "x", me, true, 4).await;
    assert_eq!(verdicts(&server, 8).await, [named("T-101", &fenced)]);
    end(&mut peer, "y", me, true, 5).await;
    assert!(
        verdicts(&server, 9).await[0]
            .starts_with("T-100: transactional id \"y\": the transactional id was never")
    );
}

#[tokio::test]
async fn t_123_t_125_t_126_markers_that_come_too_late() {
    let (server, mut peer, me) = owned().await;
    write(&mut peer, Some("x"), me, 0, 12).await;
    let mark = |epoch: i16, coordinator_epoch: i32, partition: i32| WriteTxnMarkersRequest {
        markers: vec![WritableTxnMarker {
            producer_id: me.0,
            producer_epoch: epoch,
            coordinator_epoch,
            topics: vec![WritableTxnMarkerTopic {
                name: TOPIC.into(),
                partition_indexes: [partition].into_iter().collect(),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    peer.call(&mark(0, 0, 0), 1).await;
    let words = format!("producer {} has epoch 0, current is 1: the marker's epoch is too low", me.0);
    assert_eq!(verdicts(&server, 4).await, [format!("T-125: events-0: {words}")]);
    peer.call(&mark(1, 5, 0), 1).await;
    assert!(verdicts(&server, 5).await.is_empty());
    peer.call(&mark(1, 3, 0), 1).await;
    let words = "the coordinator has epoch 3, current is 5: a later coordinator has spoken";
    assert_eq!(verdicts(&server, 6).await, [format!("T-126: events-0: {words}")]);
    peer.call(&mark(1, 5, 8), 1).await;
    assert_eq!(verdicts(&server, 7).await, ["T-123: events-8: there is no such partition"]);
}

fn staging(id: &str, me: Owner, generation: i32, partition: i32, note: &str) -> TxnOffsetCommitRequest {
    let partitions = vec![TxnOffsetCommitRequestPartition {
        partition_index: partition,
        committed_offset: 1,
        committed_metadata: Some(note.into()),
        ..Default::default()
    }];
    TxnOffsetCommitRequest {
        transactional_id: id.into(),
        group_id: "g".into(),
        producer_id: me.0,
        producer_epoch: me.1,
        generation_id_or_member_epoch: generation,
        topics: vec![TxnOffsetCommitRequestTopic { name: TOPIC.into(), partitions, ..Default::default() }],
        ..Default::default()
    }
}

#[tokio::test]
async fn t_64_t_161_t_162_t_165_t_166_offsets_that_are_not_staged() {
    let (server, mut peer, me) = owned().await;
    let mut count = 2;
    let mut empty = staging("x", me, -1, 0, "");
    empty.group_id = Text::default();
    for (request, version, expected) in [
        (staging("x", me, -1, 0, ""), 4, "T-64: XP: the transaction is Empty: the partition is not in it"),
        (
            staging("x", me, -1, 9, ""),
            5,
            "T-161: transactional id \"x\", events-9: the topic has no such partition",
        ),
        (empty, 5, "T-162: XP: the group id is empty"),
        (staging("x", me, 3, 0, ""), 5, "T-165: XP: there is no such group, and a generation was given"),
        (
            staging("x", me, -1, 0, &"n".repeat(5000)),
            5,
            "T-166: XP: 5000 is more than 4096: the metadata is longer than offset.metadata.max.bytes",
        ),
    ] {
        peer.call(&request, version).await;
        count += 1;
        let expected = expected.replace("XP", "transactional id \"x\", events-0");
        assert_eq!(verdicts(&server, count).await, [expected]);
    }
}

#[tokio::test]
async fn t_165_a_member_of_another_generation() {
    let (server, mut peer, id) = groups::world().await;
    server.context().trace().start(100);
    let joined = join(&mut peer, "g", 5).await;
    let member = &joined.member_id;
    let mut commit = groups::commit("g", (member, joined.generation_id + 1), id, 0);
    commit.topics.truncate(1);
    peer.call(&commit, 9).await;
    let words = format!("generation {}, current is {}", joined.generation_id + 1, joined.generation_id);
    let said = verdicts(&server, 3).await;
    let place = format!("group \"g\", member {member:?}, t-0");
    assert_eq!(said[0], format!("T-165: {place}: {words}: not the group's generation"));
    let beat = HeartbeatRequest {
        group_id: "g".into(),
        generation_id: joined.generation_id + 1,
        member_id: member.clone(),
        ..Default::default()
    };
    peer.call(&beat, 4).await;
    let who = format!("group \"g\", member {member:?}");
    assert_eq!(verdicts(&server, 4).await, [format!("{who}: {words}: not the group's generation")]);
}

#[tokio::test]
async fn members_that_a_group_does_not_take() {
    let (server, mut peer, _) = traced().await;
    peer.call(&joining("g", &Text::default()), 5).await;
    let said = verdicts(&server, 1).await;
    assert_eq!(said, ["group \"g\": come back with the member id in the answer"]);
    let mut short = joining("g", &Text::default());
    short.session_timeout_ms = 1;
    peer.call(&short, 5).await;
    let words =
        "1 is not between 6000 and 1800000: no session timeout that the broker allows, in milliseconds";
    assert_eq!(verdicts(&server, 2).await, [format!("group \"g\": {words}")]);
    let nobody = SyncGroupRequest { group_id: "g".into(), member_id: "who".into(), ..Default::default() };
    peer.call(&nobody, 4).await;
    assert_eq!(
        verdicts(&server, 3).await,
        ["group \"g\", member \"who\": the group does not know the member"]
    );
    peer.call(&nobody, 5).await;
    let words = "from version 5 on, protocol type and protocol have to be given";
    assert_eq!(verdicts(&server, 4).await, [format!("group \"g\", member \"who\": {words}")]);
    peer.call(&leaving("g", &"who".into(), 3), 3).await;
    assert_eq!(
        verdicts(&server, 5).await,
        ["group \"g\", member \"who\": the group does not know the member"]
    );
}

#[tokio::test]
async fn positions_that_cannot_be_read_and_topics_that_cannot_be_made() {
    let (server, mut peer, id) = traced().await;
    peer.call(&fetch_request(id, 12, 7), 12).await;
    let said = verdicts(&server, 1).await;
    let words = "offset 7 is not between the start of the log, 0, and the high watermark, 0";
    assert_eq!(said, [format!("events-0: {words}")]);
    let partition = ListOffsetsPartition { partition_index: 4, timestamp: -1, ..Default::default() };
    let topic = ListOffsetsTopic { name: TOPIC.into(), partitions: vec![partition], ..Default::default() };
    peer.call(&ListOffsetsRequest { topics: vec![topic], ..Default::default() }, 7).await;
    assert_eq!(verdicts(&server, 2).await, ["events-4: there is no such partition"]);
    let topic =
        CreatableTopic { name: TOPIC.into(), num_partitions: 1, replication_factor: 1, ..Default::default() };
    peer.call(&CreateTopicsRequest { topics: vec![topic], ..Default::default() }, 7).await;
    assert_eq!(verdicts(&server, 3).await, ["topic \"events\": topic 'events' already exists"]);
}
