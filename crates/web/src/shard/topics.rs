//! Topics, and one topic with its partitions and their producers.

use super::blocking::{Blocker, OpenTransactions};
use crate::format::hex;
use ottla_broker::Context;
use ottla_broker::host::HostGone;
use ottla_core::Shard;
use ottla_core::catalog::Topic;
use ottla_core::partitions::Partition;
use ottla_types::{Millis, TopicPartition};
use serde::Serialize;
use std::collections::BTreeMap;

/// A topic in the list of topics.
#[derive(Serialize)]
pub(crate) struct TopicRow {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) partitions: i32,
    /// Offsets between start and high watermark of all partitions.
    pub(crate) offsets: i64,
    pub(crate) bytes: u64,
    /// Partitions whose last stable offset is held back by a transaction.
    pub(crate) held_partitions: usize,
}

/// One topic.
pub(crate) struct TopicDetail {
    pub(crate) id: String,
    /// The settings of this topic.
    pub(crate) configs: BTreeMap<String, String>,
    pub(crate) partitions: Vec<PartitionRow>,
    pub(crate) producers: Vec<ProducerRow>,
}

/// A partition of a topic.
#[derive(Serialize)]
pub(crate) struct PartitionRow {
    pub(crate) partition: i32,
    /// The first offset that can be read.
    pub(crate) start: i64,
    /// The end for read_committed readers.
    pub(crate) last_stable_offset: i64,
    /// The end of the durable records, and so the end for read_uncommitted readers.
    pub(crate) high_watermark: i64,
    /// The offset of the next record.
    pub(crate) end: i64,
    pub(crate) bytes: u64,
    pub(crate) producers: usize,
    pub(crate) held: Option<Blocker>,
}

/// A producer that a partition keeps state for.
#[derive(Serialize)]
pub(crate) struct ProducerRow {
    pub(crate) partition: i32,
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) last_sequence: Option<i32>,
    pub(crate) last_append_ms: i64,
    /// First offset of its open transaction.
    pub(crate) transaction_start: Option<i64>,
}

/// The topics whose name contains `filter`, by name.
pub(crate) async fn list(broker: &Context, filter: String) -> Result<Vec<TopicRow>, HostGone> {
    let rows = broker.shards().catalog().read(move |shard, _| {
        let topics = shard.catalog().topics_by_name().filter(|topic| topic.name.contains(&filter));
        topics.map(|topic| TopicRow::of(shard, topic)).collect()
    });
    rows.await
}

/// One topic; none if no topic has the name.
pub(crate) async fn find(broker: &Context, name: String) -> Result<Option<TopicDetail>, HostGone> {
    broker.shards().catalog().read(move |shard, now| TopicDetail::of(shard, now, &name)).await
}

/// The name of the topic that a partition belongs to.
pub(super) fn name_of(shard: &Shard, at: TopicPartition) -> Option<String> {
    shard.catalog().topic(at.topic).map(|topic| topic.name.clone())
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

/// The partitions of a topic by ascending number.
fn partitions<'a>(shard: &'a Shard, topic: &Topic) -> impl Iterator<Item = (i32, &'a Partition)> {
    let id = topic.id;
    (0..topic.partitions).filter_map(move |partition| {
        Some((partition, shard.partitions().get(TopicPartition { topic: id, partition })?))
    })
}

impl TopicDetail {
    fn of(shard: &Shard, now: Millis, name: &str) -> Option<TopicDetail> {
        let topic = shard.catalog().topic_named(name)?;
        let open = OpenTransactions::new(shard, now);
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
        Some(TopicDetail {
            id: hex(&topic.id.0),
            configs: topic.configs.clone(),
            producers: producers.collect(),
            partitions: partitions(shard, topic)
                .map(|(number, one)| PartitionRow::of(number, one, &open))
                .collect(),
        })
    }
}

impl PartitionRow {
    fn of(number: i32, partition: &Partition, open: &OpenTransactions<'_>) -> PartitionRow {
        PartitionRow {
            partition: number,
            start: partition.log_start().0,
            last_stable_offset: partition.last_stable().0,
            high_watermark: partition.high_watermark().0,
            end: partition.next_offset().0,
            bytes: partition.bytes(),
            producers: partition.producer_count(),
            held: open.blocker(partition),
        }
    }
}
