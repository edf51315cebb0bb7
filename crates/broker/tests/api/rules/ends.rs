//! The owner of a transactional id, and the end of transactions, in every version.

use crate::data::{TOPIC, batches, create, fetch_request, only, produce_request};
use crate::rules::produce::{codes, sound};
use crate::transactions::{Owner, add, end, init, owner, write};
use crate::world::{Peer, broker, header};
use ottla_wire::codec::Compression;
use ottla_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::messages::{
    AddOffsetsToTxnRequest, ApiVersionsRequest, DescribeTransactionsRequest, FindCoordinatorRequest,
    InitProducerIdRequest, ListOffsetsRequest, ListTransactionsRequest,
};
use ottla_wire::{ErrorCode, Text, Uuid};

async fn init_for(peer: &mut Peer, id: &str, timeout: i32) -> Owner {
    let request = InitProducerIdRequest {
        transactional_id: Some(id.into()),
        transaction_timeout_ms: timeout,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    let response = peer.call(&request, 4).await;
    assert_eq!(response.error_code, 0);
    (response.producer_id, response.producer_epoch)
}

pub(super) async fn state(peer: &mut Peer, id: &str) -> String {
    let request = DescribeTransactionsRequest { transactional_ids: vec![id.into()], ..Default::default() };
    String::from(&peer.call(&request, 0).await.transaction_states[0].transaction_state)
}

/// Waits until a transaction has timed out.
async fn timed_out(peer: &mut Peer, id: &str) {
    while state(peer, id).await != "CompleteAbort" {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn t_12_coordinators_are_there_at_first_contact() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    for (version, key_type) in [(0, 0), (3, 0), (3, 1)] {
        let ask = FindCoordinatorRequest { key: "first".into(), key_type, ..Default::default() };
        assert_eq!(peer.call(&ask, version).await.error_code, 0);
    }
    let response = init(&mut peer, "first", (-1, -1), 5).await;
    assert_eq!((response.error_code, response.producer_epoch), (0, 0));
}

#[tokio::test]
async fn t_24_two_phase_commit_is_not_offered() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let told = peer.call(&ApiVersionsRequest::default(), 0).await;
    let row = told.api_keys.iter().find(|row| row.api_key == 22).unwrap();
    assert_eq!(row.max_version, 5);
    peer.send_frame(&[&header(22, 6, Some("x"), true)[..], &[0; 40]].concat()).await;
    assert!(peer.is_closed().await);
}

#[tokio::test]
async fn t_37_t_38_t_107_errors_carry_no_producer() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let old = owner(&mut peer, "t").await;
    let me = owner(&mut peer, "t").await;
    for version in 0..=5 {
        // A bad timeout; an empty id; a producer id without an epoch; a stale epoch; an open transaction.
        let mut request = InitProducerIdRequest {
            transactional_id: Some("t".into()),
            transaction_timeout_ms: 0,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        let response = peer.call(&request, version).await;
        assert_eq!(ErrorCode(response.error_code), ErrorCode::INVALID_TRANSACTION_TIMEOUT);
        assert_eq!((response.producer_id, response.producer_epoch), (-1, -1));
        request.transaction_timeout_ms = 1000;
        request.transactional_id = Some("".into());
        let response = peer.call(&request, version).await;
        assert_eq!(ErrorCode(response.error_code), ErrorCode::INVALID_REQUEST);
        assert_eq!((response.producer_id, response.producer_epoch), (-1, -1));
        if version >= 3 {
            let response = init(&mut peer, "t", old, version).await;
            let fenced =
                if version == 3 { ErrorCode::INVALID_PRODUCER_EPOCH } else { ErrorCode::PRODUCER_FENCED };
            assert_eq!(ErrorCode(response.error_code), fenced);
            assert_eq!((response.producer_id, response.producer_epoch), (-1, -1));
        }
        let id = format!("open{version}");
        let open = owner(&mut peer, &id).await;
        write(&mut peer, Some(&id), open, 0, 12).await;
        let response = init(&mut peer, &id, (-1, -1), version).await;
        assert_eq!(ErrorCode(response.error_code), ErrorCode::CONCURRENT_TRANSACTIONS);
        assert_eq!((response.producer_id, response.producer_epoch), (-1, -1));
    }
    for (by, committed) in [(me, true), (old, true), (old, false), ((me.0 + 9, 0), true)] {
        let (code, answered) = end(&mut peer, "t", by, committed, 5).await;
        assert_ne!(code, ErrorCode::NONE);
        assert_eq!(answered, (-1, -1));
    }
}

#[tokio::test]
async fn t_84_t_85_t_152_one_error_for_every_partition_by_version() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let old = owner(&mut peer, "t").await;
    let me = owner(&mut peer, "t").await;
    let both = [(TOPIC, 0), (TOPIC, 1)];
    for version in 0..=3 {
        let fenced =
            if version <= 1 { ErrorCode::INVALID_PRODUCER_EPOCH } else { ErrorCode::PRODUCER_FENCED };
        assert_eq!(add(&mut peer, "t", old, &both, version).await, [fenced; 2]);
        let mapping = ErrorCode::INVALID_PRODUCER_ID_MAPPING;
        assert_eq!(add(&mut peer, "unknown", me, &both, version).await, [mapping; 2]);
        assert_eq!(add(&mut peer, "", me, &both, version).await, [ErrorCode::INVALID_REQUEST; 2]);
    }
    for version in 0..=4 {
        let request = AddOffsetsToTxnRequest {
            transactional_id: "t".into(),
            producer_id: old.0,
            producer_epoch: old.1,
            group_id: "no such group".into(),
            ..Default::default()
        };
        let fenced =
            if version <= 1 { ErrorCode::INVALID_PRODUCER_EPOCH } else { ErrorCode::PRODUCER_FENCED };
        assert_eq!(ErrorCode(peer.call(&request, version).await.error_code), fenced);
        let request = AddOffsetsToTxnRequest { producer_epoch: me.1, ..request };
        assert_eq!(peer.call(&request, version).await.error_code, 0, "T-150: the group is not looked at");
    }
}

#[tokio::test]
async fn t_106_a_commit_is_seen_as_soon_as_it_is_answered() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let id = create(&mut peer, &[]).await;
    for (round, version) in [5, 3, 0, 5, 5].into_iter().enumerate() {
        let name = format!("t{round}");
        let me = owner(&mut peer, &name).await;
        assert_eq!(write(&mut peer, Some(&name), me, 0, 12).await, ErrorCode::NONE);
        assert_eq!(end(&mut peer, &name, me, true, version).await.0, ErrorCode::NONE);
        let mut committed = fetch_request(id, 12, 2 * round as i64);
        committed.isolation_level = 1;
        assert_eq!(batches(&only(peer.call(&committed, 12).await)).len(), 2, "no waiting");
        let partition = ListOffsetsPartition { timestamp: -1, ..Default::default() };
        let topic =
            ListOffsetsTopic { name: TOPIC.into(), partitions: vec![partition], ..Default::default() };
        let request = ListOffsetsRequest { isolation_level: 1, topics: vec![topic], ..Default::default() };
        let end = peer.call(&request, 7).await.topics.remove(0).partitions.remove(0).offset;
        assert_eq!(end, 2 * round as i64 + 2);
        assert_eq!(state(&mut peer, &name).await, "CompleteCommit");
    }
}

#[tokio::test]
async fn b_08_t_103_t_141_a_commit_that_meets_a_timeout_is_fenced() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let topic = create(&mut peer, &[]).await;
    let me = init_for(&mut peer, "t", 50).await;
    write(&mut peer, Some("t"), me, 0, 12).await;
    timed_out(&mut peer, "t").await;
    assert_eq!(write(&mut peer, Some("t"), me, 1, 12).await, ErrorCode::INVALID_PRODUCER_EPOCH);
    for (version, code) in [(0, ErrorCode::INVALID_PRODUCER_EPOCH), (2, ErrorCode::PRODUCER_FENCED)] {
        assert_eq!(add(&mut peer, "t", me, &[(TOPIC, 0)], version).await, [code]);
        assert_eq!(end(&mut peer, "t", me, true, version).await.0, code);
        assert_eq!(end(&mut peer, "t", me, false, version).await.0, code);
    }
    assert_eq!(end(&mut peer, "t", me, true, 5).await.0, ErrorCode::PRODUCER_FENCED);
    let next = (me.0, me.1 + 1);
    assert_eq!(end(&mut peer, "t", me, false, 5).await, (ErrorCode::NONE, next));
    let mut committed = fetch_request(topic, 12, 0);
    committed.isolation_level = 1;
    let row = only(peer.call(&committed, 12).await);
    let aborted = row.aborted_transactions.as_ref().unwrap();
    assert_eq!((aborted.len(), aborted[0].first_offset), (1, 0));
    assert_eq!(write(&mut peer, Some("t"), next, 0, 12).await, ErrorCode::NONE, "and it continues");
}

#[tokio::test]
async fn b_10_t_108_t_109_empty_and_refused_transactions() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[("max.message.bytes", "200")]).await;
    let me = owner(&mut peer, "t").await;
    let large = sound(Some((me, 0)), 90, true, Compression::None);
    let mut request = produce_request(Uuid::ZERO, 0, large);
    request.transactional_id = Some("t".into());
    assert_eq!(codes(&mut peer, &request, 12).await[0].0, ErrorCode::MESSAGE_TOO_LARGE);
    let (code, next) = end(&mut peer, "t", me, false, 5).await;
    assert_eq!((code, next), (ErrorCode::NONE, (me.0, me.1 + 1)));
    assert_eq!(write(&mut peer, Some("t"), next, 0, 12).await, ErrorCode::NONE);
    assert_eq!(end(&mut peer, "t", next, true, 5).await.0, ErrorCode::NONE);
    let fresh = owner(&mut peer, "abort").await;
    assert_eq!(end(&mut peer, "abort", fresh, false, 5).await, (ErrorCode::NONE, (fresh.0, 1)));
    let fresh = owner(&mut peer, "commit").await;
    assert_eq!(end(&mut peer, "commit", fresh, true, 5).await, (ErrorCode::INVALID_TXN_STATE, (-1, -1)));
}

#[tokio::test]
async fn b_18_b_39_t_33_t_290_what_was_open_is_aborted_on_the_wire() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let topic = create(&mut peer, &[]).await;
    let mut from = 0;
    for (round, given) in [false, true].into_iter().enumerate() {
        let id = format!("t{round}");
        let me = owner(&mut peer, &id).await;
        assert_eq!(write(&mut peer, Some(&id), me, 0, 12).await, ErrorCode::NONE);
        let pair = if given { me } else { (-1, -1) };
        let first = init(&mut peer, &id, pair, 4).await;
        assert_eq!(ErrorCode(first.error_code), ErrorCode::CONCURRENT_TRANSACTIONS);
        let next = init(&mut peer, &id, pair, 4).await;
        assert_eq!((next.error_code, next.producer_id), (0, me.0));
        assert!(next.producer_epoch > me.1);
        let next = (next.producer_id, next.producer_epoch);
        assert_eq!(write(&mut peer, Some(&id), next, 0, 12).await, ErrorCode::NONE);
        assert_eq!(end(&mut peer, &id, next, true, 5).await.0, ErrorCode::NONE);
        let mut committed = fetch_request(topic, 12, from);
        committed.isolation_level = 1;
        let row = only(peer.call(&committed, 12).await);
        let found = batches(&row);
        let control: Vec<_> = found.iter().map(|batch| batch.header().is_control()).collect();
        assert_eq!(control, [false, true, false, true]);
        let records = found[1].records(100).unwrap();
        let marker = records.iter().next().unwrap().unwrap();
        assert_eq!(marker.key, Some(&b"\0\0\0\0"[..]), "an ABORT marker behind the first record");
        let aborted = row.aborted_transactions.unwrap();
        assert_eq!((aborted.len(), aborted[0].first_offset), (1, from));
        from += 4;
    }
}

#[tokio::test]
async fn t_93_t_232_passing_states_are_never_shown() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let list = |states: &[&str]| ListTransactionsRequest {
        state_filters: states.iter().map(|state| Text::from(*state)).collect(),
        duration_filter: -1,
        ..Default::default()
    };
    let passing = ["PrepareCommit", "PrepareAbort", "PrepareEpochFence", "Dead"];
    for round in 0..20 {
        let id = format!("t{round}");
        let me = owner(&mut peer, &id).await;
        write(&mut peer, Some(&id), me, 0, 12).await;
        end(&mut peer, &id, me, round % 2 == 0, 5).await;
        let found = peer.call(&list(&passing), 1).await;
        assert!(found.transaction_states.is_empty() && found.unknown_state_filters.is_empty());
    }
    // This broker coordinates every transactional id, and lists each of them once.
    let all = peer.call(&list(&[]), 1).await;
    assert_eq!((all.error_code, all.transaction_states.len()), (0, 20));
    let aborted = peer.call(&list(&["CompleteAbort"]), 0).await;
    assert_eq!(aborted.transaction_states.len(), 10);
}

#[tokio::test]
async fn t_283_the_stale_are_told_so_and_never_that_their_state_is_invalid() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let old = owner(&mut peer, "t").await;
    let mut me = owner(&mut peer, "t").await;
    for open in [false, true] {
        if open {
            assert_eq!(write(&mut peer, Some("t"), me, 0, 12).await, ErrorCode::NONE);
        }
        for version in 2..=5 {
            for committed in [false, true] {
                // Version 2 and later never return 47, which is fatal there, nor 48 or 120.
                let code = end(&mut peer, "t", old, committed, version).await.0;
                assert_eq!(code, ErrorCode::PRODUCER_FENCED, "version {version}");
            }
        }
    }
    for version in 0..=5 {
        write(&mut peer, Some("t"), me, i32::from(version), 12).await;
        let (code, next) = end(&mut peer, "t", me, false, version).await;
        assert_eq!(code, ErrorCode::NONE, "an abort of what is open is always taken");
        me = if version >= 5 { next } else { me };
    }
}

#[tokio::test]
async fn t_231_what_is_described_of_open_and_ended_transactions() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    let describe = DescribeTransactionsRequest { transactional_ids: vec!["t".into()], ..Default::default() };
    assert_eq!(write(&mut peer, Some("t"), me, 0, 12).await, ErrorCode::NONE);
    let add = AddOffsetsToTxnRequest {
        transactional_id: "t".into(),
        producer_id: me.0,
        producer_epoch: me.1,
        group_id: "g".into(),
        ..Default::default()
    };
    assert_eq!(peer.call(&add, 4).await.error_code, 0);
    let open = peer.call(&describe, 0).await.transaction_states.remove(0);
    let topics: Vec<_> = open.topics.iter().map(|topic| String::from(&topic.topic)).collect();
    assert_eq!(topics, ["__consumer_offsets", TOPIC]);
    assert_eq!((open.transaction_timeout_ms, open.producer_id, open.producer_epoch), (60_000, me.0, me.1));
    assert_eq!(end(&mut peer, "t", me, true, 5).await.0, ErrorCode::NONE);
    let ended = peer.call(&describe, 0).await.transaction_states.remove(0);
    assert_eq!(&ended.transaction_state[..], "CompleteCommit");
    assert_eq!(ended.transaction_start_time_ms, open.transaction_start_time_ms, "the last start stays");
    assert_eq!((ended.topics.len(), ended.producer_epoch), (0, me.1 + 1));
}

#[tokio::test]
async fn t_26_t_143_t_144_what_a_forgotten_id_is_told() {
    let server = broker(&[("transactional.id.expiration.ms", "50")]).await;
    let mut peer = Peer::connect(&server).await;
    create(&mut peer, &[]).await;
    let me = owner(&mut peer, "t").await;
    let describe = DescribeTransactionsRequest { transactional_ids: vec!["t".into()], ..Default::default() };
    while peer.call(&describe, 0).await.transaction_states[0].error_code == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let gone = peer.call(&describe, 0).await.transaction_states.remove(0);
    assert_eq!(ErrorCode(gone.error_code), ErrorCode::TRANSACTIONAL_ID_NOT_FOUND);
    let mapping = ErrorCode::INVALID_PRODUCER_ID_MAPPING;
    for version in 0..=3 {
        assert_eq!(add(&mut peer, "t", me, &[(TOPIC, 0)], version).await, [mapping]);
    }
    for version in 0..=5 {
        assert_eq!(end(&mut peer, "t", me, false, version).await.0, mapping);
    }
    for version in [11, 12] {
        assert_eq!(write(&mut peer, Some("t"), me, 0, version).await, mapping);
    }
    let again = init(&mut peer, "t", me, 4).await;
    assert_eq!((again.error_code, again.producer_epoch), (0, 0));
    assert!(again.producer_id > me.0);
}
