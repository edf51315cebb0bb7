//! Topics that are filled, emptied and deleted, so that segments are freed and snapshots are written during the run.
//! The history does not contain its records.

use crate::client::{Care, Client};
use crate::random::Random;
use crate::world::{World, rest};
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use ottla_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::messages::{CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest, ProduceRequest};
use ottla_wire::{Records, Text};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A `retention.ms` that no other topic has.
const OWN: &str = "3600000";
/// Bytes of the values, at most.
const LARGE: u64 = 12_000;

/// Performs its operations. A failed one is not repeated.
pub(crate) async fn run(world: Arc<World>, number: u64, mut random: Random) {
    let mut client = Client::new(&world, format!("churn{number}"), random.fork());
    let topic: Text = format!("churn-{number}").as_str().into();
    for _ in 0..2 * world.plan.crew.ops {
        rest(&mut random, 150).await;
        match random.within(0..10) {
            0 | 1 => {
                create(&mut client, &topic).await;
                for _ in 0..random.pick(&[0, 1, 3, 12]) {
                    fill(&mut client, &topic).await;
                }
            }
            2 => delete_topic(&mut client, &topic).await,
            3 | 4 => delete_records(&mut client, &topic).await,
            _ => fill(&mut client, &topic).await,
        }
    }
}

fn until() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

async fn create(client: &mut Client, topic: &Text) {
    // Some have a short retention; some have a retention class of their own, so that their runs are removed with them.
    let kept = [("retention.bytes", client.random.pick(&["-1", "0", "20000"])), ("retention.ms", OWN)];
    let count = client.random.within(1..3) as usize;
    let config = |(name, value): &(&str, &str)| CreatableTopicConfig {
        name: (*name).into(),
        value: Some((*value).into()),
        ..Default::default()
    };
    let configs = kept[..count].iter().map(config).collect();
    let topic = CreatableTopic {
        name: topic.clone(),
        num_partitions: client.random.within(1..4) as i32,
        replication_factor: 1,
        configs,
        ..Default::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 5000, ..Default::default() };
    let _ = client.settle(&request, 5, Care::Ghost, until()).await;
}

async fn delete_topic(client: &mut Client, topic: &Text) {
    let request =
        DeleteTopicsRequest { topic_names: vec![topic.clone()], timeout_ms: 5000, ..Default::default() };
    let _ = client.settle(&request, 5, Care::Ghost, until()).await;
}

async fn delete_records(client: &mut Client, topic: &Text) {
    // -1 stands for the high watermark.
    let all = |partition_index| DeleteRecordsPartition { partition_index, offset: -1, ..Default::default() };
    let partitions = (0..2).map(all).collect();
    let topic = DeleteRecordsTopic { name: topic.clone(), partitions, ..Default::default() };
    let request = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 5000, ..Default::default() };
    let _ = client.settle(&request, 2, Care::Ghost, until()).await;
}

async fn fill(client: &mut Client, topic: &Text) {
    let filler = vec![b'#'; client.random.within(0..LARGE) as usize];
    let mut batch = BatchBuilder::new(Compression::None);
    batch.push(&NewRecord { timestamp: 1, key: None, value: Some(&filler), headers: &[] });
    let partition = PartitionProduceData {
        index: client.random.pick(&[0, 0, 1]),
        records: batch.build().ok().map(Records::from),
        ..Default::default()
    };
    let topic =
        TopicProduceData { name: topic.clone(), partition_data: vec![partition], ..Default::default() };
    let acks = client.random.pick(&[-1, 1]);
    let request = ProduceRequest { acks, timeout_ms: 5000, topic_data: vec![topic], ..Default::default() };
    let _ = client.ask(&request, 9, Care::Ghost, Duration::from_secs(3)).await;
}
