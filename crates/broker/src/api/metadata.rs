//! Metadata 0-13: the broker, and topics with their partitions. Creates topics that are named and missing, if
//! configured. Left out: racks. There is one broker: it leads every partition and is the controller.

use super::authorization::{TopicChecks, Verdict, take_denied};
use super::describe_cluster::visible_operations;
use super::{AnswerError, topic_error};
use crate::authorizer::{Resource, Rights};
use crate::context::{Context, random_topic_id, to_topic_id, to_uuid};
use crate::host::HostGone;
use crate::session::Session;
use ottla_core::catalog::LEADER_EPOCH;
use ottla_core::catalog::{CreateTopics, NewTopic, Topic, TopicError, is_internal};
use ottla_types::TopicId;
use ottla_types::acl::Operation;
use ottla_wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use ottla_wire::messages::{MetadataRequest, MetadataResponse};
use ottla_wire::{ErrorCode, Numbers, Text, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// The topics that a request names.
enum TopicSelection {
    All,
    Ids(Vec<TopicId>),
    Names(Vec<String>),
}

/// What a response shows of a topic.
struct TopicView {
    name: String,
    id: TopicId,
    partitions: i32,
}

impl From<&Topic> for TopicView {
    fn from(topic: &Topic) -> TopicView {
        TopicView { name: topic.name.clone(), id: topic.id, partitions: topic.partitions }
    }
}

/// S-307, S-308: DESCRIBE on each topic. The name of a denied topic is shown only if the request named it.
pub(crate) fn authorize(
    request: &mut MetadataRequest,
    rights: &Rights<'_>,
    version: i16,
) -> Verdict<MetadataResponse> {
    let Some(TopicSelection::Names(_) | TopicSelection::Ids(_)) = selection(request, version) else {
        return Verdict::Allowed;
    };
    let Some(topics) = &mut request.topics else { return Verdict::Allowed };
    let mut checks = TopicChecks::new(rights, Operation::Describe);
    let denied = take_denied(topics, |topic| {
        checks.allows_ref(topic.name.as_ref().unwrap_or(&Text::default()), topic.topic_id)
    });
    // In version 0 an empty list means all topics, of which none is shown then.
    let none_left = topics.is_empty();
    let denied: BTreeSet<_> = denied.into_iter().map(|topic| (topic.name, topic.topic_id)).collect();
    Verdict::without(denied.into_iter().collect(), move |response: &mut MetadataResponse, denied| {
        if none_left {
            response.topics.clear();
        }
        response.topics.extend(denied.into_iter().map(|(name, id)| {
            let name = name.filter(|_| id.is_zero());
            absent(name, id, ErrorCode::TOPIC_AUTHORIZATION_FAILED)
        }));
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: MetadataRequest,
    version: i16,
) -> Result<MetadataResponse, AnswerError> {
    let Some(selection) = selection(&request, version) else { return Ok(refused(&request)) };
    let mut topics = match selection {
        TopicSelection::All => all(ctx, session).await?,
        TopicSelection::Ids(ids) => by_id(ctx, ids).await?,
        TopicSelection::Names(names) => {
            by_name(ctx, session, names, request.allow_auto_topic_creation).await?
        }
    };
    if request.include_topic_authorized_operations {
        for topic in &mut topics {
            let is_denied = topic.error_code == ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
            if let Some(name) = topic.name.as_ref().filter(|_| !is_denied) {
                topic.topic_authorized_operations = ctx.rights(session).operations(Resource::Topic(name));
            }
        }
    }
    let mut response = MetadataResponse {
        brokers: vec![broker(ctx, session)],
        cluster_id: Some(ctx.cluster_id.clone()),
        controller_id: ctx.node_id,
        topics,
        ..Default::default()
    };
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = visible_operations(ctx, session);
    }
    Ok(response)
}

/// The topics of a request; none if the request is not legal in its version. Ids are for version 12 and later, and a
/// topic needs a name or an id.
fn selection(request: &MetadataRequest, version: i16) -> Option<TopicSelection> {
    let Some(topics) = &request.topics else { return Some(TopicSelection::All) };
    if version == 0 && topics.is_empty() {
        return Some(TopicSelection::All);
    }
    if topics.iter().any(|topic| !topic.topic_id.is_zero()) {
        let ids = topics.iter().map(|topic| topic.topic_id).filter(|id| !id.is_zero());
        return (version >= 12).then(|| TopicSelection::Ids(once(ids.map(to_topic_id))));
    }
    let names: Option<Vec<String>> =
        topics.iter().map(|topic| topic.name.as_ref().map(String::from)).collect();
    names.map(|names| TopicSelection::Names(once(names.into_iter())))
}

/// Each item once, in the order of its first occurrence.
fn once<T: Ord + Clone>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    items.filter(|item| seen.insert(item.clone())).collect()
}

/// All topics that the client may describe (S-309).
async fn all(ctx: &Context, session: &Session) -> Result<Vec<MetadataResponseTopic>, HostGone> {
    let mut views: Vec<TopicView> = ctx
        .shards
        .catalog()
        .read(|shard, _| shard.catalog().topics_by_name().map(TopicView::from).collect())
        .await?;
    let rights = ctx.rights(session);
    views.retain(|topic| rights.probes(Operation::Describe, Resource::Topic(&topic.name)));
    Ok(views.into_iter().map(|topic| present(ctx, topic)).collect())
}

async fn by_id(ctx: &Context, ids: Vec<TopicId>) -> Result<Vec<MetadataResponseTopic>, HostGone> {
    let look = ctx.shards.catalog().read(|shard, _| {
        let find = |id| (id, shard.catalog().topic(id).map(TopicView::from));
        ids.into_iter().map(find).collect::<Vec<_>>()
    });
    let topics = look.await?.into_iter().map(|(id, found)| match found {
        Some(topic) => present(ctx, topic),
        None => absent(None, to_uuid(id), ErrorCode::UNKNOWN_TOPIC_ID),
    });
    Ok(topics.collect())
}

async fn by_name(
    ctx: &Context,
    session: &Session,
    names: Vec<String>,
    may_create: bool,
) -> Result<Vec<MetadataResponseTopic>, AnswerError> {
    let (mut found, creates) = look_up(ctx, names.clone()).await?;
    let missing = names.iter().filter(|name| !found.contains_key(*name) && !is_internal(name));
    let missing: Vec<String> = missing.cloned().collect();
    let mut errors = BTreeMap::new();
    let mut denied = BTreeSet::new();
    if may_create && creates && !missing.is_empty() {
        let missing = may_be_created(ctx, session, missing, &mut denied);
        errors = create(ctx, missing.clone()).await?;
        // As in Kafka, the first request after the deletion of a topic creates it again and does not see it yet.
        let visible = missing.into_iter().filter(|name| !ctx.deleted_topics.remove(name)).collect();
        found.append(&mut look_up(ctx, visible).await?.0);
    }
    let topic = |name: String| match found.remove(&name) {
        Some(topic) => present(ctx, topic),
        None if denied.contains(&name) => {
            absent(Some(name.into()), Uuid::ZERO, ErrorCode::TOPIC_AUTHORIZATION_FAILED)
        }
        None => {
            let error = errors.remove(&name).unwrap_or_else(|| topic_error::missing(&name));
            absent(Some(name.into()), Uuid::ZERO, topic_error::explain(&error).0)
        }
    };
    Ok(names.into_iter().map(topic).collect())
}

/// S-310: the topics that the client may create, by a right on the cluster or on the topic. The others are put into
/// `denied`.
fn may_be_created(
    ctx: &Context,
    session: &Session,
    names: Vec<String>,
    denied: &mut BTreeSet<String>,
) -> Vec<String> {
    let rights = ctx.rights(session);
    if rights.probes(Operation::Create, Resource::Cluster) {
        return names;
    }
    let may = |name: &String| rights.allows(Operation::Create, Resource::Topic(name));
    let (allowed, refused): (Vec<String>, Vec<String>) = names.into_iter().partition(may);
    denied.extend(refused);
    allowed
}

/// The topics of these names that exist, and whether the broker is configured to create the others.
async fn look_up(ctx: &Context, names: Vec<String>) -> Result<(BTreeMap<String, TopicView>, bool), HostGone> {
    let look = ctx.shards.catalog().read(move |shard, _| {
        let catalog = shard.catalog();
        let found = names.into_iter().filter_map(|name| {
            let topic = catalog.topic_named(&name)?;
            Some((name, TopicView::from(topic)))
        });
        (found.collect(), catalog.settings().auto_create_topics)
    });
    look.await
}

/// Creates topics with the broker's defaults. Returns the errors by name.
async fn create(ctx: &Context, names: Vec<String>) -> Result<BTreeMap<String, TopicError>, AnswerError> {
    let mut topics = Vec::with_capacity(names.len());
    for name in &names {
        topics.push(NewTopic {
            name: name.clone(),
            id: random_topic_id(&ctx.randomness)?,
            partitions: -1,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: BTreeMap::new(),
        });
    }
    let results = ctx.shards.catalog().submit(CreateTopics { topics, validate_only: false }).await?;
    Ok(names.into_iter().zip(results).filter_map(|(name, result)| Some((name, result.err()?))).collect())
}

fn broker(ctx: &Context, session: &Session) -> MetadataResponseBroker {
    MetadataResponseBroker {
        node_id: ctx.node_id,
        host: session.advertised().host.as_str().into(),
        port: session.advertised().port.into(),
        ..Default::default()
    }
}

fn present(ctx: &Context, topic: TopicView) -> MetadataResponseTopic {
    let only: Numbers<i32> = [ctx.node_id].into_iter().collect();
    let partition = |partition_index| MetadataResponsePartition {
        partition_index,
        leader_id: ctx.node_id,
        leader_epoch: LEADER_EPOCH,
        replica_nodes: only.clone(),
        isr_nodes: only.clone(),
        ..Default::default()
    };
    MetadataResponseTopic {
        is_internal: is_internal(&topic.name),
        name: Some(topic.name.into()),
        topic_id: to_uuid(topic.id),
        partitions: (0..topic.partitions).map(partition).collect(),
        ..Default::default()
    }
}

fn absent(name: Option<Text>, topic_id: Uuid, error: ErrorCode) -> MetadataResponseTopic {
    let is_internal = name.as_ref().is_some_and(|name| is_internal(name));
    MetadataResponseTopic { error_code: error.0, name, topic_id, is_internal, ..Default::default() }
}

/// A response with INVALID_REQUEST for every topic and nothing else, as in Kafka.
fn refused(request: &MetadataRequest) -> MetadataResponse {
    let topics = request.topics.iter().flatten().map(|topic| {
        let name = topic.name.clone().unwrap_or_default();
        absent(Some(name), topic.topic_id, ErrorCode::INVALID_REQUEST)
    });
    MetadataResponse {
        topics: topics.collect(),
        error_code: ErrorCode::INVALID_REQUEST.0,
        ..Default::default()
    }
}
