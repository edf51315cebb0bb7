//! CreateTopics 2-7: creates topics, or only validates them.
//! Left out: throttling of creations (KIP-599), policies, and the time limit. A topic exists when the response is sent.

use super::authorization::{TOPIC_DENIED, Verdict, denied_text, take_denied};
use super::config_rows::{Layers, Row};
use super::subject::{Reason, Topic};
use super::{AnswerError, named_once, topic_error};
use crate::Randomness;
use crate::authorizer::{Resource, Rights};
use crate::context::{Context, random_topic_id, to_uuid};
use crate::session::Session;
use ottla_core::catalog::{CreateTopics, NewTopic, TopicError, TopicResult};
use ottla_types::acl::Operation;
use ottla_wire::messages::create_topics_request::CreatableTopic;
use ottla_wire::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use ottla_wire::messages::{CreateTopicsRequest, CreateTopicsResponse};
use ottla_wire::{ErrorCode, Text};
use std::collections::{BTreeMap, BTreeSet};

/// S-320, S-321: CREATE on the cluster or on each topic. A client that may not see the configuration of a topic gets
/// neither that nor the numbers that follow from it.
pub(crate) fn authorize(
    request: &mut CreateTopicsRequest,
    rights: &Rights<'_>,
    version: i16,
) -> Verdict<CreateTopicsResponse> {
    let denied = if rights.probes(Operation::Create, Resource::Cluster) {
        Vec::new()
    } else {
        let once = names_once(&request.topics);
        take_denied(&mut request.topics, |topic| {
            !once.contains(&topic.name) || rights.allows(Operation::Create, Resource::Topic(&topic.name))
        })
    };
    let hidden = request.topics.iter().map(|topic| topic.name.clone());
    let hidden = hidden.filter(|name| !rights.probes(Operation::DescribeConfigs, Resource::Topic(name)));
    let hidden: Vec<Text> = hidden.filter(|_| version >= 5).collect();
    if denied.is_empty() && hidden.is_empty() {
        return Verdict::Allowed;
    }
    Verdict::Partly(Box::new(move |response: &mut CreateTopicsResponse| {
        let created = response.topics.iter_mut().filter(|topic| topic.error_code == 0);
        created.filter(|topic| hidden.contains(&topic.name)).for_each(hide_configs);
        response.topics.extend(denied.into_iter().map(|topic| CreatableTopicResult {
            name: topic.name,
            error_code: TOPIC_DENIED,
            error_message: denied_text(),
            ..Default::default()
        }));
    }))
}

/// The names that occur once.
fn names_once(topics: &[CreatableTopic]) -> BTreeSet<Text> {
    let mut counts: BTreeMap<&Text, usize> = BTreeMap::new();
    for topic in topics {
        *counts.entry(&topic.name).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count == 1).map(|(name, _)| name.clone()).collect()
}

fn hide_configs(topic: &mut CreatableTopicResult) {
    topic.topic_config_error_code = TOPIC_DENIED;
    topic.num_partitions = -1;
    topic.replication_factor = -1;
    topic.configs = Some(Vec::new());
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: CreateTopicsRequest,
    version: i16,
) -> Result<CreateTopicsResponse, AnswerError> {
    let (asked, twice) = named_once(request.topics, |topic| topic.name.clone());
    let mut topics = Vec::with_capacity(asked.len());
    for topic in &asked {
        topics.push(new_topic(topic, &ctx.randomness)?);
    }
    let validate_only = request.validate_only;
    let results = ctx.shards.catalog().submit(CreateTopics { topics, validate_only }).await?;
    // Versions before 5 have no field for the configuration.
    let layers = if version >= 5 {
        Some(ctx.shards.catalog().read(|shard, _| Layers::of(shard)).await?)
    } else {
        None
    };
    let mut topics = Vec::with_capacity(asked.len());
    for (topic, result) in asked.into_iter().zip(results) {
        topics.push(match result {
            Ok(created) => done(topic, &created, layers.as_ref()),
            Err(error) => refused(ctx, topic.name, &error),
        });
    }
    let duplicate = || TopicError::BadRequest("the topic is named twice".to_owned());
    topics.extend(twice.into_iter().map(|name| refused(ctx, name, &duplicate())));
    Ok(CreateTopicsResponse { topics, ..Default::default() })
}

fn new_topic(topic: &CreatableTopic, randomness: &Randomness) -> Result<NewTopic, AnswerError> {
    let assigned = topic.assignments.iter();
    let configs = topic.configs.iter();
    Ok(NewTopic {
        name: String::from(&topic.name),
        id: random_topic_id(randomness)?,
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assigned.map(|one| (one.partition_index, one.broker_ids.to_vec())).collect(),
        configs: configs.map(|one| (String::from(&one.name), one.value.as_ref().map(String::from))).collect(),
    })
}

fn done(topic: CreatableTopic, created: &TopicResult, layers: Option<&Layers>) -> CreatableTopicResult {
    let own: BTreeMap<String, String> = topic
        .configs
        .iter()
        .filter_map(|one| Some((String::from(&one.name), String::from(one.value.as_ref()?))))
        .collect();
    let rows = layers.map(|layers| layers.topic(&own)).unwrap_or_default();
    CreatableTopicResult {
        name: topic.name,
        topic_id: to_uuid(created.id),
        error_message: None,
        num_partitions: created.partitions,
        replication_factor: 1,
        configs: Some(rows.into_iter().map(config).collect()),
        ..Default::default()
    }
}

fn config(row: Row) -> CreatableTopicConfigs {
    CreatableTopicConfigs {
        config_source: row.source() as i8,
        name: row.name.into(),
        value: row.value.map(Text::from),
        read_only: row.read_only,
        ..Default::default()
    }
}

fn refused(ctx: &Context, name: Text, error: &TopicError) -> CreatableTopicResult {
    let (code, message): (ErrorCode, String) = topic_error::explain(error);
    ctx.refused(Topic(&name), code, &Reason(None, &message));
    CreatableTopicResult {
        name,
        error_code: code.0,
        error_message: Some(message.into()),
        ..Default::default()
    }
}
