//! Committed offsets, in transactions and outside them.

use crate::groups::{commit, world};
use crate::transactions::{Owner, end, owner};
use crate::world::Peer;
use ottla_wire::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use ottla_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use ottla_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use ottla_wire::messages::{
    AddOffsetsToTxnRequest, DeleteGroupsRequest, InitProducerIdRequest, OffsetDeleteRequest,
    OffsetFetchRequest, TxnOffsetCommitRequest,
};
use ottla_wire::{ErrorCode, Text, Uuid};

/// TxnOffsetCommit for group "g" without a member id.
fn staging(id: &str, me: Owner, topic_id: Uuid, offsets: &[(i32, i64)]) -> TxnOffsetCommitRequest {
    let partition = |(partition_index, committed_offset): &(i32, i64)| TxnOffsetCommitRequestPartition {
        partition_index: *partition_index,
        committed_offset: *committed_offset,
        committed_leader_epoch: 5,
        ..Default::default()
    };
    let topic = TxnOffsetCommitRequestTopic {
        name: "t".into(),
        topic_id,
        partitions: offsets.iter().map(partition).collect(),
        ..Default::default()
    };
    TxnOffsetCommitRequest {
        transactional_id: id.into(),
        group_id: "g".into(),
        producer_id: me.0,
        producer_epoch: me.1,
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    }
}

async fn stage(peer: &mut Peer, ask: &TxnOffsetCommitRequest, version: i16) -> Vec<ErrorCode> {
    let response = peer.call(ask, version).await;
    response.topics.iter().flat_map(|t| &t.partitions).map(|p| ErrorCode(p.error_code)).collect()
}

/// A row of OffsetFetch: code, offset, leader epoch, metadata.
type Row = (ErrorCode, i64, i32, String);

async fn fetch(peer: &mut Peer, group: &str, stable: bool, version: i16) -> Vec<Row> {
    let partitions = || [0, 1].into_iter().collect();
    let mut ask = OffsetFetchRequest { require_stable: stable, ..Default::default() };
    if version < 8 {
        ask.group_id = group.into();
        let topic = OffsetFetchRequestTopic {
            name: "t".into(),
            partition_indexes: partitions(),
            ..Default::default()
        };
        ask.topics = Some(vec![topic]);
        let response = peer.call(&ask, version).await;
        assert_eq!(response.error_code, 0);
        let rows = response.topics.iter().flat_map(|topic| &topic.partitions);
        let text = |text: &Option<Text>| text.as_ref().map(String::from).unwrap_or_default();
        return rows
            .map(|p| {
                let code = ErrorCode(p.error_code);
                (code, p.committed_offset, p.committed_leader_epoch, text(&p.metadata))
            })
            .collect();
    }
    let topic =
        OffsetFetchRequestTopics { name: "t".into(), partition_indexes: partitions(), ..Default::default() };
    let group =
        OffsetFetchRequestGroup { group_id: group.into(), topics: Some(vec![topic]), ..Default::default() };
    ask.groups = vec![group];
    let response = peer.call(&ask, version).await;
    assert_eq!(response.groups[0].error_code, 0);
    let rows = response.groups[0].topics.iter().flat_map(|topic| &topic.partitions);
    let text = |text: &Option<Text>| text.as_ref().map(String::from).unwrap_or_default();
    rows.map(|p| (ErrorCode(p.error_code), p.committed_offset, p.committed_leader_epoch, text(&p.metadata)))
        .collect()
}

fn none() -> Row {
    (ErrorCode::NONE, -1, -1, String::new())
}

#[tokio::test]
async fn t_160_t_163_t_220_one_error_of_the_request_on_every_partition() {
    let (_server, mut peer, topic_id) = world().await;
    let old = owner(&mut peer, "t").await;
    let me = owner(&mut peer, "t").await;
    let both = [(0, 1), (1, 1)];
    for version in 0..=6 {
        let out = if version <= 3 { ErrorCode::INVALID_TXN_STATE } else { ErrorCode::TRANSACTION_ABORTABLE };
        let cases = [
            (staging("unknown", me, topic_id, &both), ErrorCode::INVALID_PRODUCER_ID_MAPPING),
            (staging("t", (me.0 + 5, me.1), topic_id, &both), ErrorCode::INVALID_PRODUCER_ID_MAPPING),
            (staging("t", old, topic_id, &both), ErrorCode::INVALID_PRODUCER_EPOCH),
            (staging("t", (me.0, me.1 + 1), topic_id, &both), ErrorCode::INVALID_PRODUCER_EPOCH),
        ];
        for (ask, code) in cases {
            assert_eq!(stage(&mut peer, &ask, version).await, [code; 2], "version {version}");
        }
        if version <= 4 {
            let ask = staging("t", me, topic_id, &both);
            assert_eq!(stage(&mut peer, &ask, version).await, [out; 2], "version {version}");
        }
    }
    // Version 5 adds the group to the transaction, where the earlier versions then find it.
    for version in [5, 0, 3, 4] {
        let ask = staging("t", me, topic_id, &both);
        assert_eq!(stage(&mut peer, &ask, version).await, [ErrorCode::NONE; 2], "version {version}");
    }
}

#[tokio::test]
async fn t_181_t_184_t_193_what_offset_fetch_says_of_what_is_staged() {
    let (_server, mut peer, topic_id) = world().await;
    let nobody = (&Text::default(), -1);
    peer.call(&commit("g", nobody, topic_id, 0), 9).await;
    let me = owner(&mut peer, "t").await;
    assert_eq!(stage(&mut peer, &staging("t", me, topic_id, &[(0, 50)]), 5).await, [ErrorCode::NONE]);
    let before = (ErrorCode::NONE, 42, -1, "note".to_owned());
    for version in 1..=9 {
        let rows = fetch(&mut peer, "g", false, version).await;
        assert_eq!(rows[0].1, 42, "version {version}");
        assert_eq!(rows, [before.clone(), none()], "version {version}");
        assert_eq!(fetch(&mut peer, "unknown", version >= 7, version).await, [none(), none()]);
    }
    let unstable = (ErrorCode::UNSTABLE_OFFSET_COMMIT, -1, -1, String::new());
    for version in 7..=9 {
        let rows = fetch(&mut peer, "g", true, version).await;
        assert_eq!(rows, [unstable.clone(), none()], "that partition alone");
    }
    end(&mut peer, "t", me, true, 5).await;
    let after = (ErrorCode::NONE, 50, 5, String::new());
    for version in 7..=9 {
        assert_eq!(fetch(&mut peer, "g", true, version).await, [after.clone(), none()], "T-106: at once");
    }
}

#[tokio::test]
async fn b_12_t_131_the_next_transaction_is_accepted_with_the_offsets_of_the_last_applied() {
    let (_server, mut peer, topic_id) = world().await;
    let mut me = owner(&mut peer, "t").await;
    for offset in 0..100 {
        let ask = staging("t", me, topic_id, &[(0, offset)]);
        assert_eq!(stage(&mut peer, &ask, 5).await, [ErrorCode::NONE]);
        me = end(&mut peer, "t", me, true, 5).await.1;
        let add = AddOffsetsToTxnRequest {
            transactional_id: "t".into(),
            producer_id: me.0,
            producer_epoch: me.1,
            group_id: "g".into(),
            ..Default::default()
        };
        assert_eq!(peer.call(&add, 4).await.error_code, 0);
        assert_eq!(fetch(&mut peer, "g", false, 9).await[0].1, offset);
    }
}

async fn delete_offset(peer: &mut Peer) -> ErrorCode {
    let ask = OffsetDeleteRequest {
        group_id: "g".into(),
        topics: vec![OffsetDeleteRequestTopic {
            name: "t".into(),
            partitions: vec![OffsetDeleteRequestPartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let response = peer.call(&ask, 0).await;
    ErrorCode(response.topics[0].partitions[0].error_code)
}

#[tokio::test]
async fn b_41_b_46_a_staged_offset_that_is_deleted_leaves_nothing_behind() {
    for committed in [true, false] {
        let (_server, mut peer, topic_id) = world().await;
        let me = owner(&mut peer, "t").await;
        stage(&mut peer, &staging("t", me, topic_id, &[(0, 7)]), 5).await;
        assert_eq!(fetch(&mut peer, "g", true, 8).await[0].0, ErrorCode::UNSTABLE_OFFSET_COMMIT);
        assert_eq!(delete_offset(&mut peer).await, ErrorCode::NONE);
        end(&mut peer, "t", me, committed, 5).await;
        assert_eq!(fetch(&mut peer, "g", true, 8).await, [none(), none()]);
        let ask = DeleteGroupsRequest { groups_names: vec!["g".into()], ..Default::default() };
        assert_eq!(peer.call(&ask, 2).await.results[0].error_code, 0);
    }
}

#[tokio::test]
async fn b_45_b_46_offsets_of_an_abandoned_transaction_become_stable() {
    let (_server, mut peer, topic_id) = world().await;
    peer.call(&commit("g", (&Text::default(), -1), topic_id, 0), 9).await;
    for offsets in [&[(0, 50)][..], &[]] {
        let id = format!("id-{}", offsets.len());
        let request = InitProducerIdRequest {
            transactional_id: Some(Text::from(id.as_str())),
            transaction_timeout_ms: 150,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        let me = peer.call(&request, 4).await;
        let me = (me.producer_id, me.producer_epoch);
        let add = AddOffsetsToTxnRequest {
            transactional_id: Text::from(id.as_str()),
            producer_id: me.0,
            producer_epoch: me.1,
            group_id: "g".into(),
            ..Default::default()
        };
        assert_eq!(peer.call(&add, 4).await.error_code, 0);
        if !offsets.is_empty() {
            assert_eq!(stage(&mut peer, &staging(&id, me, topic_id, offsets), 3).await, [ErrorCode::NONE]);
        }
        // The client has ended. Another application retries until it may continue.
        loop {
            let row = fetch(&mut peer, "g", true, 9).await.remove(0);
            if row.0 == ErrorCode::NONE {
                assert_eq!(row.1, 42, "the last committed value");
                break;
            }
            assert_eq!(row.0, ErrorCode::UNSTABLE_OFFSET_COMMIT);
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        while crate::rules::ends::state(&mut peer, &id).await != "CompleteAbort" {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn t_161_t_166_partitions_of_a_staging_request_fail_alone() {
    let (_server, mut peer, topic_id) = world().await;
    let me = owner(&mut peer, "t").await;
    let mut ask = staging("t", me, topic_id, &[(0, 1), (9, 1), (1, 1)]);
    ask.topics[0].partitions[2].committed_metadata = Some(Text::from("n".repeat(4097).as_str()));
    let expected =
        [ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::OFFSET_METADATA_TOO_LARGE];
    assert_eq!(stage(&mut peer, &ask, 5).await, expected);
    let unstable = fetch(&mut peer, "g", true, 9).await;
    assert_eq!((unstable[0].0, unstable[1].0), (ErrorCode::UNSTABLE_OFFSET_COMMIT, ErrorCode::NONE));
}
