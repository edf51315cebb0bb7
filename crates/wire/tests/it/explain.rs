//! The explanations of frames, checked with the frames of the other tests.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use crate::support::{Case, cases, recode_frame};
use bytes::Bytes;
use ottla_wire::explain::{self, Explanation, Options, Problem, Value};
use ottla_wire::smallest_frame;
use ottla_wire::tables::{Direction, TableSet};
use ottla_wire::{ApiKey, batch, codec};

fn explain(case: &Case, frame: &Bytes) -> Explanation {
    let (set, options) = (TableSet::built_in(), Options::default());
    match case.direction {
        Direction::Request => explain::request(set, frame, &options),
        Direction::Response => explain::response(set, case.info.key, case.version, frame, &options),
    }
}

/// The children of every node are adjacent and cover it; of texts and bytes they cover the content.
fn check_cover(explained: &Explanation) {
    assert_eq!(explained.nodes()[0].size as usize, explained.source(0).len());
    for (id, node) in explained.nodes().iter().enumerate() {
        let content = explained.content(node).len() as u32;
        let mut at = node.at + node.size - content;
        let inner: Vec<usize> = explained.children(id).collect();
        for child in inner.iter().map(|id| &explained.nodes()[*id]) {
            if child.source != node.source {
                continue;
            }
            // A tagged section is its count and then its fields.
            let counted = node.name == "tagged_fields" && at == node.at;
            at = if counted { child.at } else { at };
            assert_eq!(child.at, at, "{} in\n{}", child.name, explained.tree());
            assert_eq!(child.depth, node.depth + 1, "{}", child.name);
            at += child.size;
        }
        let compressed = matches!(node.value, Value::Compressed { .. });
        if !inner.is_empty() && !compressed {
            assert_eq!(at, node.at + node.size, "{} in\n{}", node.name, explained.tree());
        }
    }
}

#[test]
fn every_smallest_frame_is_explained_to_its_last_byte() {
    for case in cases() {
        let frame = smallest_frame(case.info.key, case.direction, case.version).unwrap();
        let explained = explain(&case, &frame);
        assert_eq!(explained.faults(), [], "{case:?}");
        check_cover(&explained);
        let head = explained.head().unwrap();
        assert_eq!((head.key, head.version), (case.info.key, case.version));
    }
}

/// For any changed frame the walk ends, covers the frame, and finds a fault where the typed codec does.
fn judge(case: &Case, frame: Vec<u8>) {
    let frame = Bytes::from(frame);
    let explained = explain(case, &frame);
    check_cover(&explained);
    if let Err(why) = recode_frame(case, &frame) {
        let strict = explained.nodes().iter().any(|node| node.note.is_some());
        assert!(strict || !explained.faults().is_empty(), "{case:?}: {why}\n{}", explained.tree());
    }
}

#[test]
fn every_flipped_byte_and_every_prefix_is_explained() {
    for case in cases() {
        let whole = smallest_frame(case.info.key, case.direction, case.version).unwrap().to_vec();
        for at in 0..whole.len() {
            judge(&case, whole[..at].to_vec());
            for flip in [0x01, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                if at > 8 || case.direction == Direction::Response {
                    judge(&case, bytes);
                } else {
                    // It may be a request of another API or version now.
                    check_cover(&explain(&case, &bytes.into()));
                }
            }
        }
    }
}

#[test]
fn records_of_every_codec_are_opened() {
    for codec in codec::Compression::ALL {
        let mut builder = batch::BatchBuilder::new(codec);
        for value in [&b"one"[..], b"two"] {
            let headers = [("h", Some(&b"x"[..]))];
            let headers: Vec<_> = headers
                .iter()
                .map(|(key, value)| batch::Header { key: key.as_bytes(), value: *value })
                .collect();
            builder.push(&batch::NewRecord {
                timestamp: 1_700_000_000_000,
                key: None,
                value: Some(value),
                headers: &headers,
            });
        }
        let records = builder.build().unwrap();
        let table = TableSet::built_in().message("FetchResponse").unwrap();
        let message = ottla_wire::messages::FetchResponse {
            responses: vec![ottla_wire::messages::fetch_response::FetchableTopicResponse {
                partitions: vec![ottla_wire::messages::fetch_response::PartitionData {
                    records: Some(ottla_wire::Records::from(records)),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let bytes = ottla_wire::Message::to_bytes(&message, 11).unwrap();
        let explained = explain::message(table, 11, &bytes, &Options::default());
        assert_eq!(explained.faults(), []);
        check_cover(&explained);
        let tree = explained.tree();
        for text in ["\"two\"", "(2023-11-14T22:13:20.000Z)", "Header[0]", codec.name()] {
            assert!(tree.contains(text) || text == "none", "{text} in\n{tree}");
        }
    }
}

#[test]
fn a_fault_names_byte_field_expected_and_found() {
    let frame = smallest_frame(ApiKey::ADD_OFFSETS_TO_TXN, Direction::Request, 4).unwrap();
    let mut cut = frame[..20].to_vec();
    cut[3] = 16;
    let explained = explain::request(TableSet::built_in(), &cut.into(), &Options::default());
    assert_eq!(explained.faults().len(), 1);
    let fault = &explained.faults()[0];
    assert_eq!(fault.problem, Problem::Short { needed: 8, left: 4 });
    assert_eq!(
        fault.to_string(),
        "byte 16 (0x0010), AddOffsetsToTxnRequest.ProducerId: expected 8 bytes, found 4"
    );
    assert_eq!(explained.nodes().last().unwrap().name, "undecoded");
}

/// A Produce request with one record to that topic.
fn one_record(topic: &str, (key, value): (&[u8], &[u8])) -> Bytes {
    use ottla_wire::messages::ProduceRequest;
    use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
    let mut builder = batch::BatchBuilder::new(codec::Compression::None);
    builder.push(&batch::NewRecord { timestamp: 1, key: Some(key), value: Some(value), headers: &[] });
    let records = Some(ottla_wire::Records::from(builder.build().unwrap()));
    let partition = PartitionProduceData { records, ..Default::default() };
    let topic =
        TopicProduceData { name: topic.into(), partition_data: vec![partition], ..Default::default() };
    let request = ProduceRequest { topic_data: vec![topic], ..Default::default() };
    ottla_wire::frame::request(1, None, &request, 9).unwrap().to_bytes()
}

#[test]
fn records_of_internal_topics_are_named_and_opened() {
    type Case = (&'static str, &'static [u8], &'static [u8], &'static [&'static str]);
    let cases: [Case; 3] = [
        (
            "__consumer_offsets",
            b"\0\x01\0\x01g\0\x01t\0\0\0\x02",
            b"\0\x03\0\0\0\0\0\0\0\x2a\xff\xff\xff\xff\0\x01m\0\0\0\0\0\0\0\x05",
            &["OffsetCommitKey", "OffsetCommitValue", "= \"g\" (int16 len=1)", "= 42 ", "= \"m\" (int16 len=1)"],
        ),
        (
            "__transaction_state",
            b"\0\0\0\x02tx",
            b"\0\0\0\0\0\0\0\0\0\x07\0\x01\0\0\x03\xe8\0\xff\xff\xff\xff\0\0\0\0\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff\xff",
            &["TransactionLogKey", "TransactionLogValue", "= \"tx\" (int16 len=2)", "= 1000 "],
        ),
        ("__share_group_state", b"\0\0\x02g", b"", &["ShareSnapshotKey"]),
    ];
    for (topic, key, value, texts) in cases {
        let frame = one_record(topic, (key, value));
        let explained = explain::request(TableSet::built_in(), &frame, &Options::default());
        let tree = explained.tree();
        check_cover(&explained);
        for text in texts {
            assert!(tree.contains(text), "{text} in\n{tree}");
        }
        let whole = !topic.contains("share");
        assert_eq!(explained.faults().is_empty(), whole, "{tree}");
        // The same bytes in a topic of a user are not explained.
        let plain =
            explain::request(TableSet::built_in(), &one_record("mine", (key, value)), &Options::default());
        assert!(!plain.tree().contains("Key  "), "{}", plain.tree());
    }
}

/// An entry of an old message set: its checksum is that of zlib.
fn old_entry(magic: u8, attributes: u8, offset: i64, value: &[u8]) -> Vec<u8> {
    let mut body = vec![magic, attributes];
    if magic == 1 {
        body.extend_from_slice(&1_700_000_000_000_i64.to_be_bytes());
    }
    body.extend_from_slice(&(-1_i32).to_be_bytes());
    body.extend_from_slice(&(value.len() as i32).to_be_bytes());
    body.extend_from_slice(value);
    let mut sum = flate2::Crc::new();
    sum.update(&body);
    let mut entry = offset.to_be_bytes().to_vec();
    entry.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
    entry.extend_from_slice(&sum.sum().to_be_bytes());
    entry.extend_from_slice(&body);
    entry
}

/// The explanation of a Produce request with those bytes as its records.
fn with_records(records: Vec<u8>) -> Explanation {
    use ottla_wire::messages::ProduceRequest;
    use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
    let records = Some(ottla_wire::Records::from(Bytes::from(records)));
    let partition = PartitionProduceData { records, ..Default::default() };
    let topic = TopicProduceData { partition_data: vec![partition], ..Default::default() };
    let request = ProduceRequest { topic_data: vec![topic], ..Default::default() };
    let frame = ottla_wire::frame::request(1, None, &request, 3).unwrap().to_bytes();
    explain::request(TableSet::built_in(), &frame, &Options::default())
}

#[test]
fn old_message_sets_are_opened_compressed_ones_too() {
    for magic in [0, 1] {
        let inner = [old_entry(magic, 0, 0, b"one"), old_entry(magic, 0, 1, b"two")].concat();
        let plain = with_records(inner.clone());
        assert_eq!(plain.faults(), []);
        check_cover(&plain);
        assert!(plain.tree().contains("= 3 bytes \"two\" (int32 len=3)"), "{}", plain.tree());
        let packed = codec::compress(codec::Compression::Gzip, &inner).unwrap();
        let wrapped = with_records(old_entry(magic, 1, 1, &packed));
        assert_eq!(wrapped.faults(), []);
        check_cover(&wrapped);
        for text in ["when decompressed", "Message[1]", "\"two\""] {
            assert!(wrapped.tree().contains(text), "{text} in\n{}", wrapped.tree());
        }
        let mut broken = inner;
        broken[13] ^= 1;
        let fault = with_records(broken).faults()[0].to_string();
        assert!(fault.contains("Message.crc: expected the checksum"), "{fault}");
    }
}
