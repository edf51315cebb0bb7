//! JSON held against the samples that Apache Kafka's own classes have read and written.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use bytes::Bytes;
use ottla_microscope::json::{self, Options};
use ottla_wire::smallest_frame;
use ottla_wire::tables::{Direction, TableSet};
use ottla_wire::{ApiKey, Reader};
use serde_json::json;

const SAMPLES: &str = include_str!("../../wire/tests/golden/samples.tsv");

fn unhex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn every_sample_becomes_json_and_the_same_bytes_again() {
    for row in SAMPLES.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let (version, bytes) = (columns[2].parse().unwrap(), unhex(columns[3]));
        let table = TableSet::built_in().message(columns[0]).unwrap();
        let mut r = Reader::new(bytes.clone());
        let json = json::decode(table, version, &mut r, Options { opened: true }).unwrap();
        assert_eq!(r.remaining(), 0, "{row}");
        let text = json.to_string();
        let again = json::encode(table, version, &serde_json::from_str(&text).unwrap());
        assert_eq!(again.as_ref(), Ok(&bytes), "{row}\n{text}");
    }
}

#[test]
fn whole_frames_come_back() {
    let set = TableSet::built_in();
    for info in set.apis() {
        for version in info.request_versions.iter() {
            let frame = smallest_frame(info.key, Direction::Request, version).unwrap();
            let shown = json::decode_request(set, &frame, Options::default()).unwrap();
            assert_eq!(json::encode_request(info, version, &shown["body"], (0, Some(""))), Ok(frame));
        }
        for version in info.response_versions.iter() {
            let frame = smallest_frame(info.key, Direction::Response, version).unwrap();
            let shown = json::decode_response(info, version, &frame, Options::default()).unwrap();
            assert_eq!(json::encode_response(info, version, &shown["body"], 0), Ok(frame));
        }
    }
}

fn refused(json: serde_json::Value) -> String {
    let table = TableSet::built_in().message("TxnOffsetCommitRequest").unwrap();
    json::encode(table, 3, &json).unwrap_err().to_string()
}

#[test]
fn what_does_not_fit_is_named_by_its_path() {
    let partition = |value: serde_json::Value| json!({ "topics": [{ "partitions": [{ "committedMetadata": "" }, { "partitionIndex": value }] }] });
    assert_eq!(
        refused(partition(json!(3_000_000_000_u32))),
        "topics[0].partitions[1].partitionIndex: 3000000000 does not fit int32"
    );
    assert_eq!(
        refused(partition(json!("x"))),
        "topics[0].partitions[1].partitionIndex: \"x\" is not a whole number of int32"
    );
    assert_eq!(refused(json!({ "groupId": null })), "groupId: null is not allowed in version 3");
    assert!(
        refused(json!({ "group": "g" }))
            .starts_with("TxnOffsetCommitRequest has no field \"group\"; its fields are: ")
    );
    assert_eq!(refused(json!([])), "[] is not an object with the fields of TxnOffsetCommitRequest");
}

#[test]
fn a_tag_that_the_schema_knows_is_not_unknown() {
    // Tag 0 is a field of version 1, tag 1 of version 2 alone: neither may come in by the back door.
    let table = TableSet::built_in().message("BrokerHeartbeatRequest").unwrap();
    let with = |tag| json!({ "_unknownTaggedFields": [{ "tag": tag, "data": "" }] });
    for (tag, name) in [(0, "offlineLogDirs"), (1, "cordonedLogDirs")] {
        let refused = json::encode(table, 1, &with(tag)).unwrap_err().to_string();
        assert_eq!(refused, format!("_unknownTaggedFields: tag {tag} is known: {name}"));
    }
    assert!(json::encode(table, 1, &with(2)).is_ok());
}

#[test]
fn a_value_that_the_version_lacks_is_refused_unless_ignorable() {
    let set = TableSet::built_in();
    let table = set.message("InitProducerIdRequest").unwrap();
    let value = json!({ "transactionTimeoutMs": 1, "producerId": 5 });
    let why = json::encode(table, 2, &value).unwrap_err().to_string();
    assert_eq!(why, "producerId: version 2 has no such field, only 3-6 have");
    let value = json!({ "transactionTimeoutMs": 1, "producerId": -1, "_comment": "the default is nothing" });
    assert!(json::encode(table, 2, &value).is_ok());
    let info = set.api(ApiKey::METADATA).unwrap();
    // ClusterId is ignorable.
    assert!(json::encode_response(info, 0, &json!({ "clusterId": "c" }), 1).is_ok());
}

/// Pseudo-random frames that Apache Kafka's own classes wrote, with the JSON of its own converters.
const VECTORS: &str = include_str!("../../wire/tests/golden/vectors.tsv");

#[test]
fn the_json_and_frames_of_a_second_implementation_come_out_both_ways() {
    let set = TableSet::built_in();
    for row in VECTORS.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let info = set.api(ApiKey(columns[0].parse().unwrap())).unwrap();
        let (version, correlation_id) = (columns[3].parse().unwrap(), columns[4].parse().unwrap());
        let client_id: Option<String> = serde_json::from_str(columns[5]).unwrap();
        let (json, frame) = (serde_json::from_str(columns[6]).unwrap(), unhex(columns[7]));
        let (made, shown) = if columns[2] == "request" {
            let header = (correlation_id, client_id.as_deref());
            let made = json::encode_request(info, version, &json, header);
            (made, json::decode_request(set, &frame, Options::default()))
        } else {
            let made = json::encode_response(info, version, &json, correlation_id);
            (made, json::decode_response(info, version, &frame, Options::default()))
        };
        assert_eq!(made.as_ref(), Ok(&frame), "{row}");
        let shown = shown.unwrap();
        assert_eq!(shown["body"], json, "{row}");
        assert_eq!(shown["correlationId"], correlation_id, "{row}");
    }
}
