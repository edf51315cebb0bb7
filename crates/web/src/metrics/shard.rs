//! Figures of topics, groups and transactions.

use super::{Labels, Sheet};
use ottla_broker::{Metrics, TopicMetrics};
use ottla_core::Shard;
use ottla_core::group::GroupState;
use ottla_core::offsets::Fetched;
use ottla_types::TopicId;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Partitions, and offsets of groups, that have series of their own; what is beyond is counted in `ottla_series_left_out`.
pub(super) const MOST_SERIES: usize = 5000;

/// What the shard holds at one moment.
#[derive(Debug, Default)]
pub(super) struct ShardFigures {
    topics: Vec<(TopicId, String, i32)>,
    partitions: Vec<PartitionFigures>,
    groups: Vec<GroupFigures>,
    offsets: Vec<OffsetFigures>,
    transactional_ids: usize,
    open_transactions: usize,
    producers: usize,
    left_out: usize,
}

#[derive(Debug)]
struct PartitionFigures {
    /// Place of the topic in the list of topics.
    topic: usize,
    partition: i32,
    start: i64,
    last_stable: i64,
    high_watermark: i64,
    bytes: u64,
}

#[derive(Debug)]
struct GroupFigures {
    id: String,
    state: GroupState,
    members: usize,
}

#[derive(Debug)]
struct OffsetFigures {
    /// Place of the group in the list of groups.
    group: usize,
    topic: String,
    partition: i32,
    offset: i64,
    lag: i64,
}

impl ShardFigures {
    pub(super) fn of(shard: &Shard) -> ShardFigures {
        let mut figures = ShardFigures {
            transactional_ids: shard.transactions().count(),
            open_transactions: shard.transactions().open_count(),
            ..ShardFigures::default()
        };
        figures.add_topics(shard);
        figures.add_groups(shard);
        figures
    }

    fn add_topics(&mut self, shard: &Shard) {
        let topics = shard.catalog().topics_by_name();
        self.topics = topics.map(|topic| (topic.id, topic.name.clone(), topic.partitions)).collect();
        let places: HashMap<TopicId, usize> =
            self.topics.iter().enumerate().map(|(place, (id, ..))| (*id, place)).collect();
        for (at, partition) in shard.partitions().iter() {
            self.producers += partition.producer_count();
            let Some(topic) = places.get(&at.topic) else { continue };
            if self.partitions.len() >= MOST_SERIES {
                self.left_out += 1;
                continue;
            }
            self.partitions.push(PartitionFigures {
                topic: *topic,
                partition: at.partition,
                start: partition.log_start().0,
                last_stable: partition.last_stable().0,
                high_watermark: partition.high_watermark().0,
                bytes: partition.bytes(),
            });
        }
        self.left_out += self.topics.len().saturating_sub(MOST_SERIES);
        self.topics.truncate(MOST_SERIES);
        self.partitions.retain(|partition| partition.topic < MOST_SERIES);
    }

    fn add_groups(&mut self, shard: &Shard) {
        for listing in shard.groups().list() {
            if self.groups.len() >= MOST_SERIES {
                self.left_out += 1;
                continue;
            }
            let group = self.groups.len();
            let (id, state, members) = (listing.group_id.to_owned(), listing.state, listing.members);
            for (at, fetched) in shard.offsets().fetch_all(&id, false) {
                let Fetched::Offset(committed) = fetched else { continue };
                let found = shard.partitions().get(at).zip(shard.catalog().topic(at.topic));
                let Some((partition, topic)) = found else { continue };
                if self.offsets.len() >= MOST_SERIES {
                    self.left_out += 1;
                    continue;
                }
                let offset = committed.offset.0;
                let lag = (partition.high_watermark().0 - offset).max(0);
                let (topic, partition) = (topic.name.clone(), at.partition);
                self.offsets.push(OffsetFigures { group, topic, partition, offset, lag });
            }
            self.groups.push(GroupFigures { id, state, members });
        }
    }

    pub(super) fn write(&self, metrics: &Metrics, sheet: &mut Sheet<'_>) -> fmt::Result {
        self.write_topics(metrics, sheet)?;
        self.write_partitions(sheet)?;
        self.write_groups(sheet)?;
        sheet.gauge("ottla_transactions_open", "Transactions that are open", self.open_transactions)?;
        sheet.gauge("ottla_transactional_ids", "Transactional ids that are known", self.transactional_ids)?;
        sheet.gauge(
            "ottla_producers",
            "Producers that partitions know, counted for each partition",
            self.producers,
        )?;
        let what = "Topics, partitions, groups and offsets that have no series here, for there are too many";
        sheet.gauge("ottla_series_left_out", what, self.left_out)
    }

    fn write_topics(&self, metrics: &Metrics, sheet: &mut Sheet<'_>) -> fmt::Result {
        let traffic: HashMap<TopicId, Arc<TopicMetrics>> = metrics.topics().into_iter().collect();
        let counts = |figure: fn(&TopicMetrics) -> u64| -> Vec<(Labels<'_>, u64)> {
            let rows = self.topics.iter().filter_map(|(id, name, _)| Some((name, traffic.get(id)?)));
            rows.map(|(name, topic)| (vec![("topic", name.into())], figure(topic))).collect()
        };
        let partitions = self.topics.iter().map(|(_, name, count)| (vec![("topic", name.into())], *count));
        sheet.gauges("kafka_topic_partitions", "Partitions of a topic", partitions)?;
        let name = "ottla_topic_produced_bytes";
        sheet.counters(
            name,
            "Bytes of batches that were appended",
            counts(|topic| topic.produced_bytes.get()),
        )?;
        let name = "ottla_topic_produced_records";
        sheet.counters(name, "Records that were appended", counts(|topic| topic.produced_records.get()))?;
        let name = "ottla_topic_fetched_bytes";
        sheet.counters(
            name,
            "Bytes of batches that were sent to consumers",
            counts(|topic| topic.fetched_bytes.get()),
        )?;
        let name = "ottla_topic_fetched_records";
        sheet.counters(
            name,
            "Offsets of batches that were sent to consumers",
            counts(|topic| topic.fetched_records.get()),
        )
    }

    fn write_partitions(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let by_partition = |figure: fn(&PartitionFigures) -> i64| {
            self.partitions.iter().map(move |one| (self.labels(one), figure(one)))
        };
        sheet.gauges(
            "kafka_topic_partition_current_offset",
            "High watermark of a partition: the end of what is durable",
            by_partition(|one| one.high_watermark),
        )?;
        sheet.gauges(
            "kafka_topic_partition_oldest_offset",
            "The first offset of a partition that can be read",
            by_partition(|one| one.start),
        )?;
        sheet.gauges(
            "ottla_partition_last_stable_offset_lag",
            "Offsets between last stable offset and high watermark: readers of committed records wait for them",
            by_partition(|one| one.high_watermark - one.last_stable),
        )?;
        let sizes = self.partitions.iter().map(|one| (self.labels(one), one.bytes));
        sheet.gauges(
            "ottla_partition_size_bytes",
            "Bytes of all batches of a partition that can be read",
            sizes,
        )
    }

    fn labels(&self, one: &PartitionFigures) -> Labels<'_> {
        let topic = self.topics.get(one.topic).map_or("", |(_, name, _)| name);
        vec![("topic", topic.into()), ("partition", one.partition.to_string().into())]
    }

    fn write_groups(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        const STATES: [GroupState; 4] = [
            GroupState::Empty,
            GroupState::PreparingRebalance,
            GroupState::CompletingRebalance,
            GroupState::Stable,
        ];
        let count = |state| self.groups.iter().filter(|group| group.state == state).count();
        let states = STATES.map(|state| (vec![("state", state.name().into())], count(state)));
        sheet.gauges("ottla_groups", "Groups in a state", states)?;
        let members =
            self.groups.iter().map(|group| (vec![("consumergroup", (&group.id).into())], group.members));
        sheet.gauges("kafka_consumergroup_members", "Members of a group", members)?;
        let by_offset = |figure: fn(&OffsetFigures) -> i64| {
            self.offsets.iter().map(move |one| {
                let group = self.groups.get(one.group).map_or("", |group| &group.id);
                let labels: Labels<'_> = vec![
                    ("consumergroup", group.into()),
                    ("topic", (&one.topic).into()),
                    ("partition", one.partition.to_string().into()),
                ];
                (labels, figure(one))
            })
        };
        let help = "The offset that a group committed";
        sheet.gauges("kafka_consumergroup_current_offset", help, by_offset(|one| one.offset))?;
        let help = "Records between the committed offset of a group and the high watermark";
        sheet.gauges("kafka_consumergroup_lag", help, by_offset(|one| one.lag))
    }
}
