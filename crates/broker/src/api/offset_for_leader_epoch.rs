//! OffsetForLeaderEpoch 2-4: where a leader epoch ends. There is one epoch, and it has not ended.

use super::authorization::{TOPIC_DENIED, TopicChecks, Verdict, take_denied};
use super::leader_epoch::check_epoch;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::Shard;
use ottla_types::acl::Operation;
use ottla_wire::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use ottla_wire::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use ottla_wire::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use ottla_wire::{ErrorCode, Text};

/// S-327: CLUSTER_ACTION on the cluster, or DESCRIBE on each topic.
pub(crate) fn authorize(
    request: &mut OffsetForLeaderEpochRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<OffsetForLeaderEpochResponse> {
    if rights.probes(Operation::ClusterAction, Resource::Cluster) {
        return Verdict::Allowed;
    }
    let mut checks = TopicChecks::new(rights, Operation::Describe);
    let denied = take_denied(&mut request.topics, |topic| checks.allows(&topic.topic));
    Verdict::without(denied, |response: &mut OffsetForLeaderEpochResponse, denied| {
        response.topics.extend(denied.into_iter().map(denied_topic));
    })
}

fn denied_topic(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult {
    let partition = |asked: &OffsetForLeaderPartition| EpochEndOffset {
        partition: asked.partition,
        error_code: TOPIC_DENIED,
        ..Default::default()
    };
    let partitions = topic.partitions.iter().map(partition).collect();
    OffsetForLeaderTopicResult { topic: topic.topic, partitions, ..Default::default() }
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: OffsetForLeaderEpochRequest,
    _version: i16,
) -> Result<OffsetForLeaderEpochResponse, super::AnswerError> {
    let look = move |shard: &Shard| {
        let topic = |topic: OffsetForLeaderTopic| OffsetForLeaderTopicResult {
            partitions: topic.partitions.iter().map(|asked| end(shard, &topic.topic, asked)).collect(),
            topic: topic.topic,
            ..Default::default()
        };
        request.topics.into_iter().map(topic).collect()
    };
    let topics = ctx.shards.partitions().read(move |shard, _| look(shard)).await?;
    Ok(OffsetForLeaderEpochResponse { topics, ..Default::default() })
}

fn end(shard: &Shard, topic: &Text, asked: &OffsetForLeaderPartition) -> EpochEndOffset {
    let none = EpochEndOffset { partition: asked.partition, ..Default::default() };
    let refused = |code: ErrorCode| EpochEndOffset { error_code: code.0, ..none.clone() };
    let place = shard.catalog().partition_named(topic, asked.partition);
    let Some(partition) = place.and_then(|at| shard.partitions().get(at)) else {
        return refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    };
    if let Err(code) = check_epoch(asked.current_leader_epoch) {
        return refused(code);
    }
    match partition.end_of_epoch(asked.leader_epoch, ottla_core::catalog::LEADER_EPOCH) {
        Some((leader_epoch, end)) => EpochEndOffset { leader_epoch, end_offset: end.0, ..none },
        None => none,
    }
}
