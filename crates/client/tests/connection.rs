//! Connections to peers that violate the protocol: a scripted peer on a socket replaces the broker.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

use bytes::{Bytes, BytesMut};
use ottla_client::{Client, ClientError, Node, Options};
use ottla_wire::messages::api_versions_response::ApiVersion;
use ottla_wire::messages::metadata_response::MetadataResponseBroker;
use ottla_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, ListGroupsRequest, ListGroupsResponse, MetadataResponse,
};
use ottla_wire::{ApiKey, ErrorCode, Request, Response, frame};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Reads one request: its key, version and correlation id.
async fn request(socket: &mut TcpStream) -> Option<(ApiKey, i16, i32)> {
    let size = socket.read_i32().await.ok()?;
    let mut bytes = BytesMut::zeroed(size as usize);
    socket.read_exact(&mut bytes).await.ok()?;
    let (header, _) = frame::read_request_header(&bytes.freeze()).unwrap();
    Some((header.api_key, header.api_version, header.correlation_id))
}

async fn answer<R: Response>(socket: &mut TcpStream, id: i32, response: &R, version: i16) {
    let bytes = frame::response(id, response, version).unwrap().to_bytes();
    socket.write_all(&bytes).await.unwrap();
}

fn serves(rows: &[(ApiKey, i16, i16)]) -> ApiVersionsResponse {
    let row = |(key, min, max): &(ApiKey, i16, i16)| ApiVersion {
        api_key: key.0,
        min_version: *min,
        max_version: *max,
        ..Default::default()
    };
    ApiVersionsResponse { api_keys: rows.iter().map(row).collect(), ..Default::default() }
}

async fn connect(listener: &TcpListener) -> Result<Client, ClientError> {
    connect_within(listener, Duration::from_secs(20)).await
}

async fn connect_within(listener: &TcpListener, request_timeout: Duration) -> Result<Client, ClientError> {
    let options = Options { request_timeout, patience: request_timeout, ..Default::default() };
    Client::connect_with(&listener.local_addr().unwrap().to_string(), options).await
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

#[tokio::test]
async fn an_older_broker_is_asked_again_in_a_version_it_has() {
    let listener = listener().await;
    let peer = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (_, version, id) = request(&mut socket).await.unwrap();
        let mut refusal = serves(&[(ApiKey::API_VERSIONS, 0, 2)]);
        refusal.error_code = ErrorCode::UNSUPPORTED_VERSION.0;
        answer(&mut socket, id, &refusal, 0).await;
        let (key, second, id) = request(&mut socket).await.unwrap();
        answer(&mut socket, id, &serves(&[(ApiKey::API_VERSIONS, 0, 2)]), 2).await;
        (socket, version, key, second)
    };
    let (client, (_socket, first, key, second)) = tokio::join!(connect(&listener), peer);
    assert!(first > 2);
    assert_eq!((key, second), (ApiKey::API_VERSIONS, 2));
    let refused = client.unwrap().call(Node::Any, ListGroupsRequest::default()).await.unwrap_err();
    let ClientError::Unsupported { api, theirs, .. } = &refused else { panic!("{refused}") };
    assert_eq!((*api, theirs.is_empty()), ("ListGroups", true));
}

#[tokio::test]
async fn pipelined_answers_find_their_callers_in_any_order() {
    let listener = listener().await;
    let peer = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (_, version, id) = request(&mut socket).await.unwrap();
        let rows = [(ApiKey::API_VERSIONS, 0, 4), (ApiKey::LIST_GROUPS, 0, 4)];
        answer(&mut socket, id, &serves(&rows), version.min(4)).await;
        let (_, version, first) = request(&mut socket).await.unwrap();
        let (_, _, second) = request(&mut socket).await.unwrap();
        for (id, code) in [(second, 2), (first, 1)] {
            let response = ListGroupsResponse { error_code: code, ..Default::default() };
            answer(&mut socket, id, &response, version).await;
        }
        version
    };
    let calls = async {
        let client = connect(&listener).await.unwrap();
        let call = || client.call(Node::Any, ListGroupsRequest::default());
        let (first, second) = tokio::join!(call(), call());
        (first.unwrap().error_code, second.unwrap().error_code)
    };
    let (version, codes) = tokio::join!(peer, calls);
    assert_eq!(version, 4, "the newest version that both have");
    assert_eq!(codes, (1, 2));
}

#[tokio::test]
async fn a_silent_broker_is_a_timeout_that_names_what_was_waited_for_and_is_left() {
    let listener = listener().await;
    let greet = async || {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (_, version, id) = request(&mut socket).await.unwrap();
        answer(&mut socket, id, &serves(&[(ApiKey::LIST_GROUPS, 0, 4)]), version).await;
        socket
    };
    let peer = async {
        let silent = greet().await;
        let mut speaks = greet().await;
        let (_, version, id) = request(&mut speaks).await.unwrap();
        answer(&mut speaks, id, &ListGroupsResponse::default(), version).await;
        (silent, speaks)
    };
    let calls = async {
        let client = connect_within(&listener, Duration::from_secs(2)).await.unwrap();
        let call = || client.call(Node::Any, ListGroupsRequest::default());
        (call().await, call().await)
    };
    let (_sockets, (waited, served)) = tokio::join!(peer, calls);
    let waited = waited.unwrap_err();
    assert!(matches!(waited, ClientError::Timeout { .. }), "{waited}");
    assert!(waited.to_string().contains("the answer to ListGroups from 127.0.0.1"), "{waited}");
    served.unwrap();
}

#[tokio::test]
async fn a_closed_connection_fails_every_call_and_is_opened_again_by_the_next() {
    let listener = listener().await;
    let greet = async |serve: bool| {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (_, version, id) = request(&mut socket).await.unwrap();
        answer(&mut socket, id, &serves(&[(ApiKey::LIST_GROUPS, 0, 4)]), version).await;
        let (_, version, id) = request(&mut socket).await.unwrap();
        if serve {
            answer(&mut socket, id, &ListGroupsResponse::default(), version).await;
        }
        drop(socket);
    };
    let calls = async {
        let client = connect(&listener).await.unwrap();
        let call = || client.call(Node::Any, ListGroupsRequest::default());
        (call().await, call().await)
    };
    let peer = async {
        greet(false).await;
        greet(true).await;
    };
    let ((lost, served), ()) = tokio::join!(calls, peer);
    assert!(matches!(lost, Err(ClientError::ConnectionLost { .. })), "{lost:?}");
    served.unwrap();
}

#[tokio::test]
async fn an_advertised_address_that_cannot_be_reached_is_named_as_such() {
    let listener = listener().await;
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let peer = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (_, version, id) = request(&mut socket).await.unwrap();
        answer(&mut socket, id, &serves(&[(ApiKey::METADATA, 0, 9)]), version).await;
        let (_, version, id) = request(&mut socket).await.unwrap();
        let broker = MetadataResponseBroker {
            node_id: 7,
            host: "127.0.0.1".into(),
            port: unused.port().into(),
            ..Default::default()
        };
        answer(&mut socket, id, &MetadataResponse { brokers: vec![broker], ..Default::default() }, version)
            .await;
        socket
    };
    let calls = async {
        let client = connect(&listener).await.unwrap();
        let nodes = client.brokers().await.unwrap();
        client.call(nodes[0], ListGroupsRequest::default()).await.unwrap_err()
    };
    let (_socket, failed) = tokio::join!(peer, calls);
    assert!(failed.to_string().contains("where broker 7 says it is"), "{failed}");
}

#[tokio::test]
async fn garbage_is_malformed_or_a_lost_connection_but_never_a_panic() {
    let bodies: [&[u8]; 4] =
        [b"\0\0\0\x02ab", b"\xff\xff\xff\xff", b"\0\0\0\x08\0\0\0\0\x12\x34\x56\x78", b"HTTP/1.1 400\r\n"];
    for body in bodies {
        let listener = listener().await;
        let peer = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            request(&mut socket).await.unwrap();
            socket.write_all(&Bytes::from_static(body)).await.unwrap();
            socket
        };
        let (_socket, client) = tokio::join!(peer, connect(&listener));
        let failed = client.err().unwrap();
        assert!(matches!(failed, ClientError::Unreachable { .. }), "{failed}");
    }
    assert_eq!(ApiVersionsRequest::KEY, ApiKey::API_VERSIONS);
}

#[tokio::test]
async fn unused_at_the_address_is_unreachable() {
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let failed = Client::connect(&unused.to_string()).await.err().unwrap();
    assert!(matches!(failed, ClientError::Unreachable { .. }), "{failed}");
    assert!(failed.to_string().contains(&unused.to_string()), "{failed}");
}
