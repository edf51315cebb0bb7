//! The commands that show the protocol and need no broker.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs a command line, split at blanks, with `input` on standard input.
fn run(line: &str, input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ottla"))
        .args(line.split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// What a command prints that must succeed.
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
    assert_eq!(row("SaslHandshake")[4..6], ["-", "-"]);

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
