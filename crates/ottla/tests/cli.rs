//! The commands of the binary with a broker in this process: their output and their failures.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

use ottla::Broker;
use ottla_client::{Client, GroupOffset, Membership, Producer, ProducerOptions, Record};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

/// A broker, to which the commands connect.
struct TestBroker(Broker);

/// The result of a command.
#[derive(Debug)]
struct CommandResult {
    status: i32,
    out: String,
    err: String,
}

impl TestBroker {
    fn new() -> TestBroker {
        TestBroker(Broker::in_memory().start().unwrap())
    }

    /// Runs a command line, split at blanks, with `input` on standard input.
    fn run(&self, line: &str, input: &str) -> CommandResult {
        run(&self.0.address().to_string(), line, input)
    }

    /// The output of a command that must succeed.
    fn out(&self, line: &str, input: &str) -> String {
        let ended = self.run(line, input);
        assert_eq!((ended.status, ended.err.as_str()), (0, ""), "{line}: {ended:?}");
        ended.out
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.out(&format!("{line} -o json"), "")).unwrap()
    }

    /// The message of a command that must fail.
    fn err(&self, line: &str) -> String {
        let ended = self.run(line, "x\n");
        assert_eq!((ended.status, ended.out.as_str()), (1, ""), "{line}: {ended:?}");
        assert!(ended.err.starts_with("ottla: ") && ended.err.lines().count() == 1, "{ended:?}");
        ended.err
    }
}

fn run(bootstrap: &str, line: &str, input: &str) -> CommandResult {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ottla"))
        .args(line.split(' '))
        .env("OTTLA_BOOTSTRAP_SERVER", bootstrap)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    CommandResult {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn a_topic_is_created_described_changed_and_deleted() {
    let world = TestBroker::new();
    assert_eq!(world.out("topic create t -p 2 --config retention.ms=60000", ""), "topic t created\n");
    assert!(world.err("topic create t").contains("--if-not-exists"));
    assert_eq!(world.out("topic create t --if-not-exists", ""), "topic t exists already\n");
    assert!(world.out("topic list", "").lines().any(|line| line.starts_with("t ")));
    let described = world.out("topic describe t", "");
    assert!(described.contains("config retention.ms=60000"), "{described}");
    assert!(described.contains("PARTITION  LEADER  REPLICAS  IN-SYNC"), "{described}");

    world.out("topic alter t -p 3 --config cleanup.policy=compact --delete-config retention.ms", "");
    let described = &world.json("topic describe t")[0];
    assert_eq!(described["partitions"].as_array().unwrap().len(), 3);
    assert_eq!(described["configs"], serde_json::json!({ "cleanup.policy": "compact" }));
    assert!(world.err("topic alter t --config no.such=1").contains("no.such"));

    assert_eq!(world.json("topic delete t")["deleted"], true);
    let gone = world.err("topic describe t");
    assert!(gone.contains("UNKNOWN_TOPIC_OR_PARTITION") && gone.contains("topic \"t\""), "{gone}");
}

#[test]
fn lines_become_records_and_come_back_as_asked_for() {
    let world = TestBroker::new();
    world.out("topic create t -p 2", "");
    let placed = world.out("produce t -p 1 -K : -H from=here -z lz4 -v", "k:one\ntwo\n\r\n");
    assert_eq!(placed, "partition 1 offset 0\npartition 1 offset 1\npartition 1 offset 2\n");
    let placed = world.out("produce t -p 0 -k key -o json", "four\n");
    assert_eq!(serde_json::from_str::<Value>(&placed).unwrap()["topic"], "t");

    assert_eq!(world.out("consume t -p 1 -e -f %t/%p@%o:%k=%s[%h];", ""), {
        "t/1@0:k=one[from=here];t/1@1:=two[from=here];t/1@2:=[from=here];"
    });
    assert_eq!(world.out("consume t -p 1 --from 1 -c 1", ""), "two\n");
    assert_eq!(world.out("consume t --from end -e", ""), "");
    let record: Value = serde_json::from_str(&world.out("consume t -p 1 -c 1 -o json", "")).unwrap();
    assert_eq!(
        (&record["key"], &record["value"], &record["offset"]),
        (&"k".into(), &"one".into(), &0.into())
    );
    let offsets = world.json("topic offsets t");
    assert_eq!((&offsets[1]["earliest"], &offsets[1]["latest"]), (&0.into(), &3.into()));
    assert!(world.err("consume t -p 1 --from 99").contains("offset 99 in partition 1"));
    assert!(world.err("consume t -p 9").contains("partition 9"));
}

#[test]
fn lines_of_a_transaction_count_together_or_not_at_all() {
    let world = TestBroker::new();
    world.out("topic create t -p 1", "");
    world.out("produce t --transactional-id x", "one\ntwo\n");
    assert_eq!(world.json("txn describe x")["state"], "CompleteCommit");
    assert_eq!(world.json("txn list --state CompleteCommit")[0]["transactional_id"], "x");
    assert_eq!(world.out("consume t -e", ""), "one\ntwo\n");
    assert!(world.err("produce t -p 9 --transactional-id x").contains("partition 9"));
    assert_eq!(world.out("consume t -e", ""), "one\ntwo\n");
    assert_eq!(world.json("txn list --state Ongoing"), serde_json::json!([]));
    assert!(world.err("txn list --state Odd").contains("Odd"));
    assert!(world.err("txn describe y").contains("TRANSACTIONAL_ID_NOT_FOUND"));
}

#[test]
fn a_group_reads_on_from_what_it_printed() {
    let world = TestBroker::new();
    world.out("topic create t -p 1", "");
    world.out("produce t", "1\n2\n3\n4\n");
    assert_eq!(world.out("consume t -g g -c 2", ""), "1\n2\n");
    assert_eq!(world.json("group offsets g")[0]["lag"], 2);
    assert_eq!(world.out("consume t -g g -e", ""), "3\n4\n");
    assert_eq!(world.json("group list")[0]["group"], "g");
    assert_eq!(world.json("group describe g")["state"], "Empty");
    world.out("group reset g --to 3 --topic t", "");
    assert_eq!(world.out("consume t -g g -e", ""), "4\n");
    world.out("group reset g --to earliest --topic t", "");
    assert_eq!(world.json("group offsets g")[0]["committed"], 0);
    assert_eq!(world.out("group delete g", ""), "group g deleted\n");
    assert!(world.err("group describe g").contains("GROUP_ID_NOT_FOUND"));
    assert!(world.err("group delete g").contains("GROUP_ID_NOT_FOUND"));
}

/// Leaves a transaction open, with one record.
async fn leave_open(world: &TestBroker, id: &str) -> Producer {
    let client = Client::connect(&world.0.address().to_string()).await.unwrap();
    let options = ProducerOptions { transactional_id: Some(id.to_owned()), ..Default::default() };
    let mut producer = Producer::start(client, options).await.unwrap();
    producer.begin().await.unwrap();
    let record = Record { value: Some("open".into()), ..Default::default() };
    producer.send("t", Some(0), vec![record]).await.unwrap();
    producer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_hangs_is_shown_and_ended() {
    let world = TestBroker::new();
    world.out("topic create t -p 1", "");
    let mut fenced = leave_open(&world, "x").await;
    assert_eq!(world.json("txn producers t")[0]["transaction_start"], 0);
    assert_eq!(world.json("txn describe x")["partitions"], serde_json::json!({ "t": [0] }));
    assert_eq!(world.json("topic offsets t")[0]["stable"], 0);
    world.out("txn fence x", "");
    assert!(fenced.commit().await.is_err());
    assert_eq!(world.json("topic offsets t")[0]["stable"], 2);

    let _hanging = leave_open(&world, "y").await;
    assert!(
        world.err("txn abort -t t -p 0 --start-offset 0").contains("no open transaction starts at offset 0")
    );
    world.out("txn abort -t t -p 0 --start-offset 2", "");
    assert_eq!(world.json("topic offsets t")[0]["stable"], 4);
    assert_eq!(world.out("consume t -e -i read_uncommitted", ""), "open\nopen\n");
    assert_eq!(world.out("consume t -e", ""), "");
    assert!(world.err("txn fence unknown").contains("TRANSACTIONAL_ID_NOT_FOUND"));
}

/// A name that a client chose: it has a line end, an escape sequence that sets the title of a terminal, and a character
/// that reverses text.
const ODD: &str = "a\nforged Stable \u{1b}]0;title\u{7}\u{202e}";
const ODD_SHOWN: &str = r"a\nforged Stable \u{1b}]0;title\u{7}\u{202e}";

#[tokio::test(flavor = "multi_thread")]
async fn names_that_clients_choose_cannot_forge_lines_or_control_the_terminal() {
    let world = TestBroker::new();
    world.out("topic create t -p 1", "");
    let _open = leave_open(&world, ODD).await;
    let client = Client::connect(&world.0.address().to_string()).await.unwrap();
    let offset = GroupOffset { topic: "t".to_owned(), partition: 0, offset: 0 };
    client.commit_offsets(&Membership::outside(ODD), &[offset]).await.unwrap();
    for (command, key) in [("group list", "group"), ("txn list", "transactional_id")] {
        let shown = world.out(command, "");
        assert_eq!(shown.lines().count(), 2, "{shown:?}");
        assert!(shown.lines().nth(1).unwrap().starts_with(ODD_SHOWN), "{shown:?}");
        let json = world.out(&format!("{command} -o json"), "");
        assert!(!json.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{json:?}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap()[0][key], ODD);
    }
    for command in [["txn", "describe"], ["group", "describe"], ["group", "delete"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_ottla"))
            .args(command)
            .arg(ODD)
            .env("OTTLA_BOOTSTRAP_SERVER", world.0.address().to_string())
            .output()
            .unwrap();
        let shown = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(shown.contains(ODD_SHOWN), "{command:?}: {shown:?}");
        assert!(!shown.lines().any(|line| line.starts_with("forged")), "{command:?}: {shown:?}");
    }
}

#[test]
fn the_demo_can_be_given_again_and_again_and_cleans_up() {
    let world = TestBroker::new();
    let topics = || {
        let topics = world.json("topic list");
        topics.as_array().unwrap().iter().filter(|topic| topic["internal"] == false).count()
    };
    let told = world.out("demo", "");
    assert!(told.contains("That is exactly once."), "{told}");
    assert!(told.lines().all(|line| line.chars().count() <= 110), "{told}");
    assert_eq!(topics(), 0);
    let steps = world.json("demo --keep");
    assert_eq!(steps.as_array().unwrap().len(), 4);
    assert_eq!(steps[3]["group_continues_at"], 4);
    assert_eq!(topics(), 2);
}

#[test]
fn failures_are_one_sentence_and_wrong_usage_is_status_2() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let ended = run(&nobody, "topic list", "");
    assert_eq!((ended.status, ended.out.as_str()), (1, ""));
    assert!(ended.err.contains(&nobody) && ended.err.contains("ottla serve"), "{}", ended.err);
    for wrong in ["topic", "topic create", "consume", "group reset g --to x --topic t", "frobnicate"] {
        assert_eq!(run(&nobody, wrong, "").status, 2, "{wrong}");
    }
}
