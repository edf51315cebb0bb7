//! The trace's bounds, its masks and its filters.

use super::exchange::{Ending, Exchange, Stages, TracedFrame};
use super::rings::Rings;
use super::{Arrival, PENDING_OVERHEAD, Trace, TraceFilter, secrets};
use bytes::{Bytes, BytesMut};
use ottla_wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use ottla_wire::messages::describe_delegation_token_response::DescribedDelegationToken;
use ottla_wire::messages::{
    AlterUserScramCredentialsRequest, CreateDelegationTokenResponse, DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest, HeartbeatRequest, RenewDelegationTokenRequest, Request, Response,
    SaslAuthenticateResponse,
};
use ottla_wire::tables::Direction;
use ottla_wire::{ApiKey, Message, frame};
use std::net::SocketAddr;
use std::time::Instant;

fn exchange(connection: u64, size: usize) -> Exchange {
    Exchange {
        seq: 0,
        connection,
        peer: SocketAddr::from(([127, 0, 0, 1], 1)),
        client_id: "c".to_owned(),
        api: ApiKey::PRODUCE,
        version: 12,
        correlation_id: 1,
        transactional_ids: Vec::new(),
        groups: Vec::new(),
        topics: Vec::new(),
        received_at: 0,
        stages: Stages::default(),
        request: TracedFrame { bytes: Bytes::from(vec![0; size]), size },
        response: None,
        ending: Ending::Answered,
        errors: Vec::new(),
        verdicts: Vec::new(),
        more_verdicts: 0,
    }
}

fn seqs(rings: &Rings, after: u64) -> Vec<u64> {
    rings.after(after).map(|exchange| exchange.seq).collect()
}

#[test]
fn each_connection_keeps_its_last_exchanges() {
    let mut rings = Rings::new(2, 1 << 20);
    rings.push(exchange(1, 10));
    for _ in 0..4 {
        rings.push(exchange(2, 10));
    }
    assert_eq!(seqs(&rings, 0), [1, 4, 5]);
    assert_eq!(seqs(&rings, 4), [5]);
    rings.set_ring(1);
    assert_eq!(seqs(&rings, 0), [1, 5]);
    rings.clear();
    assert_eq!((rings.len(), rings.bytes(), rings.last_seq()), (0, 0, 5));
    rings.push(exchange(1, 10));
    assert_eq!(seqs(&rings, 0), [6]);
}

#[test]
fn many_connections_stay_within_the_bound_and_the_oldest_exchange_is_dropped_first() {
    let limit = 100_000;
    let mut rings = Rings::new(100, limit);
    for connection in 0..5_000 {
        rings.push(exchange(connection, 1_000));
        assert!(rings.bytes() <= limit);
    }
    let kept = seqs(&rings, 0);
    assert_eq!(kept.last(), Some(&5_000));
    assert!(kept.len() > 50 && kept.windows(2).all(|pair| pair[1] == pair[0] + 1), "{kept:?}");
    rings.push(exchange(1, 2 * limit));
    assert_eq!((rings.len(), rings.bytes()), (0, 0), "one that is larger than the bound is not kept");
}

/// The frame of a request after masking.
fn masked_request<M: Request>(request: &M, version: i16) -> (Bytes, BytesMut) {
    let sent = frame::request(1, None, request, version).unwrap().to_bytes();
    let mut masked = BytesMut::from(&sent[..]);
    secrets::mask(&mut masked, M::KEY, version, Direction::Request);
    (sent, masked)
}

fn masked_response<M: Response>(response: &M, version: i16) -> (Bytes, BytesMut) {
    let sent = frame::response(1, response, version).unwrap().to_bytes();
    let mut masked = BytesMut::from(&sent[..]);
    secrets::mask(&mut masked, M::KEY, version, Direction::Response);
    (sent, masked)
}

/// Asserts that the secret, which is `secret` in these tests, was overwritten this many times, and nothing else.
fn only_secrets_are_gone((sent, masked): (Bytes, BytesMut), times: usize) {
    let text = String::from_utf8_lossy(&sent).into_owned();
    assert_eq!(text.matches("secret").count(), times);
    let differ = |(at, byte): (usize, &u8)| (masked[at] != *byte).then_some(masked[at]);
    let changed: Vec<u8> = sent.iter().enumerate().filter_map(differ).collect();
    assert_eq!(changed, b"******".repeat(times));
    assert!(!String::from_utf8_lossy(&masked).contains("secret"));
}

#[test]
fn secrets_are_masked_in_every_version() {
    let secret = || Bytes::from_static(b"secret");
    let upsertion = ScramCredentialUpsertion {
        name: "bob".into(),
        salt: secret(),
        salted_password: secret(),
        ..Default::default()
    };
    let scram = AlterUserScramCredentialsRequest { upsertions: vec![upsertion], ..Default::default() };
    only_secrets_are_gone(masked_request(&scram, 0), 2);
    for version in RenewDelegationTokenRequest::VERSIONS.iter() {
        let renew = RenewDelegationTokenRequest { hmac: secret(), ..Default::default() };
        only_secrets_are_gone(masked_request(&renew, version), 1);
        let expire = ExpireDelegationTokenRequest { hmac: secret(), ..Default::default() };
        only_secrets_are_gone(masked_request(&expire, version), 1);
    }
    for version in SaslAuthenticateResponse::VERSIONS.iter() {
        let response = SaslAuthenticateResponse { auth_bytes: secret(), ..Default::default() };
        only_secrets_are_gone(masked_response(&response, version), 1);
    }
    for version in CreateDelegationTokenResponse::VERSIONS.iter() {
        let response = CreateDelegationTokenResponse { hmac: secret(), ..Default::default() };
        only_secrets_are_gone(masked_response(&response, version), 1);
        let token = DescribedDelegationToken { hmac: secret(), ..Default::default() };
        let tokens = DescribeDelegationTokenResponse { tokens: vec![token], ..Default::default() };
        only_secrets_are_gone(masked_response(&tokens, version), 1);
    }
}

#[test]
fn bytes_that_cannot_be_decoded_count_as_secret() {
    let (sent, _) = masked_request(&RenewDelegationTokenRequest::default(), 2);
    let mut torn = BytesMut::from(&[&sent[..sent.len() - 10], b"\xff\xff\xff\xff\xff secret"].concat()[..]);
    secrets::mask(&mut torn, ApiKey::RENEW_DELEGATION_TOKEN, 2, Direction::Request);
    assert!(!String::from_utf8_lossy(&torn).contains("secret"), "{torn:?}");
}

#[test]
fn pending_exchanges_are_bounded_and_those_that_do_not_fit_are_counted() {
    let trace = Trace::new(16 * PENDING_OVERHEAD);
    trace.start(100);
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let whole = frame::request(1, None, &HeartbeatRequest::default(), 4).unwrap().to_bytes();
    let request = whole.slice(4..);
    let mut recordings = Vec::new();
    for connection in 0..1000 {
        let arrival = Arrival { connection, peer, at: Instant::now() };
        recordings.extend(trace.record(arrival, &request));
        let usage = trace.usage();
        assert!(usage.under_way <= usage.limit / 4);
    }
    assert_eq!((recordings.len() as u64 + trace.usage().missed, trace.usage().exchanges), (1000, 0));
    assert!(recordings.len() > 1);
    for mut recording in recordings {
        let large = Bytes::from(vec![0; 1 << 20]);
        recording.response(&[large]);
        recording.written();
        let usage = trace.usage();
        assert!(usage.bytes + usage.under_way <= usage.limit, "{usage:?}");
    }
    assert_eq!(trace.usage().under_way, 0);
    let kept = trace.snapshot(&TraceFilter::default());
    assert!(kept.iter().all(|one| one.response.as_ref().is_some_and(|frame| frame.size == 1 << 20)));
    assert!(kept.iter().all(|one| one.ending == Ending::Answered));
}
