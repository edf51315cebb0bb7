//! What is said on a connection, whatever happened to it on its way into the capture.

use crate::support::{
    CaptureResult, SECOND, blocks, capture, connection, packets, pcap, ping, pong, read, read_with, request,
    response,
};
use bytes::Bytes;
use ottla_microscope::capture::{PcapngWriter, Settings};
use ottla_microscope::conversation::{Conversation, Event, Kind, LARGEST_FRAME, Notice, Time};
use ottla_wire::messages::metadata_response::MetadataResponseTopic;
use ottla_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse, ProduceRequest,
    SaslHandshakeRequest, SaslHandshakeResponse,
};
use ottla_wire::tables::Direction::{self, Request, Response};
use ottla_wire::{ApiKey, Text, Uuid};
use proptest::prelude::*;

/// Bytes straight into a conversation.
fn talk(from_the_start: bool, said: &[(Direction, &[u8])]) -> CaptureResult {
    let mut result = CaptureResult::default();
    let mut conversation = Conversation::new(connection(1), from_the_start, LARGEST_FRAME);
    let mut sink = |connection: &_, time, event| result.events.push((*connection, time, event));
    for (number, (direction, data)) in said.iter().enumerate() {
        conversation.data(*direction, Time(number as i64), data, &mut sink);
    }
    conversation.finish(Time(1_000), &mut sink);
    result
}

fn framed(content: &[u8]) -> Bytes {
    [&(content.len() as u32).to_be_bytes()[..], content].concat().into()
}

fn pings(count: i32) -> Vec<(Direction, Bytes)> {
    (1..=count).flat_map(|id| [(Request, ping(id)), (Response, pong(id))]).collect()
}

/// The file without some of its packets, by number: 0 to 2 are the handshake.
fn without(file: &[u8], lost: &[usize]) -> Vec<u8> {
    let keep = |number: &usize| *number < 2 || !lost.contains(&(number - 2));
    let all = blocks(file);
    (0..all.len()).filter(keep).flat_map(|number| all[number].clone()).collect()
}

#[test]
fn a_stream_split_at_every_byte() {
    let all = [ping(1), ping(2), ping(3)].concat();
    for at in 0..=all.len() {
        let result = talk(true, &[(Request, &all[..at]), (Request, &all[at..])]);
        assert_eq!(result.bytes(Request), [ping(1), ping(2), ping(3)]);
    }
    let bytes: Vec<_> = all.chunks(1).map(|byte| (Request, byte)).collect();
    assert_eq!(talk(true, &bytes).bytes(Request), [ping(1), ping(2), ping(3)]);
}

#[test]
fn responses_find_their_requests_in_any_order_with_latency() {
    let said = [
        (Request, ping(1)),
        (Request, ping(2)),
        (Response, pong(2)),
        (Response, pong(1)),
        (Response, pong(9)),
        (Request, ping(3)),
    ];
    let result = read(&capture(&said));
    let frames = result.frames();
    let heads: Vec<_> = frames.iter().map(|f| f.head.as_ref().map(|head| head.correlation_id)).collect();
    assert_eq!(heads, [Some(1), Some(2), Some(2), Some(1), Some(3), None]);
    assert_eq!(frames[3].latency.unwrap().as_nanos(), 3_000);
    assert_eq!(frames[3].head.as_ref().unwrap().client_id.as_ref().unwrap().as_str(), "me");
    assert_eq!((frames[3].head.as_ref().unwrap().key, frames[5].kind), (ApiKey::HEARTBEAT, Kind::Orphan));
    assert_eq!(result.notices(), [Notice::Unanswered { requests: 1 }]);
}

#[test]
fn a_response_captured_before_its_request_is_still_tied_to_it() {
    let result = talk(true, &[(Response, &pong(1)), (Request, &ping(1))]);
    assert_eq!(result.frames()[1].kind, Kind::Message);
    assert_eq!(result.frames()[1].latency.unwrap().as_nanos(), 0);
}

#[test]
fn a_lost_packet_costs_its_frame_and_no_other() {
    // One frame in three packets; the middle one is lost, then the first.
    let member_id = Text::from("m".repeat(30_000));
    let big = request(&ottla_wire::messages::HeartbeatRequest { member_id, ..Default::default() }, 4, 7);
    let mut writer = PcapngWriter::new();
    let mut file = writer.header();
    file.extend(writer.open(&connection(1), Time(SECOND)));
    let mut say = |direction, bytes: &[u8]| {
        file.extend(writer.data(&connection(1), direction, Time(SECOND), bytes));
    };
    say(Request, &ping(1));
    say(Response, &pong(1));
    big.chunks(12_000).for_each(|part| say(Request, part));
    say(Response, &pong(7));
    say(Request, &ping(8));
    say(Response, &pong(8));
    file.extend(writer.close(&connection(1), Time(SECOND)));

    let middle = read(&without(&file, &[6]));
    let size = big.len() as u64;
    let [Notice::Lost { bytes: 12_000 }, Notice::Broken { size: said, head: Some(head) }] =
        &middle.notices()[..]
    else {
        panic!("{:?}", middle.notices())
    };
    assert_eq!((*said, head.correlation_id), (size, 7));
    assert_eq!(middle.bytes(Request), [ping(1), ping(8)]);
    assert_eq!(middle.bytes(Response), [pong(1), pong(7), pong(8)]);
    assert!(middle.frames().iter().all(|frame| frame.kind == Kind::Message));

    let first = read(&without(&file, &[5]));
    let skipped = size - 12_000;
    assert_eq!(
        first.notices()[..2],
        [Notice::Lost { bytes: 12_000 }, Notice::Skipped { bytes: skipped, found: true }]
    );
    assert_eq!(first.bytes(Request), [ping(1), ping(8)]);

    let last = read(&without(&file, &[10, 12, 13, 14, 11]));
    assert_eq!(last.bytes(Response), [pong(1), pong(7)], "{:?}", last.notices());
}

#[test]
fn a_capture_that_begins_in_the_middle() {
    let file = capture(&pings(6));
    for settings in [Settings::default(), Settings { port: Some(9092), ..Settings::default() }] {
        for lost in 3..7 {
            let lost: Vec<usize> = (0..lost).collect();
            let result = read_with(settings.clone(), &without(&file, &lost), 100);
            let from = (lost.len() as i32 - 3 + 1) / 2 + 1;
            let asked: Vec<_> = (from..=6).map(ping).collect();
            let answered: Vec<_> = (from..=6).map(pong).collect();
            assert_eq!(result.bytes(Request), asked, "{lost:?}");
            assert_eq!(result.bytes(Response), answered, "{lost:?}");
            assert_eq!(result.events[0].0, connection(1));
        }
    }
}

#[test]
fn a_capture_that_begins_inside_a_frame_says_what_it_skips() {
    let all = [&ping(1)[9..], &ping(2), &ping(3)].concat();
    let result = talk(false, &[(Request, &all), (Response, &pong(1)[3..]), (Response, &pong(2))]);
    assert_eq!(result.bytes(Request), [ping(2), ping(3)]);
    assert_eq!(result.bytes(Response), [pong(2)]);
    let skipped =
        |bytes: &Bytes, at: usize| Notice::Skipped { bytes: (bytes.len() - at) as u64, found: true };
    assert_eq!(result.notices()[..2], [skipped(&ping(1), 9), skipped(&pong(1), 3)]);
}

#[test]
fn a_port_pair_that_is_used_again_is_another_connection() {
    let one = capture(&pings(2));
    let two = packets(&capture(&[(Request, ping(8)), (Response, pong(8))]));
    let again: Vec<_> = two
        .into_iter()
        .map(|(time, mut bytes)| {
            // Both sequence numbers elsewhere; the checksum is not looked at.
            bytes[14 + 20 + 4] ^= 0x55;
            bytes[14 + 20 + 8] ^= 0x55;
            (time, bytes)
        })
        .collect();
    let mut packets = packets(&one);
    packets.truncate(6);
    packets.extend(again);
    let result = read(&pcap(&packets, 1, false, true));
    let opened = result.events.iter().filter(|(_, _, event)| matches!(event, Event::Opened)).count();
    assert_eq!(opened, 2);
    assert_eq!(result.bytes(Request), [ping(1), ping(2), ping(8)]);
    assert_eq!(result.frames().last().unwrap().bytes, pong(8));
}

#[test]
fn produce_without_acks_has_no_answer() {
    for version in 3..=12 {
        let quiet = request(&ProduceRequest { acks: 0, ..Default::default() }, version, 1);
        let result = talk(true, &[(Request, &quiet), (Request, &ping(2)), (Response, &pong(2))]);
        let answered: Vec<bool> = result.frames().iter().map(|frame| frame.is_answered).collect();
        assert_eq!((answered, result.notices()), (vec![false, true, false], vec![]));
    }
}

#[test]
fn tokens_without_header_are_not_read_as_requests() {
    let handshake =
        request(&SaslHandshakeRequest { mechanism: Text::from_static("PLAIN"), ..Default::default() }, 0, 1);
    let agreed = response(&SaslHandshakeResponse::default(), 0, 1);
    let token = framed(b"\0user\0secret");
    let said: [(Direction, &[u8]); 6] = [
        (Request, &handshake),
        (Response, &agreed),
        (Request, &token),
        (Response, &framed(b"")),
        (Request, &ping(2)),
        (Response, &pong(2)),
    ];
    let kinds = |result: &CaptureResult| result.frames().iter().map(|frame| frame.kind).collect::<Vec<_>>();
    use Kind::{Message, Token};
    assert_eq!(kinds(&talk(true, &said)), [Message, Message, Token, Token, Message, Message]);
    let handshake =
        request(&SaslHandshakeRequest { mechanism: Text::from_static("PLAIN"), ..Default::default() }, 1, 1);
    let ordinary: [(Direction, &[u8]); 2] = [(Request, &handshake), (Request, &token)];
    assert_ne!(kinds(&talk(true, &ordinary))[1], Token);
}

#[test]
fn unknown_apis_and_versions_are_said_and_passed() {
    let unknown = framed(b"\x03\xe8\0\x02\0\0\0\x2a");
    let future = framed(b"\0\x0c\0\x63\0\0\0\x2b\xff\xff");
    let answer = framed(b"\0\0\0\x2a whatever");
    let result = talk(
        true,
        &[
            (Request, &unknown),
            (Request, &future),
            (Response, &answer),
            (Request, &ping(3)),
            (Response, &pong(3)),
        ],
    );
    let kinds: Vec<Kind> = result.frames().iter().map(|frame| frame.kind).collect();
    assert_eq!(kinds, [Kind::Unknown, Kind::Unknown, Kind::Unknown, Kind::Message, Kind::Message]);
    assert_eq!(result.frames()[2].head.as_ref().unwrap().key, ApiKey(1000));
}

#[test]
fn the_answer_to_a_future_api_versions_is_version_0() {
    let mut future = request(&ApiVersionsRequest::default(), 3, 1).to_vec();
    future[7] = 9;
    let refused = ApiVersionsResponse { error_code: 35, ..Default::default() };
    let answer = response(&refused, 0, 1);
    let known = request(&ApiVersionsRequest::default(), 3, 2);
    let answer_2 = response(&refused, 0, 2);
    let result =
        talk(true, &[(Request, &future), (Response, &answer), (Request, &known), (Response, &answer_2)]);
    for number in [1, 3] {
        let frame = result.frames()[number];
        assert_eq!((frame.kind, frame.head.as_ref().unwrap().version), (Kind::Message, 0));
        let tree = frame.explain(ottla_wire::tables::TableSet::built_in(), &Default::default()).unwrap();
        assert_eq!(tree.faults().len(), 0);
    }
}

#[test]
fn tls_and_foreign_traffic_are_left_alone() {
    let tls = [(Request, Bytes::from_static(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"))];
    assert_eq!(read(&capture(&tls)).notices(), [Notice::Tls]);
    assert_eq!(read(&without(&capture(&tls), &[0, 1, 2])).notices(), [Notice::Guessed, Notice::Tls]);
    let line = b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n".repeat(1_000);
    let many: Vec<(Direction, &[u8])> = (0..100).map(|_| (Request, &line[..])).collect();
    let result = talk(true, &many);
    assert_eq!((result.notices(), result.frames().len()), (vec![Notice::NotKafka], 0));
    let few = talk(true, &many[..1]);
    assert_eq!(few.notices(), [Notice::Skipped { bytes: line.len() as u64, found: false }]);
}

#[test]
fn a_frame_above_the_limit_is_passed_over() {
    let (mut events, connection) = (Vec::new(), connection(1));
    let mut conversation = Conversation::new(connection, true, 1_000);
    let member_id = Text::from("m".repeat(5_000));
    let big = request(&ottla_wire::messages::HeartbeatRequest { member_id, ..Default::default() }, 4, 7);
    let all = [&big[..], &ping(8)].concat();
    for part in all.chunks(100) {
        conversation.data(Request, Time(0), part, &mut |_, _, event| events.push(event));
    }
    conversation.data(Response, Time(0), &[pong(7), pong(8)].concat(), &mut |_, _, event| events.push(event));
    let [
        Event::Notice(Request, Notice::TooLarge { size, head }),
        Event::Frame(next),
        Event::Frame(a),
        Event::Frame(b),
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((*size, head.as_ref().unwrap().correlation_id), (big.len() as u64, 7));
    assert_eq!((&next.bytes, &a.bytes, &b.bytes), (&ping(8), &pong(7), &pong(8)));
}

#[test]
fn names_of_topics_are_learned_from_metadata() {
    let topic = MetadataResponseTopic {
        name: Some(Text::from_static("orders")),
        topic_id: Uuid([7; 16]),
        ..Default::default()
    };
    let answer = MetadataResponse { topics: vec![topic], ..Default::default() };
    let said = [(Request, request(&MetadataRequest::default(), 12, 1)), (Response, response(&answer, 12, 1))];
    assert_eq!(read(&capture(&said)).topics, 1);
}

#[test]
fn other_ports_are_counted_when_a_port_is_asked_for() {
    let result = read_with(Settings { port: Some(1), ..Settings::default() }, &capture(&pings(1)), 64);
    assert_eq!((result.events.len(), result.end.unwrap().unwrap().other_ports), (0, 8));
}

proptest! {
    /// Within a window packets come in any order, some of them twice, and the conversation is the same.
    #[test]
    fn any_order_within_a_window_tells_the_same(
        keys in prop::collection::vec(0_usize..12, 40), twice in prop::collection::vec(any::<bool>(), 40),
    ) {
        let said = pings(12);
        let file = capture(&said);
        let all = blocks(&file);
        let (head, rest) = all.split_at(2 + 3);
        let mut order: Vec<(usize, &Vec<u8>)> = Vec::new();
        for (number, block) in rest.iter().enumerate() {
            order.push((number + keys[number % keys.len()], block));
            if twice[number % twice.len()] {
                order.push((number + keys[(number + 7) % keys.len()], block));
            }
        }
        order.sort_by_key(|(key, _)| *key);
        let shuffled: Vec<u8> =
            head.iter().chain(order.into_iter().map(|(_, block)| block)).flatten().copied().collect();
        let result = read(&shuffled);
        prop_assert_eq!(result.bytes(Request), (1..=12).map(ping).collect::<Vec<_>>());
        let mut answers = result.bytes(Response);
        answers.sort();
        let mut expected = (1..=12).map(pong).collect::<Vec<_>>();
        expected.sort();
        prop_assert_eq!(answers, expected);
        prop_assert!(result.frames().iter().all(|frame| frame.kind == Kind::Message));
        prop_assert_eq!(result.notices(), vec![]);
    }
}
