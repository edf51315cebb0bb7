//! Prepares a broker for the load, and checks its state afterwards.

use crate::connection::Connection;
use ottla_wire::messages::create_topics_request::CreatableTopic;
use ottla_wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use ottla_wire::messages::{CreateTopicsRequest, FindCoordinatorRequest, OffsetFetchRequest};
use ottla_wire::{ErrorCode, Text};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The topic whose offsets are committed. Nothing is in it.
pub(crate) const INPUT: &str = "bench-input";
/// The topic that records go to, a partition for each producer.
pub(crate) const OUTPUT: &str = "bench-output";
/// The group whose offsets are committed.
pub(crate) const GROUP: &str = "bench-group";
/// Partitions of both topics, and the most producers.
pub(crate) const PARTITIONS: i32 = 16;

const LIMIT: Duration = Duration::from_secs(30);
const GROUP_KEY: i8 = 0;
const TRANSACTION_KEY: i8 = 1;

/// Creates the topics and waits until both coordinators are there.
pub(crate) fn topics(broker: &str) -> Result<(), String> {
    let mut connection = Connection::open(broker)?;
    let topics = [INPUT, OUTPUT].map(|name| CreatableTopic {
        name: Text::from_static(name),
        num_partitions: PARTITIONS,
        replication_factor: 1,
        ..Default::default()
    });
    let ask = CreateTopicsRequest { topics: topics.into(), timeout_ms: 20_000, ..Default::default() };
    let answer = connection.call(&ask, 5)?;
    let settled = [0, ErrorCode::TOPIC_ALREADY_EXISTS.0];
    if let Some(bad) = answer.topics.iter().find(|topic| !settled.contains(&topic.error_code)) {
        return Err(format!("creating {} answered error {}", &*bad.name, bad.error_code));
    }
    for (key, key_type) in [(GROUP, GROUP_KEY), ("bench", TRANSACTION_KEY)] {
        let ask = FindCoordinatorRequest { key: key.into(), key_type, ..Default::default() };
        let begun = Instant::now();
        while connection.call(&ask, 3)?.error_code != 0 {
            if begun.elapsed() > LIMIT {
                return Err(format!("no coordinator for {key}"));
            }
            sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// The offset of a partition of the input topic that the group has committed. Waits out what is unstable.
pub(crate) fn committed(connection: &mut Connection, partition: i32) -> Result<i64, String> {
    let topic = OffsetFetchRequestTopic {
        name: Text::from_static(INPUT),
        partition_indexes: vec![partition].into(),
        ..Default::default()
    };
    let ask = OffsetFetchRequest {
        group_id: Text::from_static(GROUP),
        topics: Some(vec![topic]),
        require_stable: true,
        ..Default::default()
    };
    let begun = Instant::now();
    loop {
        let answer = connection.call(&ask, 7)?;
        let found = answer.topics.first().and_then(|topic| topic.partitions.first());
        let found = found.ok_or("OffsetFetch answered without the partition")?;
        let unstable = found.error_code == ErrorCode::UNSTABLE_OFFSET_COMMIT.0;
        if !unstable && found.error_code + answer.error_code != 0 {
            return Err(format!("OffsetFetch answered error {}", found.error_code + answer.error_code));
        }
        if !unstable {
            return Ok(found.committed_offset);
        }
        if begun.elapsed() > LIMIT {
            return Err("the offset does not become stable".to_owned());
        }
        sleep(Duration::from_millis(1));
    }
}
