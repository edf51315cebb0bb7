//! Clients that try to make the broker use much memory. With default settings it has at most 256 MiB resident;
//! docs/guide/memory.md explains the parts. Each test prints the peak.

use crate::binary::{LONG, Ottla, data};
use crate::work;
use bytes::Bytes;
use ottla_client::Client;
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::frame;
use ottla_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use ottla_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_wire::messages::join_group_request::JoinGroupRequestProtocol;
use ottla_wire::messages::metadata_request::MetadataRequestTopic;
use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::messages::{
    CreateTopicsRequest, FetchRequest, JoinGroupRequest, MetadataRequest, ProduceRequest,
};
use ottla_wire::{Records, Request, Text, Uuid};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The limit of resident memory, in bytes.
const LIMIT: u64 = 256 << 20;
/// Connections of an attack. Client and broker are two processes, each with its own limit of file descriptors.
const CROWD: usize = 400;
/// How long a client tries to send more.
const TRY: Duration = Duration::from_millis(300);

fn frame<R: Request>(request: &R, version: i16) -> Bytes {
    frame::request(1, None, request, version).unwrap().to_bytes()
}

/// Sends until the broker stops reading; true if everything was sent.
async fn push(peer: &mut TcpStream, bytes: &[u8]) -> bool {
    matches!(timeout(TRY, peer.write_all(bytes)).await, Ok(Ok(())))
}

/// Opens connections that send these bytes repeatedly until the broker stops reading, and read nothing.
async fn crowd(address: &str, bytes: &Bytes, times: usize) -> Vec<TcpStream> {
    let peers = (0..CROWD).map(|_| {
        let (address, bytes) = (address.to_owned(), bytes.clone());
        tokio::spawn(async move {
            let mut peer = TcpStream::connect(&address).await.ok()?;
            for _ in 0..times {
                if !push(&mut peer, &bytes).await {
                    break;
                }
            }
            Some(peer)
        })
    });
    let mut all = Vec::new();
    for peer in peers.collect::<Vec<_>>() {
        all.extend(peer.await.unwrap());
    }
    all
}

/// A batch with one record of so many bytes, or many small records.
fn batch(codec: Compression, value: &[u8], records: usize, producer: i64) -> Bytes {
    let mut builder = BatchBuilder::new(codec);
    if producer >= 0 {
        builder = builder.producer(producer, 0, 0);
    }
    for _ in 0..records {
        builder.push(&NewRecord { value: Some(value), ..NewRecord::default() });
    }
    builder.build().unwrap()
}

fn produce(topic: &str, partitions: impl Iterator<Item = (i32, Bytes)>) -> ProduceRequest {
    let data = |(index, batch)| PartitionProduceData {
        index,
        records: Some(Records::from(batch)),
        ..Default::default()
    };
    let topic = TopicProduceData {
        name: topic.into(),
        partition_data: partitions.map(data).collect(),
        ..Default::default()
    };
    ProduceRequest { acks: -1, timeout_ms: 1000, topic_data: vec![topic], ..Default::default() }
}

fn fetch(topic_id: Uuid, partitions: i32, offset: i64) -> Bytes {
    let partition = |partition| FetchPartition {
        partition,
        fetch_offset: offset,
        partition_max_bytes: i32::MAX,
        ..Default::default()
    };
    let topic =
        FetchTopic { topic_id, partitions: (0..partitions).map(partition).collect(), ..Default::default() };
    let fetch = FetchRequest { max_bytes: i32::MAX, topics: vec![topic], ..Default::default() };
    frame(&fetch, 17)
}

/// A broker under attack.
struct AttackedBroker {
    ottla: Ottla,
    client: Client,
    _folder: tempfile::TempDir,
}

impl AttackedBroker {
    async fn new(more: &[&str]) -> AttackedBroker {
        let (folder, data) = data();
        let more: Vec<String> =
            ["--listen", "127.0.0.1:0"].iter().chain(more).map(|word| (*word).to_owned()).collect();
        let ottla = Ottla::start_with(&[], &data, &more).unwrap();
        let client = work::client(&ottla.address, LONG).await.unwrap();
        AttackedBroker { ottla, client, _folder: folder }
    }

    async fn topic(&self, name: &str, partitions: i32) -> Uuid {
        let large = CreatableTopicConfig {
            name: "max.message.bytes".into(),
            value: Some("100000000".into()),
            ..Default::default()
        };
        let topic = CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: -1,
            configs: vec![large],
            ..Default::default()
        };
        let create = CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
        let answer = self.client.call(ottla_client::Node::Any, create).await.unwrap();
        assert_eq!(answer.topics[0].error_code, 0);
        self.client.ready_topic(name, false).await.unwrap().id
    }

    /// Produces over one connection, waiting for each answer.
    async fn fill(&self, request: &Bytes, times: usize) {
        let mut peer = TcpStream::connect(&self.ottla.address).await.unwrap();
        for _ in 0..times {
            peer.write_all(request).await.unwrap();
            let mut length = [0; 4];
            timeout(LONG, peer.read_exact(&mut length)).await.unwrap().unwrap();
            let mut answer = vec![0; i32::from_be_bytes(length) as usize];
            timeout(LONG, peer.read_exact(&mut answer)).await.unwrap().unwrap();
        }
    }

    /// Checks that other clients are served and that the memory is within the limit.
    async fn judge(&self, what: &str) {
        let peak = self.ottla.peak();
        println!("{what}: {} MiB at most, {} MiB now", peak >> 20, self.ottla.resident() >> 20);
        // It may still be busy with the attack.
        for attempt in 1.. {
            let seen = work::run(&self.ottla.address).await;
            if seen.is_all() {
                break;
            }
            assert!(attempt < 10, "{what}: {seen:?}");
        }
        let peak = self.ottla.peak();
        assert!(peak <= LIMIT, "{what}: {peak} bytes");
        assert!(!self.ottla.said().contains("panicked"), "{what}: {}", self.ottla.said());
    }
}

#[tokio::test]
async fn half_requests_of_many_stay_within_the_limit() {
    let target = AttackedBroker::new(&[]).await;
    let half = [&(30i32 << 20).to_be_bytes()[..], &[0, 0, 0, 9, 0, 0, 0, 1, 0, 1, b'x', 0], &[1; 4 << 20]];
    let peers = crowd(&target.ottla.address, &half.concat().into(), 1).await;
    target.judge("half of a large request each").await;
    drop(peers);
}

#[tokio::test]
#[ignore = "takes a minute and gigabytes of disk: cargo xtask faults"]
async fn produce_without_reading_stays_within_the_limit() {
    let target = AttackedBroker::new(&["--trace"]).await;
    target.topic("big", 8).await;
    let sizes = [(100, 100), (16 << 10, 20), (1 << 20, 8), (12 << 20, 1)];
    for (size, times) in sizes {
        let batch = batch(Compression::None, &vec![7; size], 1, -1);
        let request = frame(&produce("big", (0..1).map(|index| (index, batch.clone()))), 9);
        for _ in 0..2 {
            // The clients disconnect at once; their requests may still be in transit.
            drop(crowd(&target.ottla.address, &request, times).await);
        }
        println!("produce of {size} bytes: {} MiB at most so far", target.ottla.peak() >> 20);
    }
    target.judge("produce, traced, answers never read").await;
}

#[tokio::test]
#[ignore = "takes a minute and gigabytes of disk: cargo xtask faults"]
async fn giant_fetches_that_are_never_read_stay_within_the_limit() {
    let target = AttackedBroker::new(&[]).await;
    let (big, small) = (target.topic("big", 8).await, target.topic("small", 100).await);
    let large = batch(Compression::None, &vec![7; 8 << 20], 1, -1);
    target.fill(&frame(&produce("big", (0..1).map(|_| (0, large.clone()))), 9), 12).await;
    let tiny = batch(Compression::None, b"x", 1, -1);
    target.fill(&frame(&produce("small", (0..100).map(|index| (index, tiny.clone()))), 9), 500).await;
    println!("filled: {} MiB at most so far", target.ottla.peak() >> 20);
    let mut peers = Vec::new();
    for (id, partitions, offset) in [(big, 1, 0), (small, 100, 0), (big, 1, 8), (small, 100, 490)] {
        peers.extend(crowd(&target.ottla.address, &fetch(id, partitions, offset), 4).await);
        println!("fetch from {offset}: {} MiB at most so far", target.ottla.peak() >> 20);
    }
    target.judge("giant fetches, answers never read").await;
    drop(peers);
}

#[tokio::test]
#[ignore = "takes a minute and gigabytes of disk: cargo xtask faults"]
async fn requests_that_become_large_when_read_stay_within_the_limit() {
    let target = AttackedBroker::new(&[]).await;
    target.topic("many", 5000).await;
    let topic = MetadataRequestTopic { name: Some(Text::from_static("")), ..Default::default() };
    let names = MetadataRequest { topics: Some(vec![topic; 4 << 20]), ..Default::default() };
    drop(crowd(&target.ottla.address, &frame(&names, 4), 1).await);
    println!("names: {} MiB at most so far", target.ottla.peak() >> 20);
    let none = PartitionProduceData { records: None, ..Default::default() };
    let topic = TopicProduceData { partition_data: vec![none; 1 << 20], ..Default::default() };
    let produce = ProduceRequest { acks: -1, topic_data: vec![topic], ..Default::default() };
    drop(crowd(&target.ottla.address, &frame(&produce, 9), 1).await);
    println!("partitions: {} MiB at most so far", target.ottla.peak() >> 20);
    let all = frame(&MetadataRequest { topics: None, ..Default::default() }, 4);
    let peers = crowd(&target.ottla.address, &all, 200).await;
    target.judge("requests that become large when they are read, large answers never read").await;
    drop(peers);
}

#[tokio::test]
#[ignore = "takes a minute and gigabytes of disk: cargo xtask faults"]
async fn batches_that_become_large_when_opened_stay_within_the_limit() {
    let target = AttackedBroker::new(&[]).await;
    target.topic("bombs", 1).await;
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let bomb = batch(codec, &vec![0; 100 << 20], 1, -1);
        let request = frame(&produce("bombs", (0..1).map(|_| (0, bomb.clone()))), 9);
        let peers = (0..4).map(|_| {
            let (address, request) = (target.ottla.address.clone(), request.clone());
            tokio::spawn(async move {
                let mut peer = TcpStream::connect(&address).await.unwrap();
                peer.write_all(&request).await.unwrap();
                timeout(LONG, peer.read_exact(&mut [0; 4])).await.unwrap().unwrap();
            })
        });
        for peer in peers.collect::<Vec<_>>() {
            peer.await.unwrap();
        }
        println!("{codec:?}, {} bytes: {} MiB at most so far", bomb.len(), target.ottla.peak() >> 20);
    }
    target.judge("decompression bombs").await;
}

#[tokio::test]
async fn groups_and_producers_without_number_stay_within_the_limit() {
    let target = AttackedBroker::new(&[]).await;
    target.topic("ids", 1).await;
    let metadata = Bytes::from(vec![1; 500_000]);
    let mut peers = Vec::new();
    for number in 0..CROWD {
        let protocol =
            JoinGroupRequestProtocol { name: "p".into(), metadata: metadata.clone(), ..Default::default() };
        let join = JoinGroupRequest {
            group_id: format!("group {}", number % 40).into(),
            session_timeout_ms: 300_000,
            rebalance_timeout_ms: 300_000,
            protocol_type: "x".into(),
            protocols: vec![protocol],
            ..Default::default()
        };
        let mut peer = TcpStream::connect(&target.ottla.address).await.unwrap();
        push(&mut peer, &frame(&join, 2)).await;
        peers.push(peer);
    }
    println!("groups: {} MiB at most so far", target.ottla.peak() >> 20);
    for from in (0..200).map(|round| round * 100) {
        let mut peer = TcpStream::connect(&target.ottla.address).await.unwrap();
        for producer in from..from + 100 {
            let batch = batch(Compression::None, b"x", 1, 1_000_000 + producer);
            push(&mut peer, &frame(&produce("ids", (0..1).map(|_| (0, batch.clone()))), 9)).await;
        }
        peers.push(peer);
    }
    target.judge("groups with large metadata, many producer ids").await;
    drop(peers);
}
