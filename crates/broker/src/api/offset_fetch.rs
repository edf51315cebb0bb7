//! OffsetFetch 1-10: committed offsets of one group, or of several groups from version 8 on; by topic id in version 10.
//! Left out: member id and epoch (version 9), which classic groups do not check (T-184).

use super::authorization::{GROUP_DENIED, TOPIC_DENIED, TopicChecks, Verdict, take_denied};
use super::offset_topics::topic_ref;
use crate::authorizer::{Resource, Rights};
use crate::context::{Context, to_uuid};
use crate::host::HostGone;
use crate::session::Session;
use ottla_core::Shard;
use ottla_core::catalog::TopicRef;
use ottla_core::offsets::OffsetLookup;
use ottla_types::TopicPartition;
use ottla_types::acl::Operation;
use ottla_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use ottla_wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use ottla_wire::messages::{OffsetFetchRequest, OffsetFetchResponse};
use ottla_wire::{ErrorCode, Text, Uuid};
use std::collections::BTreeMap;

/// S-312, S-313: DESCRIBE on each group, and on each topic that the request names. Of all topics the answer shows those
/// that the client may describe.
pub(crate) fn authorize(
    request: &mut OffsetFetchRequest,
    rights: &Rights<'_>,
    version: i16,
) -> Verdict<OffsetFetchResponse> {
    if version < 8 {
        return authorize_the_only(request, rights, version);
    }
    let may_see = |group: &OffsetFetchRequestGroup| {
        rights.allows(Operation::Describe, Resource::Group(&group.group_id))
    };
    let denied_groups = take_denied(&mut request.groups, may_see);
    let mut checks = TopicChecks::new(rights, Operation::Describe);
    let denied_topics: Vec<(Text, Vec<OffsetFetchRequestTopics>)> = request
        .groups
        .iter_mut()
        .filter_map(|group| {
            let topics = group.topics.as_mut()?;
            let denied = take_denied(topics, |topic| checks.allows_ref(&topic.name, topic.topic_id));
            (!denied.is_empty()).then(|| (group.group_id.clone(), denied))
        })
        .collect();
    if denied_groups.is_empty() && denied_topics.is_empty() {
        return Verdict::Allowed;
    }
    Verdict::Partly(Box::new(move |response: &mut OffsetFetchResponse| {
        for (group_id, topics) in denied_topics {
            if let Some(group) = response.groups.iter_mut().find(|group| group.group_id == group_id) {
                group.topics.extend(topics.into_iter().map(denied_topic));
            }
        }
        response.groups.extend(denied_groups.into_iter().map(|group| OffsetFetchResponseGroup {
            group_id: group.group_id,
            error_code: GROUP_DENIED,
            ..Default::default()
        }));
    }))
}

/// The same before version 8, where a request has one group.
fn authorize_the_only(
    request: &mut OffsetFetchRequest,
    rights: &Rights<'_>,
    version: i16,
) -> Verdict<OffsetFetchResponse> {
    let old_row = |topic: OffsetFetchRequestTopic, error_code: i16| {
        let partition = |index| without(index, ErrorCode(error_code));
        old_topic(OffsetFetchResponseTopics {
            partitions: topic.partition_indexes.iter().map(partition).collect(),
            name: topic.name,
            ..Default::default()
        })
    };
    if !rights.allows(Operation::Describe, Resource::Group(&request.group_id)) {
        if version >= 2 {
            return Verdict::Refused(OffsetFetchResponse { error_code: GROUP_DENIED, ..Default::default() });
        }
        let topics = request.topics.take().unwrap_or_default().into_iter();
        let topics = topics.map(|topic| old_row(topic, GROUP_DENIED)).collect();
        return Verdict::Refused(OffsetFetchResponse { topics, ..Default::default() });
    }
    let Some(topics) = &mut request.topics else { return Verdict::Allowed };
    let mut checks = TopicChecks::new(rights, Operation::Describe);
    let denied = take_denied(topics, |topic| checks.allows(&topic.name));
    Verdict::without(denied, move |response: &mut OffsetFetchResponse, denied| {
        response.topics.extend(denied.into_iter().map(|topic| old_row(topic, TOPIC_DENIED)));
    })
}

fn denied_topic(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics {
    let partition = |index| without(index, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    OffsetFetchResponseTopics {
        partitions: topic.partition_indexes.iter().map(partition).collect(),
        name: topic.name,
        topic_id: topic.topic_id,
        ..Default::default()
    }
}

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: OffsetFetchRequest,
    version: i16,
) -> Result<OffsetFetchResponse, HostGone> {
    let require_stable = request.require_stable;
    let groups = if version < 8 { vec![the_only(request)] } else { request.groups };
    let of_all_topics: Vec<bool> = groups.iter().map(|group| group.topics.is_none()).collect();
    let look = ctx.shards.groups().read(move |shard, _| {
        let query = Query { shard, require_stable, by_id: version >= 10 };
        groups.into_iter().map(|group| query.group(group)).collect::<Vec<_>>()
    });
    let mut groups = look.await?;
    hide_topics(ctx, session, &mut groups, &of_all_topics);
    if version >= 8 {
        return Ok(OffsetFetchResponse { groups, ..Default::default() });
    }
    let topics = groups.into_iter().flat_map(|group| group.topics).map(old_topic);
    Ok(OffsetFetchResponse { topics: topics.collect(), ..Default::default() })
}

/// Takes topics that the client may not describe out of groups of which it wanted all topics (S-312).
fn hide_topics(
    ctx: &Context,
    session: &Session,
    groups: &mut [OffsetFetchResponseGroup],
    of_all_topics: &[bool],
) {
    let rights = ctx.rights(session);
    if rights.is_unlimited() {
        return;
    }
    for (group, _) in groups.iter_mut().zip(of_all_topics).filter(|(_, all)| **all) {
        group.topics.retain(|topic| rights.probes(Operation::Describe, Resource::Topic(&topic.name)));
    }
}

/// The group of a request before version 8, as version 8 has it.
fn the_only(request: OffsetFetchRequest) -> OffsetFetchRequestGroup {
    let topics = request.topics.map(|topics| {
        let topics = topics.into_iter().map(|topic| OffsetFetchRequestTopics {
            name: topic.name,
            partition_indexes: topic.partition_indexes,
            ..Default::default()
        });
        topics.collect()
    });
    OffsetFetchRequestGroup { group_id: request.group_id, topics, ..Default::default() }
}

fn old_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic {
    let partitions = topic.partitions.into_iter().map(|partition| OffsetFetchResponsePartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        metadata: partition.metadata,
        error_code: partition.error_code,
        ..Default::default()
    });
    OffsetFetchResponseTopic { name: topic.name, partitions: partitions.collect(), ..Default::default() }
}

/// A query of the shard.
struct Query<'a> {
    shard: &'a Shard,
    require_stable: bool,
    by_id: bool,
}

impl Query<'_> {
    fn group(&self, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup {
        let topics = match asked.topics {
            None => self.all(&asked.group_id),
            Some(topics) => topics.into_iter().map(|topic| self.topic(&asked.group_id, topic)).collect(),
        };
        OffsetFetchResponseGroup { group_id: asked.group_id, topics, ..Default::default() }
    }

    /// The requested partitions of a topic. An unknown name is no error, an unknown id is.
    fn topic(&self, group_id: &str, asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics {
        let wanted: TopicRef = topic_ref(&asked.name, asked.topic_id, self.by_id);
        let topic = self.shard.catalog().topic_by(&wanted).map(|topic| topic.id);
        let partitions = asked.partition_indexes.iter().map(|index| match topic {
            Some(topic) => {
                let at = TopicPartition { topic, partition: index };
                row(index, self.shard.offsets().fetch(group_id, at, self.require_stable))
            }
            None if self.by_id => without(index, ErrorCode::UNKNOWN_TOPIC_ID),
            None => without(index, ErrorCode::NONE),
        });
        let partitions = partitions.collect();
        OffsetFetchResponseTopics {
            name: asked.name,
            topic_id: asked.topic_id,
            partitions,
            ..Default::default()
        }
    }

    /// Every partition with a committed offset (T-182).
    fn all(&self, group_id: &str) -> Vec<OffsetFetchResponseTopics> {
        let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (at, fetched) in self.shard.offsets().fetch_all(group_id, self.require_stable) {
            rows.entry(at.topic).or_default().push(row(at.partition, fetched));
        }
        let topics = rows.into_iter().filter_map(|(id, partitions)| {
            let topic = self.shard.catalog().topic(id)?;
            Some(OffsetFetchResponseTopics {
                name: topic.name.as_str().into(),
                topic_id: if self.by_id { to_uuid(id) } else { Uuid::ZERO },
                partitions,
                ..Default::default()
            })
        });
        topics.collect()
    }
}

fn row(index: i32, fetched: OffsetLookup<'_>) -> OffsetFetchResponsePartitions {
    match fetched {
        OffsetLookup::None => without(index, ErrorCode::NONE),
        OffsetLookup::Unstable => without(index, ErrorCode::UNSTABLE_OFFSET_COMMIT),
        OffsetLookup::Offset(committed) => OffsetFetchResponsePartitions {
            partition_index: index,
            committed_offset: committed.offset.0,
            committed_leader_epoch: committed.leader_epoch,
            metadata: Some(committed.metadata.as_str().into()),
            ..Default::default()
        },
    }
}

/// The row of a partition without an offset.
fn without(index: i32, error: ErrorCode) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        partition_index: index,
        committed_offset: -1,
        metadata: Some(Text::default()),
        error_code: error.0,
        ..Default::default()
    }
}
