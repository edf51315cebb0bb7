//! Values that the codec refuses or keeps: nulls, absent fields, tags, strings.

use bytes::Bytes;
use ottla_wire::messages::fetch_request::FetchTopic;
use ottla_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, BrokerHeartbeatRequest, FetchRequest, FetchResponse,
    JoinGroupRequest, MetadataRequest, ProduceRequest, SaslHandshakeRequest,
};
use ottla_wire::{
    ApiKey, DecodeProblem, EncodeProblem, ErrorCode, Message, Numbers, Reader, Records, Text, Uuid, Versions,
    frame, request_header_version, response_header_version,
};

fn decode<M: Message>(bytes: &[u8], version: i16) -> Result<M, DecodeProblem> {
    M::decode(&mut Reader::new(Bytes::copy_from_slice(bytes)), version).map_err(|why| why.problem())
}

fn encode<M: Message>(message: &M, version: i16) -> Result<Bytes, EncodeProblem> {
    message.to_bytes(version).map_err(|why| why.problem())
}

#[test]
fn a_value_without_room_is_refused_unless_ignorable() {
    // SkipAssignment came with JoinGroup's response; Reason is ignorable, GroupInstanceId is not.
    let mut request = JoinGroupRequest { reason: Some("x".into()), ..Default::default() };
    assert!(encode(&request, 0).is_ok());
    request.group_instance_id = Some("static".into());
    assert_eq!(encode(&request, 4), Err(EncodeProblem::Absent(4)));
    assert!(encode(&request, 5).is_ok());
    let why = request.to_bytes(4).unwrap_err();
    assert_eq!((why.message(), why.field()), ("JoinGroupRequest", "GroupInstanceId"));
}

#[test]
fn an_absent_field_has_its_default() {
    let old = JoinGroupRequest::default().to_bytes(0).unwrap();
    let read: JoinGroupRequest = decode(&old, 0).unwrap();
    assert_eq!(read.rebalance_timeout_ms, -1);
    let request = FetchRequest::default();
    assert_eq!((request.max_bytes, request.session_epoch), (i32::MAX, -1));
    assert!(request.topics.is_empty());
}

#[test]
fn null_only_where_the_version_allows_it() {
    let all = MetadataRequest { topics: None, ..Default::default() };
    assert_eq!(encode(&all, 0), Err(EncodeProblem::Null(0)));
    assert_eq!(encode(&all, 1).unwrap(), [0xff; 4][..]);
    assert_eq!(decode::<MetadataRequest>(&[0xff; 4], 0), Err(DecodeProblem::Null));
    assert_eq!(decode::<MetadataRequest>(&[0xff; 4], 1).unwrap().topics, None);
    // A length below -1 is malformed.
    let malformed = decode::<MetadataRequest>(&[0xff, 0xff, 0xff, 0xfe], 1);
    assert_eq!(malformed, Err(DecodeProblem::NegativeLength(-2)));
}

#[test]
fn a_version_that_is_not_there_is_refused_both_ways() {
    let valid = Versions::new(3, 13);
    assert_eq!(ProduceRequest::VERSIONS, valid);
    let refused = EncodeProblem::Version { version: 14, valid };
    assert_eq!(encode(&ProduceRequest::default(), 14), Err(refused));
    assert_eq!(decode::<ProduceRequest>(&[], 2), Err(DecodeProblem::Version { version: 2, valid }));
}

#[test]
fn strings_end_at_32767_bytes_and_are_utf_8() {
    let at_most = "x".repeat(32767);
    let mut request =
        ApiVersionsRequest { client_software_name: at_most.clone().into(), ..Default::default() };
    let bytes = encode(&request, 3).unwrap();
    assert_eq!(decode::<ApiVersionsRequest>(&bytes, 3).unwrap(), request);
    request.client_software_name = format!("{at_most}x").into();
    assert_eq!(encode(&request, 3), Err(EncodeProblem::TooLong(32768)));
    let handshake =
        SaslHandshakeRequest { mechanism: request.client_software_name.clone(), ..Default::default() };
    assert_eq!(encode(&handshake, 0), Err(EncodeProblem::TooLong(32768)));
    // The length 32768, compact, is 32769.
    let long = [&[0x81, 0x80, 0x02][..], &[b'x'; 32768], &[1, 0]].concat();
    assert_eq!(decode::<ApiVersionsRequest>(&long, 3), Err(DecodeProblem::LongString(32768)));
    assert_eq!(decode::<SaslHandshakeRequest>(&[0, 1, 0xff], 0), Err(DecodeProblem::NotUtf8));
}

#[test]
fn over_long_numbers_are_read_and_never_ending_ones_are_not() {
    let request = decode::<ApiVersionsRequest>(&[0x82, 0x80, 0, b'a', 1, 0], 3).unwrap();
    assert_eq!(request.client_software_name, "a");
    assert_eq!(decode::<ApiVersionsRequest>(&[0xff; 6], 3), Err(DecodeProblem::Varint));
}

#[test]
fn unknown_tags_are_kept_in_order_among_known_ones() {
    // FetchRequest version 12 knows tag 0 (ClusterId); here it stands before the unknown tags 3 and 200.
    let mut request = FetchRequest { cluster_id: Some("c".into()), replica_id: 1, ..Default::default() };
    request.unknown_tags.push(3, Bytes::from_static(b"three"));
    request.unknown_tags.push(200, Bytes::from(vec![7; 150]));
    let bytes = encode(&request, 12).unwrap();
    assert_eq!(decode::<FetchRequest>(&bytes, 12).unwrap(), request);
    // ClusterId is ignorable, unknown tags are not.
    assert_eq!(encode(&request, 11), Err(EncodeProblem::NoTags(11)));
    request.unknown_tags.push(200, Bytes::new());
    assert_eq!(encode(&request, 12), Err(EncodeProblem::Tag(200)));
    let mut known = FetchRequest::default();
    known.unknown_tags.push(0, Bytes::new());
    assert_eq!(encode(&known, 12), Err(EncodeProblem::Tag(0)));
    // Tag 1 is a field of version 2; in version 1 reading refuses it, so it must not be written either.
    let mut later = BrokerHeartbeatRequest::default();
    later.unknown_tags.push(1, Bytes::new());
    assert_eq!(encode(&later, 1), Err(EncodeProblem::Tag(1)));
}

#[test]
fn a_tagged_field_of_128_bytes_and_more_moves_what_follows() {
    for length in [0, 124, 125, 126, 127, 128, 129, 16_380, 16_390] {
        let request = FetchRequest { cluster_id: Some("c".repeat(length).into()), ..Default::default() };
        let bytes = encode(&request, 12).unwrap();
        assert_eq!(decode::<FetchRequest>(&bytes, 12).unwrap(), request, "{length}");
    }
}

#[test]
fn tags_are_checked_against_their_size_order_and_version() {
    let body = |section: &[u8]| {
        let plain = encode(&ApiVersionsResponse::default(), 3).unwrap();
        [&plain[..plain.len() - 1], section].concat()
    };
    let read = |section: &[u8]| decode::<ApiVersionsResponse>(&body(section), 3);
    // Tag 1 is FinalizedFeaturesEpoch, 8 bytes; tag 0 a list.
    let epoch = [1, 1, 8, 0, 0, 0, 0, 0, 0, 0, 5];
    assert_eq!(read(&epoch).unwrap().finalized_features_epoch, 5);
    let nine = [1, 1, 9, 0, 0, 0, 0, 0, 0, 0, 5, 0];
    assert_eq!(read(&nine), Err(DecodeProblem::TagSize { tag: 1, left: 1 }));
    let seven = [1, 1, 7, 0, 0, 0, 0, 0, 0, 5];
    assert_eq!(read(&seven), Err(DecodeProblem::Short { needed: 8, left: 7 }));
    let twice = [&[2][..], &epoch[1..], &epoch[1..]].concat();
    assert_eq!(read(&twice), Err(DecodeProblem::TagOrder(1, 1)));
    assert_eq!(read(&[9]), Err(DecodeProblem::Short { needed: 18, left: 0 }));
    // ReplicaState is tag 1 of FetchRequest from version 15 on.
    let old = encode(&FetchRequest::default(), 12).unwrap();
    let early = [&old[..old.len() - 1], &[1, 1, 0]].concat();
    assert_eq!(decode::<FetchRequest>(&early, 12), Err(DecodeProblem::TagVersion(12)));
}

#[test]
fn numbers_stay_in_the_frame_and_compare_by_value() {
    let ids = Numbers::from([1, -2, i32::MAX]);
    assert_eq!(ids.iter().collect::<Vec<_>>(), [1, -2, i32::MAX]);
    assert_eq!((ids.len(), ids.get(1), ids.get(3), ids.contains(1)), (3, Some(-2), None, true));
    assert_eq!(ids.as_wire()[..8], [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe]);
    assert_eq!(Numbers::from(vec![Uuid([7; 16])]).to_vec(), [Uuid([7; 16])]);
    let mut chunks = Records::from(Bytes::from_static(b"ab"));
    chunks.push(Bytes::from_static(b"c"));
    assert_eq!(chunks, Records::from(Bytes::from_static(b"abc")));
}

#[test]
fn record_chunks_pass_through_a_response_without_a_copy() {
    use ottla_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
    let blob = Bytes::from(vec![9; 5000]);
    let mut records = Records::from(blob.clone());
    records.push(Bytes::from_static(b"small"));
    records.push(blob.clone());
    let response = FetchResponse {
        responses: vec![FetchableTopicResponse {
            topic: "t".into(),
            partitions: vec![PartitionData { records: Some(records), ..Default::default() }; 2],
            ..Default::default()
        }],
        ..Default::default()
    };
    let frame = frame::response(3, &response, 12).unwrap();
    let shared = frame.chunks().iter().filter(|chunk| chunk.as_ptr() == blob.as_ptr());
    assert_eq!(shared.count(), 4);
    let whole = frame.to_bytes();
    assert_eq!((whole.len(), &whole[..4]), (frame.len(), &(frame.len() as u32 - 4).to_be_bytes()[..]));
    let (correlation_id, mut body) =
        frame::read_response_header(&whole.slice(4..), ApiKey::FETCH, 12).unwrap();
    assert_eq!(correlation_id, 3);
    assert_eq!(FetchResponse::decode(&mut body, 12).unwrap(), response);
}

#[test]
fn errors_count_bytes_from_the_size_prefix() {
    let request = MetadataRequest { topics: None, ..Default::default() };
    let whole = frame::request(1, Some(&Text::from("me")), &request, 9).unwrap().to_bytes();
    let (header, mut body) = frame::read_request_header(&whole.slice(4..whole.len() - 2)).unwrap();
    assert_eq!(header.client_id.as_deref(), Some("me"));
    let why = MetadataRequest::decode(&mut body, 9).unwrap_err();
    assert_eq!(why.offset(), whole.len() - 2);
    assert_eq!(
        why.to_string(),
        "MetadataRequest.IncludeTopicAuthorizedOperations at byte 20: bytes needed: 1, bytes left: 0"
    );
    let unknown = frame::read_request_header(&Bytes::from_static(&[0x7f, 0, 0, 0, 0, 0, 0, 0])).unwrap_err();
    assert_eq!(unknown.problem(), DecodeProblem::UnknownApi(0x7f00));
}

#[test]
fn header_versions_follow_the_api() {
    assert_eq!(request_header_version(ApiKey::API_VERSIONS, 2), Some(1));
    assert_eq!(request_header_version(ApiKey::API_VERSIONS, 3), Some(2));
    assert_eq!(request_header_version(ApiKey::API_VERSIONS, 99), Some(2));
    assert_eq!(response_header_version(ApiKey::API_VERSIONS, 4), Some(0));
    assert_eq!(request_header_version(ApiKey::SASL_HANDSHAKE, 1), Some(1));
    assert_eq!(request_header_version(ApiKey::PRODUCE, 0), Some(1));
    assert_eq!(response_header_version(ApiKey::FETCH, 12), Some(1));
    assert_eq!(request_header_version(ApiKey(7), 0), Some(0));
    assert_eq!(request_header_version(ApiKey(999), 0), None);
    assert_eq!(ApiKey::PRODUCE.to_string(), "Produce (0)");
    assert_eq!(ErrorCode::from(3), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[test]
fn a_nested_struct_checks_itself() {
    // Topic names are gone in version 13, where ids take their place; both are ignorable there, the forgotten ones too.
    let request = FetchRequest {
        topics: vec![FetchTopic { topic: "t".into(), topic_id: Uuid([1; 16]), ..Default::default() }],
        ..Default::default()
    };
    let read: FetchRequest = decode(&encode(&request, 13).unwrap(), 13).unwrap();
    assert_eq!(read.topics.first().map(|topic| topic.topic.is_empty()), Some(true));
}
