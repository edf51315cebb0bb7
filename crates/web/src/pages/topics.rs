//! Topics, and one topic with its partitions and their producers.

use super::holding::{Held, Open};
use super::text::{hex, moment, size};
use crate::asked::{Asked, Refusal};
use crate::shell::Shell;
use askama::Template;
use ottla_core::Shard;
use ottla_core::catalog::Topic;
use ottla_core::partition::Partition;
use ottla_types::{Millis, TopicPartition};
use serde::Serialize;
use std::collections::BTreeMap;

/// The list of topics.
#[derive(Template, Serialize)]
#[template(path = "topics.html")]
pub(crate) struct TopicsPage {
    #[serde(skip)]
    shell: Shell,
    #[serde(skip)]
    filter: String,
    topics: Vec<TopicRow>,
    /// Topics that are not listed, for there are too many.
    left_out: usize,
}

/// A topic in the list.
#[derive(Serialize)]
struct TopicRow {
    name: String,
    id: String,
    partitions: i32,
    /// Offsets between start and high watermark of all partitions.
    offsets: i64,
    bytes: u64,
    /// Partitions whose last stable offset is held back.
    held_partitions: usize,
}

pub(crate) async fn topics(asked: Asked) -> Result<TopicsPage, Refusal> {
    let filter = asked.text("q").unwrap_or_default().to_owned();
    let wanted = filter.clone();
    let look = asked.app.broker.host().read(move |shard, _| {
        let topics = shard.catalog().topics_by_name().filter(|topic| topic.name.contains(&wanted));
        topics.map(|topic| TopicRow::of(shard, topic)).collect()
    });
    let (topics, left_out) = super::cut(look.await?);
    Ok(TopicsPage { shell: asked.shell("Topics", "Topics"), filter, topics, left_out })
}

impl TopicRow {
    fn of(shard: &Shard, topic: &Topic) -> TopicRow {
        let all = || partitions(shard, topic).map(|(_, partition)| partition);
        TopicRow {
            name: topic.name.clone(),
            id: hex(&topic.id.0),
            partitions: topic.partitions,
            offsets: all().map(|one| one.high_watermark().0 - one.log_start().0).sum(),
            bytes: all().map(Partition::bytes).sum(),
            held_partitions: all().filter(|one| one.holder().is_some()).count(),
        }
    }
}

/// The partitions of a topic, in order.
fn partitions<'a>(shard: &'a Shard, topic: &Topic) -> impl Iterator<Item = (i32, &'a Partition)> {
    let id = topic.id;
    (0..topic.partitions).filter_map(move |partition| {
        Some((partition, shard.partitions().get(TopicPartition { topic: id, partition })?))
    })
}

/// One topic.
#[derive(Template, Serialize)]
#[template(path = "topic.html")]
pub(crate) struct TopicPage {
    #[serde(skip)]
    shell: Shell,
    name: String,
    id: String,
    /// What was configured for this topic.
    configs: BTreeMap<String, String>,
    partitions: Vec<PartitionRow>,
    partitions_left_out: usize,
    producers: Vec<ProducerRow>,
    producers_left_out: usize,
}

/// A partition of a topic.
#[derive(Serialize)]
struct PartitionRow {
    partition: i32,
    /// The first offset that can be read.
    start: i64,
    /// The end for read_committed readers.
    last_stable_offset: i64,
    /// The end of what is durable and so of what anybody reads.
    high_watermark: i64,
    /// The offset that the next record takes.
    end: i64,
    bytes: u64,
    producers: usize,
    held: Option<Held>,
}

/// A producer that a partition knows.
#[derive(Serialize)]
struct ProducerRow {
    partition: i32,
    producer_id: i64,
    epoch: i16,
    last_sequence: Option<i32>,
    last_append_ms: i64,
    /// First offset of its open transaction.
    transaction_start: Option<i64>,
}

struct Seen {
    id: String,
    configs: BTreeMap<String, String>,
    partitions: Vec<PartitionRow>,
    producers: Vec<ProducerRow>,
}

pub(crate) async fn topic(asked: Asked) -> Result<TopicPage, Refusal> {
    let name = asked.part("topic").to_owned();
    let wanted = name.clone();
    let look = asked.app.broker.host().read(move |shard, now| see(shard, now, &wanted));
    let seen = look.await?.ok_or_else(|| Refusal::missing(format!("there is no topic named {name:?}")))?;
    let (partitions, partitions_left_out) = super::cut(seen.partitions);
    let (producers, producers_left_out) = super::cut(seen.producers);
    Ok(TopicPage {
        shell: asked.shell(format!("Topic {name}"), "Topics"),
        name,
        id: seen.id,
        configs: seen.configs,
        partitions,
        partitions_left_out,
        producers,
        producers_left_out,
    })
}

fn see(shard: &Shard, now: Millis, name: &str) -> Option<Seen> {
    let topic = shard.catalog().topic_named(name)?;
    let open = Open::new(shard, now);
    let producers = partitions(shard, topic).flat_map(|(number, partition)| {
        partition.producers().map(move |state| ProducerRow {
            partition: number,
            producer_id: state.producer_id.0,
            epoch: state.epoch.0,
            last_sequence: state.batches.last().map(|batch| batch.last_sequence),
            last_append_ms: state.last_append.0,
            transaction_start: state.transaction_start.map(|offset| offset.0),
        })
    });
    Some(Seen {
        id: hex(&topic.id.0),
        configs: topic.configs.clone(),
        producers: producers.collect(),
        partitions: partitions(shard, topic).map(|(number, one)| row(number, one, &open)).collect(),
    })
}

fn row(partition: i32, one: &Partition, open: &Open<'_>) -> PartitionRow {
    PartitionRow {
        partition,
        start: one.log_start().0,
        last_stable_offset: one.last_stable().0,
        high_watermark: one.high_watermark().0,
        end: one.next_offset().0,
        bytes: one.bytes(),
        producers: one.producer_count(),
        held: open.holding(one),
    }
}
