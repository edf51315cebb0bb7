//! Figures of topics, groups and transactions.

use super::{Labels, MetricsEncoder};
use crate::shard::figures::{GROUP_STATES, OffsetFigures, PartitionFigures, ShardFigures};
use ottla_broker::{Metrics, TopicMetrics};
use ottla_types::TopicId;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub(super) fn write(
    figures: &ShardFigures,
    metrics: &Metrics,
    encoder: &mut MetricsEncoder<'_>,
) -> fmt::Result {
    write_topics(figures, metrics, encoder)?;
    write_partitions(figures, encoder)?;
    write_groups(figures, encoder)?;
    encoder.gauge("ottla_transactions_open", "Transactions that are open", figures.open_transactions)?;
    encoder.gauge(
        "ottla_transactional_ids",
        "Transactional ids that are known",
        figures.transactional_ids,
    )?;
    encoder.gauge(
        "ottla_producers",
        "Producers that partitions know, counted for each partition",
        figures.producers,
    )?;
    let what = "Topics, partitions, groups and offsets that have no series here, for there are too many";
    encoder.gauge("ottla_series_left_out", what, figures.left_out)
}

fn write_topics(figures: &ShardFigures, metrics: &Metrics, encoder: &mut MetricsEncoder<'_>) -> fmt::Result {
    let traffic: HashMap<TopicId, Arc<TopicMetrics>> = metrics.topics().into_iter().collect();
    let counts = |figure: fn(&TopicMetrics) -> u64| -> Vec<(Labels<'_>, u64)> {
        let rows = figures.topics.iter().filter_map(|(id, name, _)| Some((name, traffic.get(id)?)));
        rows.map(|(name, topic)| (vec![("topic", name.into())], figure(topic))).collect()
    };
    let partitions = figures.topics.iter().map(|(_, name, count)| (vec![("topic", name.into())], *count));
    encoder.gauges("kafka_topic_partitions", "Partitions of a topic", partitions)?;
    let name = "ottla_topic_produced_bytes";
    encoder.counters(
        name,
        "Bytes of batches that were appended",
        counts(|topic| topic.produced_bytes.get()),
    )?;
    let name = "ottla_topic_produced_records";
    encoder.counters(name, "Records that were appended", counts(|topic| topic.produced_records.get()))?;
    let name = "ottla_topic_fetched_bytes";
    encoder.counters(
        name,
        "Bytes of batches that were sent to consumers",
        counts(|topic| topic.fetched_bytes.get()),
    )?;
    let name = "ottla_topic_fetched_records";
    encoder.counters(
        name,
        "Offsets of batches that were sent to consumers",
        counts(|topic| topic.fetched_records.get()),
    )
}

fn write_partitions(figures: &ShardFigures, encoder: &mut MetricsEncoder<'_>) -> fmt::Result {
    let by_partition = |figure: fn(&PartitionFigures) -> i64| {
        figures.partitions.iter().map(move |one| (labels(figures, one), figure(one)))
    };
    encoder.gauges(
        "kafka_topic_partition_current_offset",
        "High watermark of a partition: the end of what is durable",
        by_partition(|one| one.high_watermark),
    )?;
    encoder.gauges(
        "kafka_topic_partition_oldest_offset",
        "The first offset of a partition that can be read",
        by_partition(|one| one.start),
    )?;
    encoder.gauges(
        "ottla_partition_last_stable_offset_lag",
        "Offsets between last stable offset and high watermark: readers of committed records wait for them",
        by_partition(|one| one.high_watermark - one.last_stable),
    )?;
    let sizes = figures.partitions.iter().map(|one| (labels(figures, one), one.bytes));
    encoder.gauges(
        "ottla_partition_size_bytes",
        "Bytes of all batches of a partition that can be read",
        sizes,
    )
}

fn labels<'a>(figures: &'a ShardFigures, one: &PartitionFigures) -> Labels<'a> {
    let topic = figures.topics.get(one.topic).map_or("", |(_, name, _)| name);
    vec![("topic", topic.into()), ("partition", one.partition.to_string().into())]
}

fn write_groups(figures: &ShardFigures, encoder: &mut MetricsEncoder<'_>) -> fmt::Result {
    let count = |state| figures.groups.iter().filter(|group| group.state == state).count();
    let states = GROUP_STATES.map(|state| (vec![("state", state.name().into())], count(state)));
    encoder.gauges("ottla_groups", "Groups in a state", states)?;
    let members =
        figures.groups.iter().map(|group| (vec![("consumergroup", (&group.id).into())], group.members));
    encoder.gauges("kafka_consumergroup_members", "Members of a group", members)?;
    let by_offset = |figure: fn(&OffsetFigures) -> i64| {
        figures.offsets.iter().map(move |one| {
            let group = figures.groups.get(one.group).map_or("", |group| &group.id);
            let labels: Labels<'_> = vec![
                ("consumergroup", group.into()),
                ("topic", (&one.topic).into()),
                ("partition", one.partition.to_string().into()),
            ];
            (labels, figure(one))
        })
    };
    let help = "The offset that a group committed";
    encoder.gauges("kafka_consumergroup_current_offset", help, by_offset(|one| one.offset))?;
    let help = "Records between the committed offset of a group and the high watermark";
    encoder.gauges("kafka_consumergroup_lag", help, by_offset(|one| one.lag))
}
