//! Clients that misbehave: too many, idle, disconnected in the middle of a request, or never reading.

use crate::binary::{LONG, Ottla, data};
use crate::work::{self, record};
use ottla_client::{Producer, ProducerOptions};
use ottla_wire::frame;
use ottla_wire::messages::FetchRequest;
use ottla_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A wrapper that sets the limit of file descriptors.
fn descriptors(most: u32) -> Vec<String> {
    ["sh".to_owned(), "-c".to_owned(), format!("ulimit -n {most}; exec \"$0\" \"$@\"")].into()
}

#[tokio::test]
async fn with_64_descriptors_who_is_connected_is_served_and_others_come_in_when_there_is_room() {
    let (_folder, data) = data();
    let ottla = Ottla::start_within(&descriptors(64), &data).unwrap();
    let client = work::client(&ottla.address, LONG).await.unwrap();
    let mut producer = Producer::start(client.clone(), ProducerOptions::default()).await.unwrap();
    producer.send("before", Some(0), vec![record("1")]).await.unwrap();
    let mut crowd = Vec::new();
    for _ in 0..100 {
        crowd.push(TcpStream::connect(&ottla.address).await.unwrap());
    }
    let patience = Duration::from_secs(1);
    assert!(
        work::client(&ottla.address, patience).await.is_err(),
        "there is room for all, which proves nothing"
    );
    producer.send("before", Some(0), vec![record("2")]).await.unwrap();
    drop(crowd);
    assert_eq!(work::values(&client, "before").await.unwrap(), ["1", "2"]);
    let seen = work::run(&ottla.address).await;
    assert!(seen.is_all(), "{seen:?}");
    let said = ottla.said();
    assert!(said.contains("cannot accept a connection") && !said.contains("panicked"), "{said}");
    assert!(ottla.stop().status.success());
    let ottla = Ottla::start(&data);
    work::check(&ottla.address, &seen, "after").await;
}

#[tokio::test]
async fn connections_reset_in_the_middle_of_a_frame_harm_nobody() {
    let (_folder, data) = data();
    let ottla = Ottla::start(&data);
    // A Produce request of 1 MB that ends after some bytes.
    let frame =
        [&1_000_000i32.to_be_bytes()[..], &[0, 0, 0, 9, 0, 0, 0, 1, 0, 1, b'x', 0], &[1; 300_000]].concat();
    for length in [1, 3, 4, 5, 13, 20, 100_000, 300_000].repeat(5) {
        let mut peer = TcpStream::connect(&ottla.address).await.unwrap();
        peer.write_all(&frame[..length]).await.unwrap();
        peer.set_zero_linger().unwrap();
    }
    let seen = work::run(&ottla.address).await;
    assert!(seen.is_all(), "{seen:?}");
    work::check(&ottla.address, &seen, "after").await;
    assert!(!ottla.said().contains("panicked"), "{}", ottla.said());
}

#[tokio::test]
async fn readers_that_never_drain_cost_no_more_than_is_allowed() {
    let (_folder, data) = data();
    let ottla = Ottla::start(&data);
    let client = work::client(&ottla.address, LONG).await.unwrap();
    let mut producer = Producer::start(client.clone(), ProducerOptions::default()).await.unwrap();
    let value = "x".repeat(800_000);
    for _ in 0..20 {
        producer.send("t", Some(0), vec![record(&value), record(&value)]).await.unwrap();
    }
    let topic_id = client.ready_topic("t", true).await.unwrap().id;
    let partition = FetchPartition { partition: 0, partition_max_bytes: 32 << 20, ..Default::default() };
    let topic = FetchTopic { topic_id, partitions: vec![partition], ..Default::default() };
    let fetch =
        FetchRequest { max_wait_ms: 0, max_bytes: 32 << 20, topics: vec![topic], ..Default::default() };
    let frame = frame::request(1, None, &fetch, 17).unwrap().to_bytes();
    let mut deaf = Vec::new();
    for _ in 0..40 {
        let mut peer = TcpStream::connect(&ottla.address).await.unwrap();
        for _ in 0..4 {
            peer.write_all(&frame).await.unwrap();
        }
        deaf.push(peer);
    }
    // The 160 responses together would be 5 GiB. The first response of each connection arrives, so the broker serves
    // them.
    for peer in &mut deaf {
        let mut length = [0; 4];
        timeout(LONG, peer.read_exact(&mut length)).await.unwrap().unwrap();
    }
    assert_eq!(work::values(&client, "t").await.unwrap().len(), 40);
    let seen = work::run(&ottla.address).await;
    assert!(seen.is_all(), "{seen:?}");
    let peak = ottla.peak();
    assert!(peak < 256 << 20, "{peak} bytes");
}

#[tokio::test]
#[ignore = "needs 20000 file descriptors: cargo xtask faults"]
async fn ten_thousand_idle_connections_cost_little() {
    let (_folder, data) = data();
    let ottla = Ottla::start_within(&descriptors(12_000), &data).unwrap();
    let client = work::client(&ottla.address, LONG).await.unwrap();
    client.topics().await.unwrap();
    let before = ottla.resident();
    // With that of the client and the next one: the broker accepts 10000.
    let most = 9_990;
    let mut idle = Vec::new();
    for _ in 0..most {
        let mut peer = TcpStream::connect(&ottla.address).await.unwrap();
        // ApiVersions version 0, so that each connection has been served once.
        peer.write_all(&[0, 0, 0, 11, 0, 18, 0, 0, 0, 0, 0, 1, 0, 1, b'x']).await.unwrap();
        let mut length = [0; 4];
        timeout(LONG, peer.read_exact(&mut length)).await.unwrap().unwrap();
        let mut answer = vec![0; i32::from_be_bytes(length) as usize];
        timeout(LONG, peer.read_exact(&mut answer)).await.unwrap().unwrap();
        idle.push(peer);
    }
    let each = ottla.resident().saturating_sub(before) / most;
    println!("{most} idle connections: {each} bytes each");
    assert!(each < 16 << 10, "{each} bytes each");
    let seen = work::run(&ottla.address).await;
    assert!(seen.is_all(), "{seen:?}");
    drop(idle);
    work::check(&ottla.address, &seen, "after").await;
}

/// A network namespace for a broker, connected by a link that can be cut.
struct Namespace {
    name: String,
}

impl Namespace {
    fn new() -> Namespace {
        let namespace = Namespace { name: format!("ottla{}", std::process::id()) };
        let name = &namespace.name;
        for words in [
            format!("netns add {name}"),
            format!("link add {name}a type veth peer name {name}b netns {name}"),
            format!("addr add 198.18.77.1/30 dev {name}a"),
            format!("link set {name}a up"),
            format!("-n {name} addr add 198.18.77.2/30 dev {name}b"),
            format!("-n {name} link set {name}b up"),
            format!("-n {name} link set lo up"),
        ] {
            ip(&words);
        }
        namespace
    }

    /// Drops everything that is sent, without an error for either side.
    fn cut(&self) {
        ip(&format!("link set {}a down", self.name));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Deletes the link too.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status().unwrap();
    assert!(status.success(), "ip {words} ended with {status}");
}

#[tokio::test]
#[ignore = "makes a network namespace: cargo xtask faults"]
async fn peers_behind_a_link_that_is_down_are_let_go() {
    let (_folder, data) = data();
    let namespace = Namespace::new();
    let inside = ["ip", "netns", "exec", &namespace.name].map(str::to_owned);
    let more = ["--listen", "198.18.77.2:0", "--set", "connections.max.idle.ms=1000"].map(str::to_owned);
    let ottla = Ottla::start_with(&inside, &data, &more).unwrap();
    let mut peers = Vec::new();
    for number in 0..50 {
        let mut peer = TcpStream::connect(&ottla.address).await.unwrap();
        if number % 2 == 0 {
            // In the middle of a request.
            peer.write_all(&[0, 0, 0, 11, 0, 18, 0]).await.unwrap();
        }
        peers.push(peer);
    }
    let open = || ottla.sockets();
    let begun = Instant::now();
    while open() < 50 {
        assert!(begun.elapsed() < LONG, "{} of 50 connections are open", open());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    namespace.cut();
    let begun = Instant::now();
    while open() >= 10 {
        assert!(begun.elapsed() < LONG, "{} connections are open after the link was cut", open());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(ottla.stop().status.success());
}
