//! The commands that show the protocol and need no broker.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

use ottla_microscope::capture::PcapngWriter;
use ottla_microscope::conversation::{Connection, Time};
use ottla_wire::tables::Direction;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs a command line, split at blanks, with `input` on standard input.
fn run(line: &str, input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ottla"))
        .args(line.split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command may exit before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// The output of a command that must succeed.
fn out(line: &str) -> String {
    let output = run(line, b"");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(line: &str) -> Value {
    serde_json::from_str(&out(line)).unwrap()
}

#[test]
fn apis_are_listed_with_what_this_broker_serves() {
    let text = out("apis");
    let row = |name: &str| {
        let line = text.lines().find(|line| line.split_whitespace().nth(1) == Some(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        row("AddOffsetsToTxn"),
        ["25", "AddOffsetsToTxn", "0-4", "0-4", "3", "0-4", "4", "2,", "1", "28", "16"]
    );
    assert_eq!(row("LeaderAndIsr")[2..6], ["none", "none", "-", "-"]);
    assert_eq!(row("DescribeDelegationToken")[4..6], ["2", "-"]);

    let all = json("apis --json");
    let api = all.as_array().unwrap().iter().find(|api| api["name"] == "AddOffsetsToTxn").unwrap();
    assert_eq!((&api["key"], &api["served"]), (&Value::from(25), &Value::from("0-4")));
    let newest = api["versions"].as_array().unwrap().last().unwrap();
    assert_eq!(newest["smallest_request"], 28);
    assert_eq!(newest["request_header"], 2);
}

#[test]
fn errors_are_listed_with_their_meaning() {
    let text = out("errors");
    assert!(text.starts_with("CODE  NAME"));
    assert!(text.lines().any(|line| line.starts_with("  90  PRODUCER_FENCED ") && line.contains("  no  ")));
    let all = json("errors --json");
    assert_eq!(all.as_array().unwrap().len(), text.lines().count() - 1);
    assert_eq!((&all[0]["code"], &all[4]["retriable"]), (&Value::from(-1), &Value::from(true)));
}

/// A schema of an older Kafka, and the tree that its smallest frame makes.
fn older(message: &str) -> (String, String) {
    let folder = format!("{}/tests/data/schemas", env!("CARGO_MANIFEST_DIR"));
    let tree = std::fs::read_to_string(format!("{folder}/{message}.tree")).unwrap();
    (format!("{folder}/{message}.json"), tree)
}

#[test]
fn the_tree_of_a_schema_file_comes_out_byte_for_byte() {
    for message in ["AddOffsetsToTxnRequest", "AddOffsetsToTxnResponse"] {
        let (file, tree) = older(message);
        assert_eq!(out(&format!("explain {message} --tree --schemas {file}")), tree);
    }
    // The white space of these two is not known.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for message in ["TxnOffsetCommitRequest", "TxnOffsetCommitResponse"] {
        let (file, tree) = older(message);
        assert_eq!(words(&out(&format!("explain {message} --tree --schemas {file}"))), words(&tree));
    }
}

#[test]
fn both_sides_of_an_older_api_come_from_their_files() {
    let (request, _) = older("TxnOffsetCommitRequest");
    let (response, _) = older("TxnOffsetCommitResponse");
    let page = out(&format!("explain txnoffsetcommit --schemas {request} --schemas {response}"));
    for line in [
        "Encoded at         v5",
        "Headers            req v2, resp v1",
        "Request versions   0-5",
        "Request size       56 bytes",
        "Response size      25 bytes",
        "TxnOffsetCommitRequest v5, request header v2, 56 bytes on the wire",
        "byte layout (25 bytes, 16 bytes per row)",
        "0010  01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01  MMMMMMMMMMMMMMMM",
        "0030  00 00 00 00 01 00 00 00                          MMMMMTTT",
        "      F frame   H rpc header   M request body   T tagged_fields",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
    let folder = request.rsplit_once('/').unwrap().0;
    let schema = out(&format!("explain 28 --request --schema --schemas {folder}"));
    assert_eq!(schema, std::fs::read_to_string(&request).unwrap());
}

#[test]
fn what_cannot_be_explained_is_said_with_a_remedy() {
    let says = |line: &str, status: i32| {
        let output = run(line, b"");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(status), 0), "{line}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(says("explain TxnOfsetCommit", 1).ends_with("Did you mean TxnOffsetCommit?\n"));
    assert!(says("explain xyzzy", 1).contains("`ottla apis`"));
    assert!(says("explain Fetch --version 99", 1).contains("Fetch has no version 99; it has 4-"));
    assert!(says("explain LeaderAndIsr", 1).contains("removed"));
    assert!(says("explain Fetch --schemas /nowhere.json", 1).contains("/nowhere.json"));
    assert!(says("explain Fetch --schemas Cargo.toml", 1).contains("Cargo.toml is no schema"));
    assert!(says("explain Fetch --request --response", 2).contains("cannot be used with"));
}

#[test]
fn pages_differences_and_other_messages_have_json() {
    let page = json("explain AddOffsetsToTxn --json");
    assert_eq!((&page["key"], &page["request"]["size"]), (&Value::from(25), &Value::from(28)));
    assert_eq!(page["request"]["bytes"].as_str().unwrap().len(), 56);
    let header = &page["request"]["tree"]["children"][1];
    assert_eq!((&header["name"], &header["type"]), (&Value::from("RequestHeader"), &Value::from("v2")));
    assert_eq!(header["children"][0]["value"], "25 (AddOffsetsToTxn)");
    assert!(page["response"]["schema"].as_str().unwrap().contains("AddOffsetsToTxnResponse"));

    let diff = json("explain TxnOffsetCommit --diff 5 6 --json");
    assert!(diff["changes"].as_array().unwrap().iter().any(|change| change["field"] == "Topics.TopicId"));
    assert_eq!(out("explain AddOffsetsToTxn --diff 3 4"), "no difference in the bytes\n");

    let data = json("explain consumerprotocolassignment --json");
    assert_eq!(data["fields"][1]["depth"], 1);
}

#[test]
fn the_grid_is_coloured_when_asked() {
    let plain = out("explain Produce --request --bytes");
    let coloured = out("explain Produce --request --bytes --color always");
    assert!(!plain.contains('\x1b') && plain.lines().count() == 9);
    assert!(coloured.contains("\x1b[35m"));
    let mut without = coloured;
    while let Some(from) = without.find('\x1b') {
        let to = from + without[from..].find('m').unwrap();
        without.replace_range(from..=to, "");
    }
    assert_eq!(without, plain);
}

/// The output and result of a command with this standard input.
fn fed(line: &str, input: &[u8]) -> (String, i32, String) {
    let output = run(line, input);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), output.status.code().unwrap(), text(output.stderr))
}

#[test]
fn json_becomes_a_frame_and_a_frame_becomes_json() {
    let message = br#"{ "transactionalId": "t", "producerId": 7, "producerEpoch": 1, "groupId": "g" }"#;
    let (hex, status, _) =
        fed("encode AddOffsetsToTxn --version 4 --correlation-id 9 --client-id me", message);
    let expected = "0000001c001900040000000900026d6500027400000000000000070001026700\n";
    assert_eq!((status, hex.as_str()), (0, expected));
    let (json, status, _) = fed("decode --json", hex.as_bytes());
    assert_eq!(status, 0);
    let frame: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&frame["direction"], &frame["api"]),
        (&Value::from("request"), &Value::from("AddOffsetsToTxn"))
    );
    assert_eq!((&frame["correlationId"], &frame["clientId"]), (&Value::from(9), &Value::from("me")));
    assert_eq!(frame["body"]["producerId"], 7);
    // The printed frame encodes to the same bytes, in every form.
    assert_eq!(fed("encode 25 --version 4", json.as_bytes()).0, hex);
    let (base64, ..) = fed("encode 25 --base64", json.as_bytes());
    assert_eq!(fed("decode --json", base64.as_bytes()).0, json);
    let binary = run("encode 25 --binary", json.as_bytes()).stdout;
    assert_eq!(fed("decode --json", &binary).0, json);
    // Without a frame.
    let (body, ..) = fed("encode AddOffsetsToTxn --body-only", message);
    assert_eq!(
        fed("decode --api AddOffsetsToTxn --body-only --json", body.as_bytes()).0.trim(),
        frame["body"].to_string()
    );
}

#[test]
fn every_smallest_frame_survives_decoding_and_encoding() {
    for (name, side) in
        [("Produce", "Request"), ("Fetch", "Response"), ("ApiVersions", "Response"), ("JoinGroup", "Request")]
    {
        let page = json(&format!("explain {name}{side} --json"));
        let side = &page[side.to_ascii_lowercase()];
        let (hex, version) = (side["bytes"].as_str().unwrap(), &side["version"]);
        let response =
            if side["message"].as_str().unwrap().ends_with("Response") { " --response" } else { "" };
        let (json, status, err) =
            fed(&format!("decode --api {name} --version {version}{response} --json"), hex.as_bytes());
        assert_eq!((status, err.as_str()), (0, ""), "{name}");
        let again = fed(&format!("encode {name} --version {version}{response}"), json.as_bytes()).0;
        assert_eq!(again.trim(), hex, "{name}");
    }
}

#[test]
fn streams_are_split_and_responses_find_their_requests() {
    let bytes = |line: &str, id: u8| {
        let line = format!("{line} --correlation-id {id} --hex");
        fed(&line, b"{}").0
    };
    let stream = [
        bytes("encode Metadata --version 9", 7),
        bytes("encode Fetch --version 12", 8),
        bytes("encode Fetch --version 12 --response", 8),
        bytes("encode Metadata --version 9 --response", 7),
    ];
    let (lines, status, _) = fed("decode --summary", stream.concat().as_bytes());
    let heads: Vec<String> =
        lines.lines().map(|line| line.split_whitespace().take(5).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "request Metadata v9 correlation 7",
        "request Fetch v12 correlation 8",
        "response Fetch v12 correlation 8",
        "response Metadata v9 correlation 7",
    ];
    assert_eq!((status, heads.as_slice()), (0, &expected.map(str::to_owned)[..]));
}

#[test]
fn faults_are_placed_and_counted_and_change_the_exit_status() {
    let good = fed("encode AddOffsetsToTxn --version 4", b"{}").0;
    let bad = good.replacen("00190004", "001900ff", 1);
    let (tree, status, err) = fed("decode", bad.as_bytes());
    assert_eq!((status, err.as_str()), (3, "ottla: the frame is malformed.\n"));
    assert!(tree.contains("undecoded"), "{tree}");
    let fault = tree.lines().find(|line| line.starts_with("fault: ")).unwrap();
    assert!(
        fault.contains("byte ") && fault.contains("expected a version of AddOffsetsToTxn, 0-4, found 255"),
        "{fault}"
    );
    let (json, status, err) = fed("decode --json", format!("{good}{bad}").as_bytes());
    assert_eq!((status, err.as_str()), (3, "ottla: 1 of 2 frames are malformed.\n"));
    let second: Value = serde_json::from_str(json.lines().nth(1).unwrap()).unwrap();
    assert!(second["faults"][0]["problem"].as_str().unwrap().contains("found 255"));
    assert_eq!(second["correlationId"], 0);
}

#[test]
fn what_cannot_be_encoded_or_decoded_is_said() {
    let (_, status, err) = fed("encode Metadata", b"not json");
    assert!(status == 1 && err.contains("not JSON"), "{err}");
    let (_, status, err) = fed("encode Metadata", br#"{ "topics": [{ "nmae": "x" }] }"#);
    assert!(status == 1 && err.contains("topics[0]") && err.contains("nmae"), "{err}");
    assert_eq!(fed("decode", b"").1, 1);
    assert_eq!(fed("decode --version 4", b"00").1, 2);
    assert_eq!(fed("encode Metadata --hex --base64", b"{}").1, 2);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let hex = fed("encode Metadata", b"{}").0.repeat(20_000);
    let mut child = Command::new(env!("CARGO_BIN_EXE_ottla"))
        .arg("decode")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let _ = child.stdin.take().unwrap().write_all(hex.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

/// A capture of two connections: Metadata on one, and on the other a Fetch whose response is malformed.
fn capture() -> Vec<u8> {
    let frame = |line: &str| run(&format!("encode {line} --binary"), b"{}").stdout;
    let connection = |number: u64| Connection {
        number,
        client: format!("10.0.0.{number}:40000").parse().unwrap(),
        server: "10.0.0.9:9092".parse().unwrap(),
    };
    let (asks, answers) = (Direction::Request, Direction::Response);
    let mut faulty = frame("Fetch --version 12 --response --correlation-id 8");
    let last = faulty.len() - 1;
    faulty[last] = 9;
    let told = [
        (1, asks, frame("Metadata --version 9 --correlation-id 7 --client-id me")),
        (2, asks, frame("Fetch --version 12 --correlation-id 8 --client-id you")),
        (2, answers, faulty),
        (1, answers, frame("Metadata --version 9 --response --correlation-id 7")),
    ];
    let mut writer = PcapngWriter::new();
    let mut file = writer.header();
    for (at, (number, direction, bytes)) in (1_700_000_000_000_000_000..).step_by(1_000_000).zip(told) {
        file.extend(writer.data(&connection(number), direction, Time(at), &bytes));
    }
    file
}

#[test]
fn a_capture_is_a_line_a_frame() {
    let (text, status, err) = fed("decode", &capture());
    assert_eq!((status, err.as_str()), (3, "ottla: 1 of 4 frames are malformed.\n"));
    let lines: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let head = |at: usize| lines[at][..6].join(" ");
    assert_eq!(head(0), "22:13:20.000000 #1 -> Metadata v9 7");
    assert_eq!(head(1), "22:13:20.001000 #2 -> Fetch v12 8");
    assert_eq!(head(2), "22:13:20.002000 #2 <- Fetch v12 8");
    assert!(lines[2].join(" ").contains("1.00 ms byte "), "{text}");
    assert_eq!(head(3), "22:13:20.003000 #1 <- Metadata v9 7");
}

#[test]
fn a_capture_is_filtered_and_has_trees_and_json() {
    let (text, status, _) = fed("decode --filter client=m*", &capture());
    assert_eq!((status, text.lines().count()), (0, 3), "{text}");
    let (text, status, _) = fed("decode --tree --filter api=metadata", &capture());
    assert!(status == 0 && text.contains("\nMetadataRequest "), "{text}");
    let (text, status, _) = fed("decode --json", &capture());
    assert_eq!(status, 3);
    let frames: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&frames[0]["client"], &frames[0]["direction"]),
        (&"10.0.0.1:40000".into(), &"request".into())
    );
    assert_eq!((&frames[3]["latencyUs"], &frames[3]["api"]), (&3000.into(), &"Metadata".into()));
    assert!(frames[2]["faults"][0]["at"].is_u64(), "{}", frames[2]);
    // The captured frames can be sent again.
    let again = fed("encode Metadata --version 9", frames[0].to_string().as_bytes()).0;
    assert_eq!(again, fed("encode Metadata --version 9 --correlation-id 7 --client-id me", b"{}").0);
}

#[test]
fn a_capture_that_is_cut_tells_what_it_has() {
    let whole = capture();
    let output = run("decode", &whole[..whole.len() - 10]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("ends inside a packet"));
    assert!(text.lines().any(|line| line.contains("Fetch v12")), "{text}");
    assert_eq!(fed("decode --port 9092", b"00").1, 1);
    assert_eq!(fed("decode --api Fetch", &whole).1, 1);
}
