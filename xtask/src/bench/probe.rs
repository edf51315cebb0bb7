//! Single requests over a blocking connection: the shortest way to an acknowledgement, the same for every broker.

use ottla_client::BlockingConnection;
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::messages::create_topics_request::CreatableTopic;
use ottla_wire::messages::metadata_request::MetadataRequestTopic;
use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::messages::{ApiVersionsRequest, CreateTopicsRequest, MetadataRequest, ProduceRequest};
use ottla_wire::{Request, Text};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const TOPIC: &str = "first";
const METADATA: i16 = 9;
const PRODUCE: i16 = 9;

/// Tries until a record of a topic that did not exist before is acknowledged by all replicas.
pub(super) fn first_record(broker: SocketAddr, deadline: Instant) -> Result<(), String> {
    loop {
        match attempt(broker) {
            Ok(()) => return Ok(()),
            Err(why) if Instant::now() >= deadline => return Err(format!("no acknowledgement: {why}")),
            Err(_) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// Tries until ApiVersions is answered.
pub(super) fn first_answer(broker: SocketAddr, deadline: Instant) -> Result<(), String> {
    loop {
        match connect(broker).and_then(|mut broker| call(&mut broker, &ApiVersionsRequest::default(), 0)) {
            Ok(_) => return Ok(()),
            Err(why) if Instant::now() >= deadline => return Err(format!("no answer: {why}")),
            Err(_) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// Creates topic number `topic`.
pub(super) fn create_topic(broker: SocketAddr, topic: usize, partitions: i32) -> Result<(), String> {
    let topic = CreatableTopic {
        name: name(topic),
        num_partitions: partitions,
        replication_factor: 1,
        ..Default::default()
    };
    let ask = CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() };
    let answer = call(&mut connect(broker)?, &ask, 5)?;
    match answer.topics.first().map(|topic| topic.error_code) {
        Some(0) => Ok(()),
        code => Err(format!("CreateTopics: {code:?}")),
    }
}

/// Appends `bytes` to topic number 0, 64 KiB to each of its partitions in a request.
pub(super) fn fill(broker: SocketAddr, partitions: i32, bytes: u64) -> Result<(), String> {
    const BATCH: usize = 64 << 10;
    let mut broker = connect(broker)?;
    let value = vec![b'v'; BATCH - 100];
    let mut batch = BatchBuilder::new(Compression::None);
    batch.push(&NewRecord { timestamp: 0, key: None, value: Some(&value), headers: &[] });
    let records = batch.build().map_err(|e| e.to_string())?;
    for _ in 0..bytes / (BATCH as u64 * partitions as u64) {
        let one = |index| PartitionProduceData {
            index,
            records: Some(records.clone().into()),
            ..Default::default()
        };
        let partition_data = (0..partitions).map(one).collect();
        let topic = TopicProduceData { name: name(0), partition_data, ..Default::default() };
        let ask =
            ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data: vec![topic], ..Default::default() };
        let answer = call(&mut broker, &ask, PRODUCE)?;
        let results = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
        if let Some(refused) = results.map(|result| result.error_code).find(|code| *code != 0) {
            return Err(format!("Produce: {refused}"));
        }
    }
    Ok(())
}

fn name(topic: usize) -> Text {
    Text::from(format!("topic-{topic}"))
}

fn connect(broker: SocketAddr) -> Result<BlockingConnection, String> {
    open(broker, Duration::from_secs(30))
}

fn open(broker: SocketAddr, limit: Duration) -> Result<BlockingConnection, String> {
    BlockingConnection::open(broker, "probe", limit).map_err(|e| e.to_string())
}

fn attempt(broker: SocketAddr) -> Result<(), String> {
    let mut broker = open(broker, Duration::from_secs(5))?;
    loop {
        let topic = MetadataRequestTopic { name: Some(Text::from_static(TOPIC)), ..Default::default() };
        let ask = MetadataRequest {
            topics: Some(vec![topic]),
            allow_auto_topic_creation: true,
            ..Default::default()
        };
        let answer = call(&mut broker, &ask, METADATA)?;
        let ready = answer.topics.first().is_some_and(|t| t.error_code == 0 && !t.partitions.is_empty());
        if ready && produce(&mut broker)? {
            return Ok(());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn produce(broker: &mut BlockingConnection) -> Result<bool, String> {
    let mut batch = BatchBuilder::new(Compression::None);
    batch.push(&NewRecord { timestamp: 0, key: None, value: Some(b"first"), headers: &[] });
    let records = batch.build().map_err(|e| e.to_string())?;
    let partition = PartitionProduceData { index: 0, records: Some(records.into()), ..Default::default() };
    let topic = TopicProduceData {
        name: Text::from_static(TOPIC),
        partition_data: vec![partition],
        ..Default::default()
    };
    let ask = ProduceRequest { acks: -1, timeout_ms: 5000, topic_data: vec![topic], ..Default::default() };
    let answer = call(broker, &ask, PRODUCE)?;
    let result = answer.responses.first().and_then(|topic| topic.partition_responses.first());
    Ok(result.is_some_and(|partition| partition.error_code == 0))
}

fn call<R: Request>(broker: &mut BlockingConnection, ask: &R, version: i16) -> Result<R::Response, String> {
    broker.call(ask, version).map_err(|e| e.to_string())
}
