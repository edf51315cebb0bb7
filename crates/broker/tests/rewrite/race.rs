//! A Fetch whose planned data is freed before it reads plans again, and responds as if nothing had been moved.

use crate::world::{World, at, poll};
use ottla_broker::{AdvertisedAddress, Context, ContextOptions, StreamServer};
use ottla_wire::batch::split as batches;
use ottla_wire::messages::Request;
use ottla_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_wire::messages::fetch_response::PartitionData;
use ottla_wire::messages::{FetchRequest, FetchResponse};
use ottla_wire::{Message, Uuid, frame};
use std::net::SocketAddr;
use std::pin::Pin;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};

const VERSION: i16 = 16;

/// A connection whose broker side advances only when the test polls it.
struct Fetch {
    _server: StreamServer,
    serving: Pin<Box<dyn Future<Output = String>>>,
    peer: DuplexStream,
}

impl Fetch {
    /// Fetches a topic from its first offset on. The plan is made; nothing is read yet.
    fn planned(world: &mut World, topic: u8) -> Fetch {
        let (host, reader) = (world.driven.host().clone(), world.driven.reader());
        let advertised = AdvertisedAddress { host: "localhost".to_owned(), port: 9092 };
        let options = ContextOptions::new(advertised, "memory");
        let context = world.wait(Context::new(host, reader, options)).unwrap();
        let mut server = StreamServer::new(context);
        let (mut peer, broker) = duplex(8 << 20);
        let (source, sink) = split(broker);
        let mut serving = Box::pin(server.serve(SocketAddr::from(([127, 0, 0, 1], 1)), source, sink));
        let sent = frame::request(1, None, &request(topic), VERSION).unwrap().to_bytes();
        poll(&mut Box::pin(peer.write_all(&sent))).unwrap().unwrap();
        assert!(poll(&mut serving).is_none());
        world.driven.turn(world.now);
        Fetch { _server: server, serving, peer }
    }

    /// Continues to the response. Returns its only row.
    fn answer(mut self, world: &mut World) -> PartitionData {
        let mut bytes = Vec::new();
        for _ in 0..10 {
            assert!(poll(&mut self.serving).is_none(), "the connection is closed");
            world.driven.turn(world.now);
            while let Some(read) = poll(&mut Box::pin(self.peer.read_buf(&mut bytes))) {
                assert!(read.unwrap() > 0);
            }
        }
        assert!(bytes.len() > 4, "no answer");
        let answer = bytes::Bytes::from(bytes).slice(4..);
        let (_, mut body) = frame::read_response_header(&answer, FetchRequest::KEY, VERSION).unwrap();
        let mut answer = FetchResponse::decode(&mut body, VERSION).unwrap();
        answer.responses.remove(0).partitions.remove(0)
    }
}

fn request(topic: u8) -> FetchRequest {
    let most = 1 << 20;
    let partition = FetchPartition { partition_max_bytes: most, ..Default::default() };
    let topic_id = Uuid(at(topic).topic.0);
    let topic = FetchTopic { topic_id, partitions: vec![partition], ..Default::default() };
    FetchRequest {
        max_bytes: most,
        min_bytes: 1,
        session_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    }
}

/// Asserts that the response begins with the first batch of the topic.
fn check(row: &PartitionData) {
    assert_eq!(row.error_code, 0);
    let bytes = row.records.as_ref().unwrap().to_bytes();
    let first = batches(&bytes).next().unwrap().unwrap();
    first.check_crc().unwrap();
    assert_eq!(first.header().base_offset, 0);
}

/// Produces until a file that existed at the beginning is deleted.
fn produce_until_gone(world: &mut World, kind: &str) {
    let first = world.files(kind)[0].0.clone();
    for _ in 0..400 {
        world.produce(1, 10_000).unwrap();
        world.run(1);
        if world.files(kind).iter().all(|(name, _)| *name != first) {
            return;
        }
    }
    panic!("{first} stays");
}

#[tokio::test(start_paused = true)]
async fn a_fetch_plans_again_if_its_segment_was_freed() {
    let mut world = World::new(&[]);
    world.create(1, &[]);
    world.produce(1, 10_000).unwrap();
    let fetch = Fetch::planned(&mut world, 1);
    produce_until_gone(&mut world, "segment-");
    check(&fetch.answer(&mut world));
}

#[tokio::test(start_paused = true)]
async fn a_fetch_plans_again_if_its_run_was_removed() {
    let mut world = World::new(&[("ottla.runs.max", "2")]);
    world.create(1, &[]);
    while world.files("run-").is_empty() {
        world.produce(1, 10_000).unwrap();
        world.run(1);
    }
    world.run(3);
    let fetch = Fetch::planned(&mut world, 1);
    produce_until_gone(&mut world, "run-");
    check(&fetch.answer(&mut world));
}
