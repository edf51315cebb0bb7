//! DescribeTopicPartitions 0 (KIP-966): topics by name with their partitions, in pages.

use super::authorization::{Verdict, take_denied};
use super::{AnswerError, topic_error};
use crate::authorizer::{Resource, Rights};
use crate::context::{Context, to_uuid};
use crate::session::Session;
use ottla_core::catalog::LEADER_EPOCH;
use ottla_core::catalog::{Catalog, TopicError};
use ottla_types::TopicId;
use ottla_types::acl::Operation;
use ottla_wire::messages::describe_topic_partitions_request::{DescribeTopicPartitionsRequest, TopicRequest};
use ottla_wire::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};
use ottla_wire::{ErrorCode, Numbers};
use std::collections::BTreeSet;
use std::ops::Range;

/// Partitions in one response, at most (Kafka's `max.request.partition.size.limit`).
const MAX_PARTITIONS: i32 = 2000;

/// A topic of the response.
enum Entry {
    Topic { name: String, id: TopicId, partitions: Range<i32> },
    Missing(TopicError, String),
}

/// The topics that fit into the response, and where the next page starts.
struct Page {
    entries: Vec<Entry>,
    next: Option<(String, i32)>,
}

/// S-362: DESCRIBE on each topic that the request names. Of all topics the answer shows those that the client may
/// describe.
pub(crate) fn authorize(
    request: &mut DescribeTopicPartitionsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<DescribeTopicPartitionsResponse> {
    let all = request.topics.is_empty();
    let denied = take_denied(&mut request.topics, |topic| {
        rights.allows(Operation::Describe, Resource::Topic(&topic.name))
    });
    let row = |topic: TopicRequest| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED.0,
        name: Some(topic.name),
        ..Default::default()
    };
    if request.topics.is_empty() && !all {
        // An empty list would mean all topics.
        let topics = denied.into_iter().map(row).collect();
        return Verdict::Refused(DescribeTopicPartitionsResponse { topics, ..Default::default() });
    }
    Verdict::without(denied, move |response: &mut DescribeTopicPartitionsResponse, denied| {
        response.topics.extend(denied.into_iter().map(row));
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: DescribeTopicPartitionsRequest,
    _version: i16,
) -> Result<DescribeTopicPartitionsResponse, AnswerError> {
    let names: BTreeSet<String> = request.topics.iter().map(|topic| String::from(&topic.name)).collect();
    let from = request.cursor.as_ref().map(|at| (String::from(&at.topic_name), at.partition_index));
    let foreign =
        |(name, partition): &(String, i32)| *partition < 0 || !(names.is_empty() || names.contains(name));
    if from.as_ref().is_some_and(foreign) {
        return Ok(refused(&request));
    }
    let limit = request.response_partition_limit.clamp(1, MAX_PARTITIONS);
    let names = if names.is_empty() { visible_names(ctx, session).await? } else { names };
    let page = ctx.shards.catalog().read(move |shard, _| page(shard.catalog(), names, from, limit)).await?;
    let next_cursor = page.next.map(|(name, partition_index)| Cursor {
        topic_name: name.into(),
        partition_index,
        ..Default::default()
    });
    let topics = page.entries.into_iter().map(|entry| topic(ctx, session, entry)).collect();
    Ok(DescribeTopicPartitionsResponse { topics, next_cursor, ..Default::default() })
}

/// The names of all topics that the client may describe.
async fn visible_names(ctx: &Context, session: &Session) -> Result<BTreeSet<String>, AnswerError> {
    let look = ctx.shards.catalog().read(|shard, _| {
        shard.catalog().topics_by_name().map(|topic| topic.name.clone()).collect::<BTreeSet<String>>()
    });
    let mut names = look.await?;
    let rights = ctx.rights(session);
    names.retain(|name| rights.probes(Operation::Describe, Resource::Topic(name)));
    Ok(names)
}

/// A page of these topics, in the order of their names.
fn page(catalog: &Catalog, names: BTreeSet<String>, from: Option<(String, i32)>, mut left: i32) -> Page {
    let (first, skip) = from.unwrap_or_default();
    let mut entries = Vec::new();
    for name in names.into_iter().filter(|name| *name >= first) {
        if left == 0 {
            return Page { entries, next: Some((name, 0)) };
        }
        let Some(topic) = catalog.topic_named(&name) else {
            entries.push(Entry::Missing(topic_error::missing(&name), name));
            continue;
        };
        let start = if name == first { skip.min(topic.partitions) } else { 0 };
        let end = topic.partitions.min(start.saturating_add(left));
        left -= end - start;
        let more = end < topic.partitions;
        entries.push(Entry::Topic { name: name.clone(), id: topic.id, partitions: start..end });
        if more {
            return Page { entries, next: Some((name, end)) };
        }
    }
    Page { entries, next: None }
}

fn topic(ctx: &Context, session: &Session, entry: Entry) -> DescribeTopicPartitionsResponseTopic {
    let only: Numbers<i32> = [ctx.node_id].into_iter().collect();
    let none = || Some([].into_iter().collect());
    let partition = |partition_index| DescribeTopicPartitionsResponsePartition {
        partition_index,
        leader_id: ctx.node_id,
        leader_epoch: LEADER_EPOCH,
        replica_nodes: only.clone(),
        isr_nodes: only.clone(),
        eligible_leader_replicas: none(),
        last_known_elr: none(),
        ..Default::default()
    };
    let name = match &entry {
        Entry::Topic { name, .. } | Entry::Missing(_, name) => name,
    };
    let mut topic = DescribeTopicPartitionsResponseTopic {
        topic_authorized_operations: ctx.rights(session).operations(Resource::Topic(name)),
        ..Default::default()
    };
    match entry {
        Entry::Topic { name, id, partitions } => {
            topic.name = Some(name.into());
            topic.topic_id = to_uuid(id);
            topic.partitions = partitions.map(partition).collect();
        }
        Entry::Missing(error, name) => {
            topic.name = Some(name.into());
            topic.error_code = topic_error::explain(&error).0.0;
        }
    }
    topic
}

/// INVALID_REQUEST for every topic: the cursor names none of them, or a negative partition.
fn refused(request: &DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let topic = |name: &ottla_wire::Text| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::INVALID_REQUEST.0,
        name: Some(name.clone()),
        ..Default::default()
    };
    DescribeTopicPartitionsResponse {
        topics: request.topics.iter().map(|asked| topic(&asked.name)).collect(),
        ..Default::default()
    }
}
