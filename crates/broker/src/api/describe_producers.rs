//! DescribeProducers 0: the state of the producers of partitions (T-230).

use super::authorization::{TOPIC_DENIED, TopicChecks, Verdict, take_denied};
use crate::authorizer::Rights;
use crate::context::Context;
use crate::session::Session;
use ottla_core::Shard;
use ottla_core::catalog::check_name;
use ottla_types::acl::Operation;
use ottla_types::record::ProducerState as CoreProducer;
use ottla_wire::messages::describe_producers_request::TopicRequest;
use ottla_wire::messages::describe_producers_response::{PartitionResponse, ProducerState, TopicResponse};
use ottla_wire::messages::{DescribeProducersRequest, DescribeProducersResponse};
use ottla_wire::{ErrorCode, Text};

/// S-355: READ on each topic. A name that is not legal is refused for that.
pub(crate) fn authorize(
    request: &mut DescribeProducersRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<DescribeProducersResponse> {
    let mut checks = TopicChecks::new(rights, Operation::Read);
    let denied = take_denied(&mut request.topics, |topic| {
        check_name(&topic.name).is_err() || checks.allows(&topic.name)
    });
    Verdict::without(denied, |response: &mut DescribeProducersResponse, denied| {
        response.topics.extend(denied.into_iter().map(denied_topic));
    })
}

fn denied_topic(topic: TopicRequest) -> TopicResponse {
    let partition = |partition_index| PartitionResponse {
        partition_index,
        error_code: TOPIC_DENIED,
        error_message: Some(Text::from_static(ErrorCode::TOPIC_AUTHORIZATION_FAILED.meaning())),
        ..Default::default()
    };
    let partitions = topic.partition_indexes.iter().map(partition).collect();
    TopicResponse { name: topic.name, partitions, ..Default::default() }
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: DescribeProducersRequest,
    _version: i16,
) -> Result<DescribeProducersResponse, super::AnswerError> {
    let look = ctx.shards.partitions().read(move |shard, _| {
        let topic = |topic: TopicRequest| {
            let described = topic.partition_indexes.iter().map(|index| describe(shard, &topic.name, index));
            TopicResponse { partitions: described.collect(), name: topic.name, ..Default::default() }
        };
        request.topics.into_iter().map(topic).collect()
    });
    Ok(DescribeProducersResponse { topics: look.await?, ..Default::default() })
}

fn describe(shard: &Shard, topic: &Text, partition_index: i32) -> PartitionResponse {
    let place = shard.catalog().partition_named(topic, partition_index);
    let Some(partition) = place.and_then(|at| shard.partitions().get(at)) else {
        let (code, why) = match check_name(topic) {
            Ok(()) => (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition"),
            Err(_) => (ErrorCode::INVALID_TOPIC_EXCEPTION, "this is no name of a topic"),
        };
        let error_message = Some(Text::from_static(why));
        return PartitionResponse {
            partition_index,
            error_code: code.0,
            error_message,
            ..Default::default()
        };
    };
    let active_producers = partition.producers().map(producer).collect();
    PartitionResponse { partition_index, active_producers, ..Default::default() }
}

fn producer(known: &CoreProducer) -> ProducerState {
    ProducerState {
        producer_id: known.producer_id.0,
        producer_epoch: known.epoch.0.into(),
        last_sequence: known.batches.last().map_or(-1, |batch| batch.last_sequence),
        last_timestamp: known.last_timestamp.0,
        coordinator_epoch: known.coordinator_epoch,
        current_txn_start_offset: known.transaction_start.map_or(-1, |start| start.0),
        ..Default::default()
    }
}
