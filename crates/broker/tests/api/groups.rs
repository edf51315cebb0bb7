//! The APIs of groups and offsets, in all their versions.

use crate::world::{Peer, broker};
use ottla_broker::Server;
use ottla_wire::messages::join_group_request::JoinGroupRequestProtocol;
use ottla_wire::messages::leave_group_request::MemberIdentity;
use ottla_wire::messages::metadata_request::MetadataRequestTopic;
use ottla_wire::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use ottla_wire::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use ottla_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use ottla_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use ottla_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use ottla_wire::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetDeleteRequest, OffsetFetchRequest, SyncGroupRequest, TxnOffsetCommitRequest,
};
use ottla_wire::{ErrorCode, Text, Uuid};

/// A broker with topic "t" of two partitions, a client, and the topic's id.
pub(crate) async fn world() -> (Server, Peer, Uuid) {
    let server = broker(&[("num.partitions", "2")]).await;
    let mut peer = Peer::connect(&server).await;
    let topic = MetadataRequestTopic { name: Some("t".into()), ..Default::default() };
    let ask =
        MetadataRequest { topics: Some(vec![topic]), allow_auto_topic_creation: true, ..Default::default() };
    let response = peer.call(&ask, 13).await;
    let id = response.topics[0].topic_id;
    (server, peer, id)
}

pub(crate) fn joining(group: &str, member_id: &Text) -> JoinGroupRequest {
    let range = JoinGroupRequestProtocol {
        name: "range".into(),
        metadata: (&b"\0\0\0\0\0\x01\0\x01t"[..]).into(),
        ..Default::default()
    };
    JoinGroupRequest {
        group_id: group.into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        member_id: member_id.clone(),
        protocol_type: "consumer".into(),
        protocols: vec![range],
        ..Default::default()
    }
}

/// Joins as a new member, in two steps where the version requires it.
pub(crate) async fn join(peer: &mut Peer, group: &str, version: i16) -> JoinGroupResponse {
    let first = peer.call(&joining(group, &Text::default()), version).await;
    if version < 4 {
        return first;
    }
    assert_eq!(ErrorCode(first.error_code), ErrorCode::MEMBER_ID_REQUIRED);
    assert!(first.member_id.starts_with("test-"));
    peer.call(&joining(group, &first.member_id), version).await
}

async fn sync(peer: &mut Peer, group: &str, joined: &JoinGroupResponse, version: i16) -> Vec<u8> {
    let assignment = SyncGroupRequestAssignment {
        member_id: joined.member_id.clone(),
        assignment: (&b"yours"[..]).into(),
        ..Default::default()
    };
    let five = version >= 5;
    let ask = SyncGroupRequest {
        group_id: group.into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        protocol_type: five.then(|| "consumer".into()),
        protocol_name: five.then(|| "range".into()),
        assignments: vec![assignment],
        ..Default::default()
    };
    let response = peer.call(&ask, version).await;
    assert_eq!(response.error_code, 0);
    assert_eq!(response.protocol_name.is_some(), five);
    response.assignment.to_vec()
}

pub(crate) fn commit(
    group: &str,
    member: (&Text, i32),
    topic_id: Uuid,
    partition: i32,
) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition {
        partition_index: partition,
        committed_offset: 42,
        committed_metadata: Some("note".into()),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: "t".into(),
        topic_id,
        partitions: vec![partition],
        ..Default::default()
    };
    OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: member.1,
        member_id: member.0.clone(),
        topics: vec![topic],
        ..Default::default()
    }
}

pub(crate) async fn commit_code(peer: &mut Peer, ask: &OffsetCommitRequest, version: i16) -> ErrorCode {
    let response = peer.call(ask, version).await;
    ErrorCode(response.topics[0].partitions[0].error_code)
}

#[tokio::test]
async fn a_member_lives_in_every_version() {
    let (_server, mut peer, topic_id) = world().await;
    for version in 0..=9 {
        let group = format!("group-{version}");
        let joined = join(&mut peer, &group, version).await;
        assert_eq!((joined.error_code, joined.generation_id), (0, 1), "version {version}");
        assert_eq!((joined.leader.clone(), joined.members.len()), (joined.member_id.clone(), 1));
        assert_eq!(joined.protocol_name.as_deref(), Some("range"));
        assert_eq!(sync(&mut peer, &group, &joined, version.min(5)).await, b"yours");
        let beat = HeartbeatRequest {
            group_id: group.as_str().into(),
            generation_id: 1,
            member_id: joined.member_id.clone(),
            ..Default::default()
        };
        assert_eq!(peer.call(&beat, version.min(4)).await.error_code, 0);
        let member = (&joined.member_id, 1);
        let version_of_commit = version.max(2);
        let code = commit_code(&mut peer, &commit(&group, member, topic_id, 0), version_of_commit).await;
        assert_eq!(code, ErrorCode::NONE);
        let leave = leaving(&group, &joined.member_id, version.min(5));
        let left = peer.call(&leave, version.min(5)).await;
        assert_eq!((left.error_code, left.members.len()), (0, usize::from(version >= 3)));
    }
    let all = peer.call(&ListGroupsRequest::default(), 5).await;
    assert_eq!(all.groups.len(), 10);
}

pub(crate) fn leaving(group: &str, member_id: &Text, version: i16) -> LeaveGroupRequest {
    let group_id = group.into();
    if version < 3 {
        return LeaveGroupRequest { group_id, member_id: member_id.clone(), ..Default::default() };
    }
    let member = MemberIdentity { member_id: member_id.clone(), ..Default::default() };
    LeaveGroupRequest { group_id, members: vec![member], ..Default::default() }
}

#[tokio::test]
async fn a_second_member_waits_until_the_first_has_rejoined() {
    let (server, mut peer, _) = world().await;
    let first = join(&mut peer, "g", 9).await;
    let mut other = Peer::connect(&server).await;
    let second = tokio::spawn(async move { join(&mut other, "g", 9).await });
    let beat = HeartbeatRequest {
        group_id: "g".into(),
        generation_id: 1,
        member_id: first.member_id.clone(),
        ..Default::default()
    };
    while ErrorCode(peer.call(&beat, 4).await.error_code) != ErrorCode::REBALANCE_IN_PROGRESS {
        tokio::task::yield_now().await;
    }
    let again = peer.call(&joining("g", &first.member_id), 9).await;
    let second = second.await.unwrap();
    assert_eq!((again.generation_id, second.generation_id), (2, 2));
    assert_eq!((again.members.len(), second.members.len()), (2, 0));
}

#[tokio::test]
async fn errors_of_membership_have_their_codes() {
    let (_server, mut peer, _) = world().await;
    let mut ask = joining("g", &"stranger".into());
    assert_eq!(ErrorCode(peer.call(&ask, 9).await.error_code), ErrorCode::UNKNOWN_MEMBER_ID);
    ask.session_timeout_ms = 1;
    let refused = peer.call(&ask, 6).await;
    assert_eq!(ErrorCode(refused.error_code), ErrorCode::INVALID_SESSION_TIMEOUT);
    assert_eq!((refused.generation_id, refused.protocol_name.as_deref()), (-1, Some("")));
    assert_eq!(peer.call(&ask, 7).await.protocol_name, None);
    let sync = SyncGroupRequest { group_id: "g".into(), ..Default::default() };
    assert_eq!(ErrorCode(peer.call(&sync, 4).await.error_code), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(ErrorCode(peer.call(&sync, 5).await.error_code), ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    let left = peer.call(&leaving("g", &"x".into(), 2), 2).await;
    assert_eq!(ErrorCode(left.error_code), ErrorCode::UNKNOWN_MEMBER_ID);
    let left = peer.call(&leaving("g", &"x".into(), 3), 3).await;
    assert_eq!(left.error_code, 0);
    assert_eq!(ErrorCode(left.members[0].error_code), ErrorCode::UNKNOWN_MEMBER_ID);
    let left = peer.call(&leaving("", &"x".into(), 5), 5).await;
    assert_eq!(ErrorCode(left.error_code), ErrorCode::INVALID_GROUP_ID);
}

#[tokio::test]
async fn offsets_are_committed_and_fetched_in_every_version() {
    let (_server, mut peer, topic_id) = world().await;
    let nobody = (&Text::default(), -1);
    for version in 2..=10 {
        let group = format!("simple-{version}");
        let code = commit_code(&mut peer, &commit(&group, nobody, topic_id, 1), version).await;
        assert_eq!(code, ErrorCode::NONE, "version {version}");
        let code = commit_code(&mut peer, &commit(&group, nobody, topic_id, 2), version).await;
        assert_eq!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }
    for version in 1..=7 {
        let topic = OffsetFetchRequestTopic {
            name: "t".into(),
            partition_indexes: [0, 1, 2].into_iter().collect(),
            ..Default::default()
        };
        let mut ask = OffsetFetchRequest {
            group_id: "simple-5".into(),
            topics: Some(vec![topic]),
            require_stable: version == 7,
            ..Default::default()
        };
        let response = peer.call(&ask, version).await;
        let offsets = response.topics[0].partitions.iter().map(|p| (p.committed_offset, p.error_code));
        assert_eq!(offsets.collect::<Vec<_>>(), [(-1, 0), (42, 0), (-1, 0)], "version {version}");
        assert_eq!(response.topics[0].partitions[1].metadata.as_deref(), Some("note"));
        if version >= 2 {
            ask.topics = None;
            let all = peer.call(&ask, version).await;
            assert_eq!((all.topics.len(), all.topics[0].partitions.len()), (1, 1));
        }
    }
    for version in 8..=10 {
        let group = |group_id: &str, topics| OffsetFetchRequestGroup {
            group_id: group_id.into(),
            topics,
            ..Default::default()
        };
        let topic = |name: &str, topic_id| OffsetFetchRequestTopics {
            name: name.into(),
            topic_id,
            partition_indexes: [1].into_iter().collect(),
            ..Default::default()
        };
        let topics = vec![topic("t", topic_id), topic("unknown", Uuid([9; 16]))];
        let groups = vec![group("simple-5", Some(topics)), group("simple-5", None), group("unknown", None)];
        let response = peer.call(&OffsetFetchRequest { groups, ..Default::default() }, version).await;
        let [asked, all, none] = &response.groups[..] else { panic!("three groups") };
        assert_eq!(asked.topics[0].partitions[0].committed_offset, 42);
        let expected = if version >= 10 { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::NONE };
        assert_eq!(ErrorCode(asked.topics[1].partitions[0].error_code), expected);
        assert_eq!((all.topics[0].topic_id == topic_id, none.topics.len()), (version >= 10, 0));
    }
}

#[tokio::test]
async fn t_165_an_unknown_group_is_told_by_version() {
    let (_server, mut peer, topic_id) = world().await;
    let ask = commit("g", (&"m".into(), 3), topic_id, 0);
    assert_eq!(commit_code(&mut peer, &ask, 8).await, ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(commit_code(&mut peer, &ask, 9).await, ErrorCode::GROUP_ID_NOT_FOUND);
    let ask = commit("g", (&"m".into(), 3), Uuid([9; 16]), 0);
    assert_eq!(commit_code(&mut peer, &ask, 10).await, ErrorCode::UNKNOWN_TOPIC_ID);
}

#[tokio::test]
async fn t_163_a_transactional_commit_of_nobodys_producer_fails_on_every_partition() {
    let (_server, mut peer, topic_id) = world().await;
    let partition = |partition_index| TxnOffsetCommitRequestPartition {
        partition_index,
        committed_offset: 1,
        ..Default::default()
    };
    for version in 0..=6 {
        let topic = TxnOffsetCommitRequestTopic {
            name: "t".into(),
            topic_id,
            partitions: vec![partition(0), partition(7)],
            ..Default::default()
        };
        let mut ask = TxnOffsetCommitRequest {
            transactional_id: "x".into(),
            group_id: "g".into(),
            producer_id: 5,
            producer_epoch: 0,
            topics: vec![topic],
            ..Default::default()
        };
        let codes = |response: ottla_wire::messages::TxnOffsetCommitResponse| {
            response.topics[0].partitions.iter().map(|p| ErrorCode(p.error_code)).collect::<Vec<_>>()
        };
        let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        let response = peer.call(&ask, version).await;
        assert_eq!(codes(response), [ErrorCode::INVALID_PRODUCER_ID_MAPPING, unknown], "version {version}");
        ask.group_id = Text::default();
        let response = peer.call(&ask, version).await;
        assert_eq!(codes(response), [ErrorCode::INVALID_GROUP_ID, unknown]);
    }
}

#[tokio::test]
async fn groups_are_described_listed_and_deleted() {
    let (_server, mut peer, topic_id) = world().await;
    let joined = join(&mut peer, "g", 9).await;
    sync(&mut peer, "g", &joined, 5).await;
    commit_code(&mut peer, &commit("simple", (&Text::default(), -1), topic_id, 0), 9).await;
    for version in 0..=6 {
        let groups = vec!["g".into(), "unknown".into()];
        let include_authorized_operations = version >= 3;
        let ask = DescribeGroupsRequest { groups, include_authorized_operations, ..Default::default() };
        let response = peer.call(&ask, version).await;
        let [known, unknown] = &response.groups[..] else { panic!("two groups") };
        assert_eq!((&known.group_state[..], &known.protocol_data[..]), ("Stable", "range"));
        assert_eq!(&known.members[0].member_assignment[..], b"yours");
        assert_eq!(
            (&known.members[0].client_id[..], &known.members[0].client_host[..]),
            ("test", "/127.0.0.1")
        );
        assert_eq!(known.authorized_operations == i32::MIN, version < 3);
        let expected = if version >= 6 { ErrorCode::GROUP_ID_NOT_FOUND } else { ErrorCode::NONE };
        assert_eq!((&unknown.group_state[..], ErrorCode(unknown.error_code)), ("Dead", expected));
    }
    for version in 0..=5 {
        let listed = peer.call(&ListGroupsRequest::default(), version).await;
        assert_eq!(listed.groups.len(), 2);
        assert_eq!(&listed.groups[0].group_state[..], if version >= 4 { "Stable" } else { "" });
    }
    let filtered = ListGroupsRequest { states_filter: vec!["empty".into()], ..Default::default() };
    assert_eq!(&peer.call(&filtered, 4).await.groups[0].group_id[..], "simple");
    let filtered = ListGroupsRequest { types_filter: vec!["consumer".into()], ..Default::default() };
    assert_eq!(peer.call(&filtered, 5).await.groups.len(), 0);
    for version in 0..=3 {
        let ask = DeleteGroupsRequest { groups_names: vec!["g".into(), "nope".into()], ..Default::default() };
        let response = peer.call(&ask, version).await;
        let codes: Vec<_> = response.results.iter().map(|r| ErrorCode(r.error_code)).collect();
        assert_eq!(codes, [ErrorCode::NON_EMPTY_GROUP, ErrorCode::GROUP_ID_NOT_FOUND]);
    }
    let ask = DeleteGroupsRequest { groups_names: vec!["simple".into()], ..Default::default() };
    assert_eq!(peer.call(&ask, 3).await.results[0].error_code, 0);
}

#[tokio::test]
async fn t_189_offsets_are_deleted_unless_subscribed_to() {
    let (_server, mut peer, topic_id) = world().await;
    let ask = |group: &str, topic: &str| OffsetDeleteRequest {
        group_id: group.into(),
        topics: vec![OffsetDeleteRequestTopic {
            name: topic.into(),
            partitions: vec![OffsetDeleteRequestPartition { partition_index: 0, ..Default::default() }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let unknown = peer.call(&ask("g", "t"), 0).await;
    assert_eq!((ErrorCode(unknown.error_code), unknown.topics.len()), (ErrorCode::GROUP_ID_NOT_FOUND, 0));
    let unknown = peer.call(&ask("g", "x"), 0).await;
    assert_eq!((ErrorCode(unknown.error_code), unknown.topics.len()), (ErrorCode::GROUP_ID_NOT_FOUND, 0));
    let joined = join(&mut peer, "g", 9).await;
    sync(&mut peer, "g", &joined, 5).await;
    let subscribed = peer.call(&ask("g", "t"), 0).await.topics[0].partitions[0].error_code;
    assert_eq!(ErrorCode(subscribed), ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC);
    commit_code(&mut peer, &commit("simple", (&Text::default(), -1), topic_id, 0), 9).await;
    assert_eq!(peer.call(&ask("simple", "t"), 0).await.topics[0].partitions[0].error_code, 0);
}

#[tokio::test]
async fn t_11_this_broker_coordinates_everything() {
    let (server, mut peer, _) = world().await;
    let port = i32::from(server.local_addr().port());
    for version in 0..=3 {
        let ask = FindCoordinatorRequest { key: "g".into(), ..Default::default() };
        let found = peer.call(&ask, version).await;
        assert_eq!((found.error_code, found.node_id, found.port), (0, 1, port), "version {version}");
    }
    for version in 4..=6 {
        let coordinator_keys = vec!["a".into(), "b".into()];
        let mut ask = FindCoordinatorRequest { key_type: 1, coordinator_keys, ..Default::default() };
        let found = peer.call(&ask, version).await;
        let keys: Vec<_> =
            found.coordinators.iter().map(|c| (c.key.to_string(), c.node_id, c.port)).collect();
        assert_eq!(keys, [("a".to_owned(), 1, port), ("b".to_owned(), 1, port)]);
        ask.key_type = 2;
        let refused = peer.call(&ask, version).await;
        assert_eq!(ErrorCode(refused.coordinators[1].error_code), ErrorCode::INVALID_REQUEST);
    }
}
