//! The tap between clients and brokers: transactions, clusters of several brokers, and other protocols.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

use bytes::Bytes;
use ottla::Broker;
use ottla::tap::{Event, RelayedFrame, Tap};
use ottla_client::{
    Client, Consumer, GroupOffset, Isolation, Membership, Node, Producer, ProducerOptions, Record,
};
use ottla_microscope::capture::{CaptureReader, Settings};
use ottla_microscope::conversation::{self, Connection, Time, Topics};
use ottla_wire::messages::{
    ApiVersionsRequest, MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use ottla_wire::{ApiKey, Request, Text, frame};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(30);

/// Collects events until the tap is dropped.
fn collect(mut events: Receiver<Event>) -> JoinHandle<Vec<Event>> {
    tokio::spawn(async move {
        let mut all = Vec::new();
        while let Some(event) = events.recv().await {
            all.push(event);
        }
        all
    })
}

async fn tap_before(to: SocketAddr) -> (Tap, JoinHandle<Vec<Event>>) {
    let (tap, events) = Tap::start("127.0.0.1:0", &to.to_string()).await.unwrap();
    (tap, collect(events))
}

/// Drops the tap and returns all its events.
async fn told(tap: Tap, events: JoinHandle<Vec<Event>>) -> Vec<Event> {
    drop(tap);
    events.await.unwrap()
}

fn frames<'a>(events: &'a [Event]) -> Vec<&'a RelayedFrame> {
    let seen = |event: &'a Event| match event {
        Event::Frame(seen) => Some(seen),
        _ => None,
    };
    events.iter().filter_map(seen).collect()
}

fn notes<'a>(events: &'a [Event]) -> Vec<&'a str> {
    let note = |event: &'a Event| match event {
        Event::Note { text, .. } => Some(text),
        _ => None,
    };
    events.iter().filter_map(note).map(String::as_str).collect()
}

fn records(round: usize) -> Vec<Record> {
    (0..9).map(|n| Record { value: Some(format!("{round}-{n}").into()), ..Default::default() }).collect()
}

/// Three transactions, the second of which aborts.
async fn transactions(address: &str) {
    let client = Client::connect(address).await.unwrap();
    let options = ProducerOptions { transactional_id: Some("x".to_owned()), ..Default::default() };
    let mut producer = Producer::start(client.clone(), options).await.unwrap();
    for round in 0..3 {
        producer.begin().await.unwrap();
        producer.send("t", None, records(round)).await.unwrap();
        let next = GroupOffset { topic: "t".to_owned(), partition: 0, offset: round as i64 };
        producer.send_offsets(&Membership::outside("g"), &[next]).await.unwrap();
        if round == 1 {
            producer.abort().await.unwrap();
        } else {
            producer.commit().await.unwrap();
        }
    }
}

async fn values(address: &str) -> Vec<String> {
    let client = Client::connect(address).await.unwrap();
    let mut consumer = Consumer::new(&client, Isolation::ReadCommitted);
    consumer.assign("t", 0, 0);
    let mut values = Vec::new();
    while !consumer.at_end() {
        let records = consumer.poll(Duration::from_millis(50)).await.unwrap();
        values.extend(records.iter().map(|one| String::from_utf8_lossy(one.value.as_ref().unwrap()).into()));
    }
    values
}

fn expected() -> Vec<String> {
    [0, 2].into_iter().flat_map(|round| (0..9).map(move |n| format!("{round}-{n}"))).collect()
}

#[tokio::test]
async fn transactions_pass_and_every_answer_finds_its_request() {
    let broker = Broker::in_memory().start().unwrap();
    let (tap, events) = tap_before(broker.address()).await;
    let address = tap.address().to_string();
    transactions(&address).await;
    assert_eq!(values(&address).await, expected());
    let events = told(tap, events).await;
    assert_eq!(notes(&events), Vec::<&str>::new());
    let mut counts = BTreeMap::<_, (usize, usize)>::new();
    for seen in frames(&events) {
        let head = seen.head.as_ref().unwrap();
        let (requests, responses) = counts.entry(head.key).or_default();
        *if seen.is_request { requests } else { responses } += 1;
        assert_eq!((seen.size, seen.latency.is_some()), (seen.bytes.len(), !seen.is_request));
        assert_eq!((seen.note.as_ref(), head.client_id.as_deref()), (None, Some("ottla")));
        let names = matches!(head.key, ApiKey::METADATA | ApiKey::FIND_COORDINATOR);
        assert_eq!(seen.rewritten, names && !seen.is_request, "{head:?}");
    }
    for key in [ApiKey::INIT_PRODUCER_ID, ApiKey::PRODUCE, ApiKey::TXN_OFFSET_COMMIT, ApiKey::END_TXN] {
        let (requests, responses) = counts[&key];
        assert!(requests > 0 && requests == responses, "{key}: {requests} {responses}");
    }
    assert_eq!(counts[&ApiKey::END_TXN], (3, 3));
}

#[tokio::test]
async fn a_broker_that_an_answer_names_gets_a_port_of_its_own() {
    let second = Broker::in_memory().start().unwrap();
    let first = Broker::in_memory().advertise(second.address().to_string()).start().unwrap();
    let (tap, events) = tap_before(first.address()).await;
    let address = tap.address();
    // The first broker advertises the address of the second.
    let client = Client::connect(&address.to_string()).await.unwrap();
    let metadata = client.call(Node::Any, MetadataRequest::default()).await.unwrap();
    let [broker] = &metadata.brokers[..] else { panic!("{metadata:?}") };
    transactions(&format!("{}:{}", &*broker.host, broker.port)).await;
    assert_eq!(values(&second.address().to_string()).await, expected());
    let events = told(tap, events).await;
    let listens: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::PortOpened { local, broker } => Some((*local, broker.clone())),
            _ => None,
        })
        .collect();
    let [(local, broker)] = &listens[..] else { panic!("{listens:?}") };
    assert_eq!(broker, &second.address().to_string());
    assert!(local.port() != address.port());
    let through = |port| {
        let opened =
            |event: &&Event| matches!(event, Event::ConnectionOpened { local, .. } if local.port() == port);
        events.iter().filter(opened).count()
    };
    assert!(through(address.port()) > 0 && through(local.port()) > 0);
}

/// A server that is no broker; it calls a function with one connection.
async fn server<F: Future<Output = ()> + Send + 'static>(
    serve: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { serve(listener.accept().await.unwrap().0).await });
    address
}

async fn echo(mut socket: TcpStream) {
    let (mut from, mut to) = socket.split();
    tokio::io::copy(&mut from, &mut to).await.unwrap();
}

#[tokio::test]
async fn what_is_not_kafka_passes_untouched_and_is_said() {
    for (sent, what) in
        [(&b"\x16\x03\x01\x02\0\x01\0\x01\xfc"[..], "TLS"), (b"GET / HTTP/1.1\r\n", "not Kafka's")]
    {
        let (tap, events) = tap_before(server(echo).await).await;
        let mut client = TcpStream::connect(tap.address()).await.unwrap();
        client.write_all(sent).await.unwrap();
        client.shutdown().await.unwrap();
        let mut back = Vec::new();
        client.read_to_end(&mut back).await.unwrap();
        assert_eq!(back, sent);
        let events = told(tap, events).await;
        assert!(notes(&events).iter().any(|note| note.starts_with(what)), "{events:?}");
        assert!(frames(&events).is_empty());
    }
}

#[tokio::test]
async fn when_one_side_closes_the_other_first_gets_everything() {
    let server = server(|mut socket| async move {
        let mut all = Vec::new();
        socket.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff\0\0\0\x09cut");
        socket.write_all(b"\0\0\0\x06\0\0\0\x07ok\0\0").await.unwrap();
    });
    let (tap, events) = tap_before(server.await).await;
    let mut client = TcpStream::connect(tap.address()).await.unwrap();
    client.write_all(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff\0\0\0\x09cut").await.unwrap();
    client.shutdown().await.unwrap();
    let mut back = Vec::new();
    client.read_to_end(&mut back).await.unwrap();
    assert_eq!(back, b"\0\0\0\x06\0\0\0\x07ok\0\0");
    drop(client);
    let events = told(tap, events).await;
    assert_eq!(frames(&events).len(), 2);
    assert_eq!(notes(&events).len(), 2, "{events:?}");
}

#[tokio::test]
async fn a_frame_above_100_mib_passes_and_only_its_header_is_told() {
    const SIZE: usize = (100 << 20) + 5;
    let server = server(|mut socket| async move {
        let copied = tokio::io::copy(&mut socket, &mut tokio::io::sink()).await.unwrap();
        socket
            .write_all(
                &[&8_u32.to_be_bytes()[..], &7_u32.to_be_bytes(), &(copied as u32).to_be_bytes()].concat(),
            )
            .await
            .unwrap();
    });
    let (tap, events) = tap_before(server.await).await;
    let mut client = TcpStream::connect(tap.address()).await.unwrap();
    client.write_all(&(SIZE as u32).to_be_bytes()).await.unwrap();
    client.write_all(b"\0\0\0\x09\0\0\0\x07\0\x02me\0").await.unwrap();
    tokio::io::copy(&mut tokio::io::repeat(1).take(SIZE as u64 - 13), &mut client).await.unwrap();
    client.shutdown().await.unwrap();
    let mut back = Vec::new();
    client.read_to_end(&mut back).await.unwrap();
    assert_eq!(back[8..], (SIZE as u32 + 4).to_be_bytes());
    let events = told(tap, events).await;
    let [request, response] = frames(&events)[..] else { panic!("{events:?}") };
    assert_eq!((request.size, request.bytes.len() < 100), (SIZE + 4, true));
    assert_eq!(request.head.as_ref().unwrap().client_id.as_deref(), Some("me"));
    assert!(request.note.as_ref().unwrap().starts_with("too large"));
    assert_eq!(response.head, request.head);
}

#[tokio::test]
async fn a_slow_reader_slows_the_writer_down() {
    const MORE_THAN_BUFFERS: usize = 200 << 20;
    let (sender, wait) = tokio::sync::oneshot::channel::<()>();
    let server = server(|socket| async move {
        // Reads nothing.
        let _ = wait.await;
        drop(socket);
    });
    let (tap, _events) = tap_before(server.await).await;
    let mut client = TcpStream::connect(tap.address()).await.unwrap();
    let frame =
        [&20_000_u32.to_be_bytes()[..], b"\0\0\0\x09\0\0\0\x07\0\x02me\0", &[0; 20_000 - 13]].concat();
    let mut sent = 0;
    while tokio::time::timeout(Duration::from_millis(500), client.write_all(&frame)).await.is_ok() {
        sent += frame.len();
        assert!(sent < MORE_THAN_BUFFERS, "the tap buffers without bound");
    }
    drop(sender);
}

fn of<M: Request>(message: &M, version: i16, correlation_id: i32) -> Bytes {
    frame::request(correlation_id, Some(&Text::from_static("me")), message, version).unwrap().to_bytes()
}

#[tokio::test]
async fn secrets_pass_but_are_not_told() {
    // The server echoes every frame. A response has its correlation id at another offset, so the ids of the requests
    // are chosen to match.
    const HANDSHAKE: i32 = 17 << 16;
    let handshake = of(&SaslHandshakeRequest::default(), 0, HANDSHAKE);
    let token = Bytes::from_static(b"\0\0\0\x0b\0max\0secret");
    let authenticate = SaslAuthenticateRequest { auth_bytes: "secret".into(), ..Default::default() };
    let authenticate = of(&authenticate, 2, (36 << 16) | 2);
    let after = of(&ApiVersionsRequest::default(), 0, 18 << 16);
    let (tap, events) = tap_before(server(echo).await).await;
    let mut client = TcpStream::connect(tap.address()).await.unwrap();
    for sent in [&handshake, &token, &authenticate, &after] {
        client.write_all(sent).await.unwrap();
        let mut back = vec![0; sent.len()];
        tokio::time::timeout(PATIENCE, client.read_exact(&mut back)).await.unwrap().unwrap();
        assert_eq!(back, sent[..]);
    }
    let events = told(tap, events).await;
    let seen = frames(&events);
    assert_eq!(seen.len(), 8);
    assert!(seen.iter().all(|seen| !seen.bytes.windows(6).any(|six| six == b"secret")));
    let keys: Vec<_> = seen.iter().map(|seen| seen.head.as_ref().map(|head| head.key)).collect();
    let (handshake, authenticate) = (Some(ApiKey::SASL_HANDSHAKE), Some(ApiKey::SASL_AUTHENTICATE));
    assert_eq!(keys[..6], [handshake, handshake, None, None, authenticate, authenticate]);
    assert_eq!(&seen[2].bytes[4..], b"***********");
}

#[tokio::test]
async fn the_answer_to_an_unknown_version_of_api_versions_is_version_0() {
    let broker = Broker::in_memory().start().unwrap();
    let (tap, events) = tap_before(broker.address()).await;
    let mut client = TcpStream::connect(tap.address()).await.unwrap();
    client.write_all(b"\0\0\0\x0b\0\x12\0\x63\0\0\0\x07\xff\xff\0").await.unwrap();
    client.shutdown().await.unwrap();
    let mut back = Vec::new();
    client.read_to_end(&mut back).await.unwrap();
    assert_eq!(back[4..10], [0, 0, 0, 7, 0, 35]);
    let events = told(tap, events).await;
    let versions = frames(&events).iter().map(|seen| seen.head.as_ref().unwrap().version).collect::<Vec<_>>();
    assert_eq!(versions, [99, 0]);
}

/// Runs `ottla tap` with these flags before a broker, writes transactions through it, and interrupts it.
fn command(flags: &[&str]) -> (String, String) {
    command_while(flags, |address| {
        tokio::runtime::Runtime::new().unwrap().block_on(transactions(address));
    })
}

/// Runs `ottla tap` with these flags before a broker, calls `talk` with its address, and interrupts it.
fn command_while(flags: &[&str], talk: impl FnOnce(&str)) -> (String, String) {
    let broker = Broker::in_memory().start().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_ottla"))
        .args(["tap", "--listen", "127.0.0.1:0", "--to", &broker.address().to_string()])
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    // The output is read concurrently, since a full pipe would block the tap.
    let mut out = child.stdout.take().unwrap();
    let out = std::thread::spawn(move || std::io::read_to_string(&mut out).unwrap());
    let mut first = String::new();
    err.read_line(&mut first).unwrap();
    let address = first.split(' ').nth(4).unwrap().trim_end_matches(',').to_owned();
    talk(&address);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    (out.join().unwrap(), rest)
}

#[test]
fn the_command_shows_a_line_for_each_frame_and_a_table_at_the_end() {
    let (out, err) = command(&[]);
    assert_eq!(err, "");
    let (frames, table) = out.split_once("\n\n").unwrap();
    assert!(frames.starts_with("TIME (UTC)"), "{out}");
    let line = |words: &str| frames.lines().any(|line| words.split(' ').all(|word| line.contains(word)));
    assert!(line("-> ApiVersions ottla") && line("<- EndTxn v ms"), "{out}");
    assert!(line("<- Metadata addresses rewritten"), "{out}");
    assert!(table.starts_with("API") && table.contains("TxnOffsetCommit"), "{out}");
    assert!(table.lines().skip(1).all(|line| line.ends_with(" 0")), "no faulty frames: {table}");
}

#[test]
fn a_client_id_cannot_forge_a_line_or_control_the_terminal() {
    let id = "a\n12:00:00 forged \u{1b}]0;title\u{7}\u{202e}";
    let talk = |address: &str| {
        use std::io::Write;
        let text = Text::from(id);
        let request = frame::request(7, Some(&text), &ApiVersionsRequest::default(), 0).unwrap().to_bytes();
        let mut client = std::net::TcpStream::connect(address).unwrap();
        client.write_all(&request).unwrap();
        client.read_exact(&mut [0; 8]).unwrap();
    };
    let (out, _) = command_while(&["--tree"], talk);
    assert!(!out.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{out:?}");
    assert!(!out.lines().any(|line| line.starts_with("12:00:00 forged")), "{out}");
    assert!(out.contains(r"a\n12:00:00 forged \u{1b}]0;title\u{7}\u{202e}"), "{out}");
    let (out, _) = command_while(&["--json"], talk);
    assert!(!out.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{out:?}");
    let frame: serde_json::Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!(frame["client_id"], id);
}

#[test]
fn the_command_filters_and_prints_json() {
    let (out, _) = command(&["--json", "--bytes", "--filter", "api=produce,topic=t,client=ott*"]);
    let frames: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(frames.len(), 6, "{out}");
    for (place, frame) in frames.iter().enumerate() {
        assert_eq!(frame["api"], "Produce");
        assert_eq!(frame["direction"], if place % 2 == 0 { "request" } else { "response" });
        let bytes = frame["bytes"].as_u64().unwrap() as usize;
        assert_eq!(frame["hex"].as_str().unwrap().len(), 2 * bytes);
        assert_eq!((&frame["topics"][0], &frame["faults"]), (&"t".into(), &serde_json::json!([])));
    }
    assert!(command(&["--json", "--filter", "topic=other"]).0.is_empty());
}

#[test]
fn the_command_shows_trees() {
    let (out, _) = command(&["--tree", "--filter", "api=Produce"]);
    assert!(out.contains("TransactionalId") && out.contains("RecordBatch"), "{out}");
}

#[test]
fn the_command_writes_a_capture_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tap.pcapng");
    let (out, _) = command(&["--json", "--bytes", "--pcapng", path.to_str().unwrap()]);
    let printed: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut read = Vec::new();
    let mut sink = |_: &Topics, _: &Connection, _: Time, event: conversation::Event| {
        if let conversation::Event::Frame(frame) = event {
            read.push(frame.head.map(|head| (head.key.0, head.version, head.correlation_id)));
        }
    };
    let mut reading = CaptureReader::new(Settings::default());
    reading.push(&std::fs::read(&path).unwrap(), &mut sink).unwrap();
    reading.finish(&mut sink).unwrap();
    let number = |frame: &serde_json::Value, name: &str| frame[name].as_i64().unwrap();
    let head = |frame: &serde_json::Value| {
        Some((
            number(frame, "api_key") as i16,
            number(frame, "version") as i16,
            number(frame, "correlation_id") as i32,
        ))
    };
    assert_eq!(read, printed.iter().map(head).collect::<Vec<_>>());
}
