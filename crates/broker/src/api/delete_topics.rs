//! DeleteTopics 1-6: deletes topics by name, or by id from version 6 on.
//! Left out: the time limit. A topic is deleted when the response is sent.

use super::authorization::{TOPIC_DENIED, Verdict, denied_text, topic_name};
use super::{AnswerError, named_once, topic_error};
use crate::authorizer::{Resource, Rights};
use crate::context::{Context, to_topic_id, to_uuid};
use crate::session::Session;
use ottla_core::Shard;
use ottla_core::catalog::{DeleteTopics, TopicError, TopicRef};
use ottla_types::acl::Operation;
use ottla_wire::Text;
use ottla_wire::messages::delete_topics_request::DeleteTopicState;
use ottla_wire::messages::delete_topics_response::DeletableTopicResult;
use ottla_wire::messages::{DeleteTopicsRequest, DeleteTopicsResponse};

/// S-322, S-323: DELETE on the cluster, or DESCRIBE and DELETE on each topic. The name of a topic that the request
/// names by its id is shown to a client that may describe it.
pub(crate) fn authorize(
    request: &mut DeleteTopicsRequest,
    rights: &Rights<'_>,
    version: i16,
) -> Verdict<DeleteTopicsResponse> {
    if rights.probes(Operation::Delete, Resource::Cluster) {
        return Verdict::Allowed;
    }
    let all =
        if version >= 6 { std::mem::take(&mut request.topics) } else { by_name(std::mem::take(request)) };
    let key = |topic: &DeleteTopicState| (topic.name.clone(), topic.topic_id);
    let keys: Vec<_> = all.iter().map(key).collect();
    let (mut allowed, mut denied) = (Vec::new(), Vec::new());
    for topic in all {
        // A topic that is named twice, or not in a legal way, is refused for that.
        let twice = keys.iter().filter(|other| **other == key(&topic)).count() > 1;
        match denied_row(rights, &topic) {
            Some(row) if !twice && reference(&topic).is_ok() => denied.push(row),
            _ => allowed.push(topic),
        }
    }
    if version >= 6 {
        request.topics = allowed;
    } else {
        request.topic_names = allowed.into_iter().filter_map(|topic| topic.name).collect();
    }
    Verdict::without(denied, |response: &mut DeleteTopicsResponse, denied| response.responses.extend(denied))
}

/// The result of a topic that the client may not delete.
fn denied_row(rights: &Rights<'_>, topic: &DeleteTopicState) -> Option<DeletableTopicResult> {
    let by_id = topic.name.is_none().then(|| topic_name(rights, topic.topic_id));
    let name = match by_id {
        None => topic.name.clone()?,
        Some(known) => Text::from(&*known?),
    };
    let may = |operation| rights.allows(operation, Resource::Topic(&name));
    let describes = may(Operation::Describe);
    if describes && may(Operation::Delete) {
        return None;
    }
    Some(DeletableTopicResult {
        name: Some(name).filter(|_| describes || topic.name.is_some()),
        topic_id: topic.topic_id,
        error_code: TOPIC_DENIED,
        error_message: denied_text(),
        ..Default::default()
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: DeleteTopicsRequest,
    version: i16,
) -> Result<DeleteTopicsResponse, AnswerError> {
    let asked = if version >= 6 { request.topics } else { by_name(request) };
    let (asked, twice) = named_once(asked, |topic| (topic.name.clone(), topic.topic_id));
    let mut responses: Vec<_> = twice
        .into_iter()
        .map(|(name, topic_id)| {
            let topic = DeleteTopicState { name, topic_id, ..Default::default() };
            refused(&topic, &TopicError::BadRequest("the topic is named twice".to_owned()))
        })
        .collect();
    let mut asked_for = Vec::with_capacity(asked.len());
    let mut topics = Vec::with_capacity(asked.len());
    for topic in asked {
        match reference(&topic) {
            Ok(found) => {
                topics.push(found);
                asked_for.push(topic);
            }
            Err(why) => responses.push(refused(&topic, &why)),
        }
    }
    let (asked_for, topics, both) = separate(ctx, asked_for, topics).await?;
    responses.extend(both.iter().map(|topic| {
        refused(topic, &TopicError::BadRequest("the topic is named twice, by name and by id".to_owned()))
    }));
    let results = ctx.shards.catalog().submit(DeleteTopics { topics }).await?;
    responses.extend(asked_for.iter().zip(results).map(|(topic, result)| match result {
        Ok(deleted) => {
            ctx.deleted_topics.insert(&deleted.name);
            DeletableTopicResult {
                name: Some(deleted.name.into()),
                topic_id: to_uuid(deleted.id),
                ..Default::default()
            }
        }
        Err(error) => refused(topic, &error),
    }));
    Ok(DeleteTopicsResponse { responses, ..Default::default() })
}

type TopicStates = Vec<DeleteTopicState>;

/// Separates the topics that the request names both by name and by id. They are not deleted, and each gets one row.
async fn separate(
    ctx: &Context,
    asked: TopicStates,
    topics: Vec<TopicRef>,
) -> Result<(TopicStates, Vec<TopicRef>, TopicStates), AnswerError> {
    let ids: Vec<_> = asked.iter().filter(|topic| topic.name.is_none()).map(|topic| topic.topic_id).collect();
    if ids.is_empty() || ids.len() == asked.len() {
        return Ok((asked, topics, Vec::new()));
    }
    let name = |shard: &Shard, id| Some((id, shard.catalog().topic(to_topic_id(id))?.name.clone()));
    let named: Vec<_> = ctx
        .shards
        .catalog()
        .peek(move |shard, _, _| ids.into_iter().filter_map(|id| name(shard, id)).collect())
        .await?;
    let name_of = |topic: &DeleteTopicState| {
        let by_id = named.iter().find(|(id, _)| *id == topic.topic_id).map(|(_, name)| name.clone());
        topic.name.as_ref().map(String::from).or(by_id)
    };
    let names: Vec<Option<String>> = asked.iter().map(name_of).collect();
    let (mut once, mut refs, mut both) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (topic, reference)) in asked.into_iter().zip(topics).enumerate() {
        let same = |other: &Option<String>| other.is_some() && *other == names[at];
        match names.iter().filter(|other| same(other)).count() {
            0 | 1 => {
                once.push(topic);
                refs.push(reference);
            }
            _ if topic.name.is_none() => {
                both.push(DeleteTopicState { name: names[at].as_deref().map(Text::from), ..topic });
            }
            _ => {}
        }
    }
    Ok((once, refs, both))
}

fn by_name(request: DeleteTopicsRequest) -> Vec<DeleteTopicState> {
    let topic = |name| DeleteTopicState { name: Some(name), ..Default::default() };
    request.topic_names.into_iter().map(topic).collect()
}

/// A topic is named by its name or by its id, not by both.
fn reference(topic: &DeleteTopicState) -> Result<TopicRef, TopicError> {
    match (&topic.name, topic.topic_id.is_zero()) {
        (Some(name), true) => Ok(TopicRef::Name(String::from(name))),
        (None, false) => Ok(TopicRef::Id(to_topic_id(topic.topic_id))),
        (Some(_), false) => {
            Err(TopicError::BadRequest("give the name or the id of a topic, not both".to_owned()))
        }
        (None, true) => Err(TopicError::BadRequest("give the name or the id of a topic".to_owned())),
    }
}

fn refused(topic: &DeleteTopicState, error: &TopicError) -> DeletableTopicResult {
    let (code, message) = topic_error::explain(error);
    DeletableTopicResult {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        error_code: code.0,
        error_message: Some(message.into()),
        ..Default::default()
    }
}
