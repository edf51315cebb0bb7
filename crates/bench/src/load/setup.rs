//! Topics and producer ids.

use super::settings::Settings;
use super::template::{BatchShape, Template};
use crate::connection::Connection;
use ottla_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use ottla_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::messages::metadata_request::MetadataRequestTopic;
use ottla_wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, InitProducerIdRequest, ListOffsetsRequest, MetadataRequest,
};
use ottla_wire::{ErrorCode, Text};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
/// Partitions that one request asks for at most: Apache Kafka 4.4 creates no more than 10,000 at once.
const AT_ONCE: i32 = 5000;

/// `do=create` with `partitions=` and `config=NAME:VALUE,...`, or `do=delete`.
pub(crate) fn topic(settings: &Settings) -> Result<(), String> {
    let mut connection = Connection::open(settings.text("broker")?)?;
    let name = Text::from(settings.text_or("topic", "load"));
    match settings.text("do")? {
        "create" => create(&mut connection, &name, settings),
        "delete" => delete(&mut connection, &name),
        other => Err(format!("do={other} is neither create nor delete")),
    }
}

fn create(connection: &mut Connection, name: &Text, settings: &Settings) -> Result<(), String> {
    let partitions: i32 = settings.number("partitions", 1)?;
    let config = |pair: &str| {
        let (name, value) = pair.split_once(':')?;
        Some(CreatableTopicConfig { name: name.into(), value: Some(value.into()), ..Default::default() })
    };
    let topic = CreatableTopic {
        name: name.clone(),
        num_partitions: partitions.min(AT_ONCE),
        replication_factor: 1,
        configs: settings.text_or("config", "").split(',').filter_map(config).collect(),
        ..Default::default()
    };
    let ask = CreateTopicsRequest { topics: vec![topic], timeout_ms: 60_000, ..Default::default() };
    let begun = Instant::now();
    loop {
        let answer = connection.call(&ask, 5)?;
        match answer.topics.first().map_or(0, |topic| topic.error_code) {
            0 => break,
            // Of a topic that is still being deleted.
            code if code == ErrorCode::TOPIC_ALREADY_EXISTS.0 && begun.elapsed() < LIMIT => {
                sleep(Duration::from_millis(20));
            }
            code => return Err(format!("creating {} answered error {code}", &**name)),
        }
    }
    if partitions > AT_ONCE {
        grow(connection, name, partitions)?;
    }
    await_leaders(connection, name, partitions)
}

fn grow(connection: &mut Connection, name: &Text, partitions: i32) -> Result<(), String> {
    use ottla_wire::messages::CreatePartitionsRequest;
    use ottla_wire::messages::create_partitions_request::CreatePartitionsTopic;
    let topic = CreatePartitionsTopic {
        name: name.clone(),
        count: partitions,
        assignments: None,
        ..Default::default()
    };
    let ask = CreatePartitionsRequest { topics: vec![topic], timeout_ms: 60_000, ..Default::default() };
    match connection.call(&ask, 3)?.results.first().map_or(0, |topic| topic.error_code) {
        0 => Ok(()),
        code => Err(format!("growing {} answered error {code}", &**name)),
    }
}

fn await_leaders(connection: &mut Connection, name: &Text, partitions: i32) -> Result<(), String> {
    let topic = MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
    let ask = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    let begun = Instant::now();
    loop {
        let answer = connection.call(&ask, 9)?;
        let led = answer.topics.first().map_or(0, |topic| {
            topic.partitions.iter().filter(|row| row.error_code == 0 && row.leader_id >= 0).count()
        });
        // What the metadata says is true of the controller first and of the partitions a moment later.
        if led == partitions as usize && are_led(connection, name, partitions)? {
            return Ok(());
        }
        if begun.elapsed() > LIMIT {
            return Err(format!("{led} of {partitions} partitions have a leader"));
        }
        sleep(Duration::from_millis(20));
    }
}

/// Whether every partition tells where its end is.
fn are_led(connection: &mut Connection, name: &Text, partitions: i32) -> Result<bool, String> {
    let partition = |partition_index| ListOffsetsPartition {
        partition_index,
        current_leader_epoch: -1,
        timestamp: -1,
        ..Default::default()
    };
    let topic = ListOffsetsTopic {
        name: name.clone(),
        partitions: (0..partitions).map(partition).collect(),
        ..Default::default()
    };
    let ask = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let answer = connection.call(&ask, 4)?;
    let mut rows = answer.topics.iter().flat_map(|topic| &topic.partitions);
    Ok(rows.all(|row| row.error_code == 0))
}

fn delete(connection: &mut Connection, name: &Text) -> Result<(), String> {
    let ask =
        DeleteTopicsRequest { topic_names: vec![name.clone()], timeout_ms: 60_000, ..Default::default() };
    match connection.call(&ask, 5)?.responses.first().map_or(0, |topic| topic.error_code) {
        0 => Ok(()),
        code => Err(format!("deleting {} answered error {code}", &**name)),
    }
}

/// A producer id and epoch, for a producer that is idempotent and has no transactions.
pub(crate) fn producer(connection: &mut Connection) -> Result<(i64, i16), String> {
    if connection.is_null() {
        return Ok((1, 0));
    }
    let ask = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: 60_000,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    let begun = Instant::now();
    loop {
        let answer = connection.call(&ask, 4)?;
        match answer.error_code {
            0 => return Ok((answer.producer_id, answer.producer_epoch)),
            code if code == ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.0 && begun.elapsed() < LIMIT => {
                sleep(Duration::from_millis(20));
            }
            code => return Err(format!("InitProducerId answered error {code}")),
        }
    }
}

/// The partitions that are written to: all, or `active=` of them, evenly spread.
pub(crate) fn targets(settings: &Settings) -> Result<Vec<i32>, String> {
    let partitions: i32 = settings.number("partitions", 1)?;
    let active: i32 = settings.number("active", partitions)?;
    if partitions < 1 || active < 1 || active > partitions {
        return Err(format!("{active} of {partitions} partitions"));
    }
    let stride = partitions / active;
    Ok((0..active).map(|number| number * stride).collect())
}

/// Bytes of batches and number of records of one request.
pub(crate) fn size_of(settings: &Settings, shape: &BatchShape) -> Result<(usize, usize), String> {
    let each: usize = settings.number("each", 1)?;
    let one = Template::new("", 1, shape, -1).batches();
    Ok((one * each.max(1), shape.records * each.max(1)))
}
