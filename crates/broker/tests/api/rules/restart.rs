//! Crashes of the broker: the same clients and requests before and after.

use crate::data::{TOPIC, batches, create, fetch_request, only, produce_request};
use crate::groups::{commit, commit_code};
use crate::rules::ends::state;
use crate::rules::produce::{codes, sound};
use crate::transactions::{Owner, end, init, owner, write};
use crate::world::Peer;
use ottla_broker::host::{self, Host, HostOptions, Snapshots};
use ottla_broker::{AdvertisedAddress, Context, ContextOptions, Server};
use ottla_core::config::Settings;
use ottla_store::Options;
use ottla_store::testing::FaultMedium;
use ottla_wire::codec::Compression;
use ottla_wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use ottla_wire::messages::{
    DeleteGroupsRequest, ListGroupsRequest, ListTransactionsRequest, OffsetFetchRequest,
};
use ottla_wire::{ErrorCode, Text, Uuid};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::net::TcpListener;

/// A broker on a disk that keeps only what was synced.
pub(super) struct Node {
    medium: FaultMedium,
    pub(super) server: Server,
    host: Host,
    thread: JoinHandle<()>,
    settings: Settings,
}

impl Node {
    pub(super) async fn start(medium: FaultMedium) -> Node {
        Node::start_with(medium, Settings::default()).await
    }

    pub(super) async fn start_with(medium: FaultMedium, settings: Settings) -> Node {
        let options = HostOptions {
            settings: settings.clone(),
            log: Options { segment_size: 1 << 20, recent: 0, zero_fill: false, ..Options::disk() },
            cluster_id: "ottla-test-cluster-id0".to_owned(),
            snapshots: Snapshots::every(u64::MAX),
        };
        let started = host::start(Arc::new(medium.clone()), options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let advertised = AdvertisedAddress { host: "localhost".to_owned(), port: 9092 };
        let options = ContextOptions::new(advertised, "disk");
        let context = Context::new(started.host.clone(), started.reader, options);
        let server = Server::bind(listener, context.await.unwrap()).unwrap();
        Node { medium, server, host: started.host, thread: started.thread, settings }
    }

    /// A power loss, and a new start of the broker; with `snapshot`, from a snapshot.
    pub(super) async fn crash(self, snapshot: bool) -> (Node, Peer) {
        if snapshot {
            self.host.snapshot().await.unwrap();
        }
        let medium = self.medium.crash();
        self.server.stop().await;
        self.host.stop();
        self.thread.join().unwrap();
        let node = Node::start_with(medium, self.settings).await;
        let peer = Peer::connect(&node.server).await;
        (node, peer)
    }
}

async fn begin(seed: u64) -> (Node, Peer, Uuid) {
    let node = Node::start(FaultMedium::new(seed)).await;
    let mut peer = Peer::connect(&node.server).await;
    // The records are old: retention would delete them at the first restart.
    let id = create(&mut peer, &[("retention.ms", "-1")]).await;
    (node, peer, id)
}

async fn put(peer: &mut Peer, id: Option<&str>, by: Owner, sequence: i32, count: usize) -> (ErrorCode, i64) {
    let batch = sound(Some((by, sequence)), count, id.is_some(), Compression::None);
    let mut request = produce_request(Uuid::ZERO, 0, batch);
    request.transactional_id = id.map(Text::from);
    codes(peer, &request, 12).await[0]
}

/// The base offsets of the batches that a read_committed reader gets, markers included, and the number of aborted
/// transactions.
async fn committed(peer: &mut Peer, id: Uuid) -> (Vec<i64>, usize, bool) {
    let mut request = fetch_request(id, 12, 0);
    request.isolation_level = 1;
    let row = only(peer.call(&request, 12).await);
    assert_eq!(ErrorCode(row.error_code), ErrorCode::NONE);
    let bases = batches(&row).iter().map(|batch| batch.header().base_offset).collect();
    let aborted = row.aborted_transactions.as_ref().map_or(0, Vec::len);
    (bases, aborted, row.last_stable_offset == row.high_watermark)
}

#[tokio::test]
async fn b_03_t_31_a_retry_gets_the_same_answer_after_a_crash() {
    for snapshot in [false, true] {
        let (node, mut peer, _) = begin(1).await;
        let me = owner(&mut peer, "t").await;
        let unread = init(&mut peer, "t", me, 4).await;
        let (node, mut peer) = node.crash(snapshot).await;
        let again = init(&mut peer, "t", me, 4).await;
        let pair = |one: &ottla_wire::messages::InitProducerIdResponse| (one.producer_id, one.producer_epoch);
        assert_eq!((again.error_code, pair(&again)), (0, pair(&unread)));
        let (_node, mut peer) = node.crash(snapshot).await;
        assert_eq!(end(&mut peer, "t", pair(&again), false, 5).await.0, ErrorCode::NONE);
        let after = init(&mut peer, "t", me, 4).await;
        assert_eq!(ErrorCode(after.error_code), ErrorCode::PRODUCER_FENCED);
    }
}

#[tokio::test]
async fn b_20_t_254_no_id_is_stuck_after_crashes() {
    let (mut node, mut peer, _) = begin(2).await;
    for round in 0..6 {
        for n in 0..10 {
            let id = format!("t{n}");
            let first = init(&mut peer, &id, (-1, -1), 4).await;
            let mine = if first.error_code == 0 { first } else { init(&mut peer, &id, (-1, -1), 4).await };
            assert_eq!(mine.error_code, 0, "{id} in round {round}");
            let me = (mine.producer_id, mine.producer_epoch);
            assert_eq!(write(&mut peer, Some(&id), me, 0, 12).await, ErrorCode::NONE);
            match n % 3 {
                0 => drop(end(&mut peer, &id, me, n % 2 == 0, 5).await),
                1 => drop(end(&mut peer, &id, me, n % 2 == 0, 3).await),
                _ => {}
            }
        }
        (node, peer) = node.crash(round % 2 == 0).await;
        // The first request after the start finds all state loaded.
        let list = |states: &[&str]| ListTransactionsRequest {
            state_filters: states.iter().map(|state| Text::from(*state)).collect(),
            ..Default::default()
        };
        let all = peer.call(&list(&[]), 0).await;
        assert_eq!((all.error_code, all.transaction_states.len()), (0, 10));
        assert!(peer.call(&list(&["PrepareCommit", "PrepareAbort"]), 0).await.transaction_states.is_empty());
    }
    drop(node);
}

#[tokio::test]
async fn b_28_a_transaction_goes_on_after_a_crash() {
    for snapshot in [false, true] {
        let (node, mut peer, id) = begin(3).await;
        let me = owner(&mut peer, "t").await;
        assert_eq!(put(&mut peer, Some("t"), me, 0, 10).await, (ErrorCode::NONE, 0));
        let (_node, mut peer) = node.crash(snapshot).await;
        assert_eq!(put(&mut peer, Some("t"), me, 10, 1).await, (ErrorCode::NONE, 10));
        assert_eq!(end(&mut peer, "t", me, true, 5).await.0, ErrorCode::NONE);
        assert_eq!(committed(&mut peer, id).await, (vec![0, 10, 11], 0, true));
    }
}

#[tokio::test]
async fn b_22_t_256_a_transaction_without_data_survives_a_crash() {
    for (snapshot, commit) in [(false, true), (true, true), (true, false)] {
        let (node, mut peer, id) = begin(4).await;
        let me = owner(&mut peer, "t").await;
        crate::transactions::add(&mut peer, "t", me, &[(TOPIC, 0)], 3).await;
        let (node, mut peer) = node.crash(snapshot).await;
        assert_eq!(state(&mut peer, "t").await, "Ongoing");
        assert_eq!(write(&mut peer, Some("t"), me, 0, 11).await, ErrorCode::NONE);
        let (_node, mut peer) = node.crash(snapshot).await;
        assert_eq!(end(&mut peer, "t", me, commit, 3).await.0, ErrorCode::NONE);
        assert_eq!(committed(&mut peer, id).await, (vec![0, 1], usize::from(!commit), true));
    }
}

#[tokio::test]
async fn b_35_t_54_five_batches_in_flight_over_a_crash() {
    for snapshot in [false, true] {
        let (node, mut peer, id) = begin(5).await;
        let me = (70, 0);
        for sequence in 0..5 {
            assert_eq!(put(&mut peer, None, me, 2 * sequence, 2).await.0, ErrorCode::NONE);
        }
        // None of the responses arrived: the client sends all five batches again, and then the next one.
        let (_node, mut peer) = node.crash(snapshot).await;
        for sequence in 0..6 {
            let offset = i64::from(2 * sequence);
            assert_eq!(put(&mut peer, None, me, 2 * sequence, 2).await, (ErrorCode::NONE, offset));
        }
        assert_eq!(committed(&mut peer, id).await.0, [0, 2, 4, 6, 8, 10]);
    }
}

#[tokio::test]
async fn b_23_b_24_t_260_acknowledged_ends_hold_and_others_are_whole() {
    let (mut node, mut peer, topic) = begin(6).await;
    let mut expected = Vec::new();
    let mut kept = 0;
    for round in 0..20 {
        let id = format!("t{round}");
        let me = owner(&mut peer, &id).await;
        let (code, base) = put(&mut peer, Some(&id), me, 0, 2).await;
        assert_eq!(code, ErrorCode::NONE);
        let commit = round % 3 != 0;
        if round % 5 == 4 {
            // The response does not arrive. The end of the transaction is there as a whole or not at all.
            let request = ottla_wire::messages::EndTxnRequest {
                transactional_id: Text::from(id.as_str()),
                producer_id: me.0,
                producer_epoch: me.1,
                committed: commit,
                ..Default::default()
            };
            peer.tell(&request, 5).await;
            (node, peer) = node.crash(round % 2 == 0).await;
        }
        let (code, next) = end(&mut peer, &id, me, commit, 5).await;
        assert_eq!((code, next), (ErrorCode::NONE, (me.0, me.1 + 1)), "the retry is taken");
        expected.push(base);
        expected.push(base + 2);
        kept += usize::from(!commit);
    }
    let (_node, mut peer) = node.crash(false).await;
    let (bases, aborted, stable) = committed(&mut peer, topic).await;
    assert_eq!((bases, aborted, stable), (expected, kept, true));
}

async fn offset(peer: &mut Peer) -> i64 {
    let topic = OffsetFetchRequestTopic {
        name: TOPIC.into(),
        partition_indexes: [0].into_iter().collect(),
        ..Default::default()
    };
    let ask =
        OffsetFetchRequest { group_id: "simple".into(), topics: Some(vec![topic]), ..Default::default() };
    peer.call(&ask, 5).await.topics[0].partitions[0].committed_offset
}

#[tokio::test]
async fn b_49_b_50_t_188_a_deleted_group_stays_deleted() {
    for snapshot in [false, true] {
        let (node, mut peer, id) = begin(7).await;
        let mut ask = commit("simple", (&Text::default(), -1), id, 0);
        ask.topics[0].name = TOPIC.into();
        assert_eq!(commit_code(&mut peer, &ask, 8).await, ErrorCode::NONE);
        assert_eq!(offset(&mut peer).await, 42);
        let delete = DeleteGroupsRequest { groups_names: vec!["simple".into()], ..Default::default() };
        assert_eq!(peer.call(&delete, 2).await.results[0].error_code, 0);
        assert!(peer.call(&ListGroupsRequest::default(), 4).await.groups.is_empty());
        let (_node, mut peer) = node.crash(snapshot).await;
        assert!(peer.call(&ListGroupsRequest::default(), 4).await.groups.is_empty());
        assert_eq!(offset(&mut peer).await, -1);
        assert_eq!(commit_code(&mut peer, &ask, 8).await, ErrorCode::NONE);
        assert_eq!(offset(&mut peer).await, 42);
    }
}
