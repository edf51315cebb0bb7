//! The beginning of a connection: headers, ApiVersions, and frames that are not requests.

use crate::world::{Peer, broker, header};
use ottla_wire::messages::{ApiVersionsRequest, MetadataRequest};
use ottla_wire::{ErrorCode, Text};

/// Body of ApiVersions 3 and 4.
const SOFTWARE: &[u8] = b"\x05test\x021\x00";

/// Key, lowest and highest version, as Apache Kafka 4.4.0 shows them in ApiVersions.
const KAFKA: &[(i16, i16, i16)] = &[
    (0, 0, 13),
    (1, 4, 18),
    (2, 1, 11),
    (3, 0, 13),
    (8, 2, 10),
    (9, 1, 10),
    (10, 0, 6),
    (11, 0, 9),
    (12, 0, 4),
    (13, 0, 5),
    (14, 0, 5),
    (15, 0, 6),
    (16, 0, 5),
    (17, 0, 1),
    (18, 0, 5),
    (19, 2, 7),
    (20, 1, 6),
    (21, 0, 2),
    (22, 0, 5),
    (23, 2, 4),
    (24, 0, 5),
    (25, 0, 4),
    (26, 0, 5),
    (27, 1, 2),
    (28, 0, 6),
    (29, 1, 3),
    (30, 1, 3),
    (31, 1, 3),
    (32, 1, 4),
    (33, 0, 2),
    (34, 1, 2),
    (35, 1, 5),
    (36, 0, 2),
    (37, 0, 3),
    (42, 0, 3),
    (43, 0, 2),
    (44, 0, 1),
    (45, 0, 1),
    (46, 0, 0),
    (47, 0, 0),
    (50, 0, 0),
    (51, 0, 0),
    (55, 0, 2),
    (57, 0, 2),
    (60, 0, 2),
    (61, 0, 0),
    (64, 0, 0),
    (65, 0, 0),
    (66, 0, 2),
    (74, 0, 1),
    (75, 0, 0),
    (80, 0, 1),
    (81, 0, 0),
    (94, 0, 0),
];

fn named() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: Text::from_static("test"),
        client_software_version: Text::from_static("1.0"),
        ..Default::default()
    }
}

#[tokio::test]
async fn t_01_what_is_served_and_in_which_versions() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    for version in 0..=5 {
        let request = if version < 3 { ApiVersionsRequest::default() } else { named() };
        let response = peer.call(&request, version).await;
        assert_eq!(response.error_code, 0);
        let rows = response.api_keys.iter();
        let told: Vec<_> = rows.map(|row| (row.api_key, row.min_version, row.max_version)).collect();
        assert_eq!(told, KAFKA);
    }
}

#[tokio::test]
async fn t_03_t_04_clients_are_told_the_second_transaction_protocol() {
    let server = broker(&[]).await;
    let response = Peer::connect(&server).await.call(&named(), 3).await;
    let finalized = &response.finalized_features;
    let level = finalized.iter().find(|f| f.name == "transaction.version").map(|f| f.max_version_level);
    assert_eq!((level, response.finalized_features_epoch), (Some(2), 0));
}

#[tokio::test]
async fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    for version in [6, 99, i16::MAX] {
        peer.send_frame(&[header(18, version, Some("test"), true), b"whatever comes".to_vec()].concat())
            .await;
        let answer = peer.receive().await.unwrap();
        assert_eq!(&answer[..], b"\0\0\0\x07\0\x23\0\0\0\x01\0\x12\0\0\0\x05");
    }
    assert_eq!(peer.call(&named(), 4).await.error_code, 0, "the connection stays open");
}

#[tokio::test]
async fn a_client_that_names_itself_badly_or_looks_for_another_broker_is_told() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let nameless = ApiVersionsRequest { client_software_name: Text::default(), ..named() };
    assert_eq!(peer.call(&nameless, 3).await.error_code, ErrorCode::INVALID_REQUEST.0);
    let lost = ApiVersionsRequest { cluster_id: Some("elsewhere".into()), node_id: 1, ..named() };
    assert_eq!(peer.call(&lost, 5).await.error_code, ErrorCode::REBOOTSTRAP_REQUIRED.0);
    let half = ApiVersionsRequest { cluster_id: Some("elsewhere".into()), ..named() };
    assert_eq!(peer.call(&half, 5).await.error_code, ErrorCode::INVALID_REQUEST.0);
}

#[tokio::test]
async fn b_75_a_null_or_empty_client_id_is_fine() {
    let server = broker(&[]).await;
    for client in [None, Some("")] {
        let mut peer = Peer::connect(&server).await;
        peer.send_frame(&[&header(18, 3, client, true)[..], SOFTWARE].concat()).await;
        assert_eq!(&peer.receive().await.unwrap()[..6], b"\0\0\0\x07\0\0");
        peer.send_frame(&[&header(3, 12, client, true)[..], b"\x01\0\0\0"].concat()).await;
        assert_eq!(&peer.receive().await.unwrap()[..4], b"\0\0\0\x07");
        peer.send_frame(&[&header(3, 1, client, false)[..], b"\0\0\0\0"].concat()).await;
        assert_eq!(&peer.receive().await.unwrap()[..4], b"\0\0\0\x07");
    }
}

#[tokio::test]
async fn b_76_tags_are_read_within_bounds() {
    let server = broker(&[]).await;
    let call = |tags: &[u8]| {
        let mut head = header(18, 3, Some("test"), true);
        head.pop();
        [&head[..], tags, SOFTWARE].concat()
    };
    let mut peer = Peer::connect(&server).await;
    peer.send_frame(&call(b"\x01\xe8\x07\x03abc")).await;
    assert_eq!(&peer.receive().await.unwrap()[..6], b"\0\0\0\x07\0\0", "an unknown tag is ignored");
    let bad: [&[u8]; 4] = [
        b"\x01\xe8\x07\x80\x80\x80\x80\x08",
        b"\x80\x80\x80\x80\x08",
        b"\xff\xff\xff\xff\xff",
        b"\xff\xff\xff\xff\x0f",
    ];
    for tags in bad {
        let mut wrong = Peer::connect(&server).await;
        wrong.send_frame(&call(tags)).await;
        assert!(wrong.is_closed().await, "{tags:?}");
        assert_eq!(peer.call(&named(), 3).await.error_code, 0);
    }
}

#[tokio::test]
async fn what_is_not_a_request_closes_its_connection_only() {
    let server = broker(&[]).await;
    let mut other = Peer::connect(&server).await;
    let mut bad: Vec<Vec<u8>> = vec![
        b"GET / HT".to_vec(),
        header(999, 0, Some("x"), false),
        header(-1, 0, Some("x"), false),
        header(3, 14, Some("x"), true),
        header(3, -1, Some("x"), false),
        header(4, 0, Some("x"), false),
        header(0, 2, Some("x"), false),
        header(3, 0, Some("x"), false)[..9].to_vec(),
        [&header(3, 0, Some("\u{fffd}x"), false)[..10], b"\xff\xff\xff\xff"].concat(),
    ];
    // Counts and lengths far beyond the frame, in both encodings; half a body; null where it is not allowed.
    bad.push([&header(3, 12, Some("x"), true)[..], b"\xff\xff\xff\xff\x0f"].concat());
    bad.push([&header(3, 8, Some("x"), false)[..], b"\x7f\xff\xff\xff"].concat());
    bad.push([&header(3, 8, Some("x"), false)[..], b"\0\0\0\x01\x7f\xffabc"].concat());
    bad.push([&header(3, 8, Some("x"), false)[..], b"\0\0"].concat());
    bad.push([&header(3, 8, Some("x"), false)[..], b"\0\0\0\x01\xff\xff\0\0\0"].concat());
    for frame in bad {
        let mut peer = Peer::connect(&server).await;
        peer.send_frame(&frame).await;
        assert!(peer.is_closed().await, "{frame:?}");
        assert_eq!(other.call(&named(), 3).await.error_code, 0);
    }
}

#[tokio::test]
async fn http_on_this_port_is_closed() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    peer.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(peer.is_closed().await);
}

#[tokio::test]
async fn bytes_behind_a_body_are_ignored() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    peer.send_frame(&[&header(3, 1, Some("x"), false)[..], b"\0\0\0\0", b"more"].concat()).await;
    assert!(peer.receive().await.is_some());
    peer.call(&MetadataRequest::default(), 1).await;
}

#[tokio::test]
async fn b_77_offset_fetch_takes_null_topics_from_version_2_on() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    peer.send_frame(&[&header(9, 2, Some("x"), false)[..], b"\0\x01g\xff\xff\xff\xff"].concat()).await;
    assert_eq!(&peer.receive().await.unwrap()[..], b"\0\0\0\x07\0\0\0\0\0\0", "no offsets, no error");
    peer.send_frame(&[&header(9, 6, Some("x"), true)[..], b"\x02g\0\0"].concat()).await;
    assert_eq!(&peer.receive().await.unwrap()[..4], b"\0\0\0\x07");
    peer.send_frame(&[&header(9, 1, Some("x"), false)[..], b"\0\x01g\xff\xff\xff\xff"].concat()).await;
    assert!(peer.is_closed().await, "version 1 has no null");
}

#[tokio::test]
async fn b_78_null_where_a_string_is_due_closes_the_connection() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let body = b"\0\x01g\0\0\0\0\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0";
    peer.send_frame(&[&header(8, 2, Some("x"), false)[..], body].concat()).await;
    assert!(peer.is_closed().await);
    assert_eq!(Peer::connect(&server).await.call(&named(), 3).await.error_code, 0);
}
