//! CreatePartitions 0-3: raises the number of partitions of topics, or only validates it.
//! Left out: throttling (KIP-599) and the time limit.

use super::authorization::{TOPIC_DENIED, Verdict, take_denied};
use super::{AnswerError, named_once, topic_error};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::host::HostGone;
use crate::session::Session;
use ottla_core::catalog::{CreatePartitions, TopicError};
use ottla_types::acl::Operation;
use ottla_wire::Text;
use ottla_wire::messages::create_partitions_request::CreatePartitionsTopic;
use ottla_wire::messages::create_partitions_response::CreatePartitionsTopicResult;
use ottla_wire::messages::{CreatePartitionsRequest, CreatePartitionsResponse};

/// S-341: ALTER on each topic. A topic that is named twice is refused for that.
pub(crate) fn authorize(
    request: &mut CreatePartitionsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<CreatePartitionsResponse> {
    let names: Vec<Text> = request.topics.iter().map(|topic| topic.name.clone()).collect();
    let denied = take_denied(&mut request.topics, |topic| {
        let twice = names.iter().filter(|name| **name == topic.name).count() > 1;
        twice || rights.allows(Operation::Alter, Resource::Topic(&topic.name))
    });
    Verdict::without(denied, |response: &mut CreatePartitionsResponse, denied| {
        response.results.extend(denied.into_iter().map(|topic| CreatePartitionsTopicResult {
            name: topic.name,
            error_code: TOPIC_DENIED,
            error_message: None,
            ..Default::default()
        }));
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: CreatePartitionsRequest,
    _version: i16,
) -> Result<CreatePartitionsResponse, AnswerError> {
    let (asked, twice) = named_once(request.topics, |topic| topic.name.clone());
    let duplicate = || TopicError::BadRequest("the topic is named twice".to_owned());
    let mut results: Vec<_> = twice.into_iter().map(|name| row(name, Err(duplicate()))).collect();
    let mut names = Vec::with_capacity(asked.len());
    let mut topics = Vec::with_capacity(asked.len());
    for topic in asked {
        match check_assignments(ctx, &topic).await? {
            Ok(()) => {
                topics.push((String::from(&topic.name), topic.count));
                names.push(topic.name);
            }
            Err(error) => results.push(row(topic.name, Err(error))),
        }
    }
    let validate_only = request.validate_only;
    let judged = ctx.shards.catalog().submit(CreatePartitions { topics, validate_only }).await?;
    results.extend(names.into_iter().zip(judged).map(|(name, result)| row(name, result.map(drop))));
    Ok(CreatePartitionsResponse { results, ..Default::default() })
}

/// Checks the brokers that the client chose for the new partitions: a list for each partition, with the only broker.
async fn check_assignments(
    ctx: &Context,
    topic: &CreatePartitionsTopic,
) -> Result<Result<(), TopicError>, HostGone> {
    let Some(assignments) = &topic.assignments else { return Ok(Ok(())) };
    let name = String::from(&topic.name);
    let look = ctx
        .shards
        .catalog()
        .read(move |shard, _| shard.catalog().topic_named(&name).map(|topic| topic.partitions));
    let added = match look.await? {
        Some(now) if topic.count > now => i64::from(topic.count) - i64::from(now),
        // The topic is unknown, or does not grow: the catalog refuses the command.
        _ => return Ok(Ok(())),
    };
    if i64::try_from(assignments.len()) != Ok(added) {
        let given = assignments.len();
        let why = format!("{added} partitions are added, but {given} are assigned to brokers");
        return Ok(Err(TopicError::BadAssignment(why)));
    }
    let node = ctx.node_id;
    let elsewhere = assignments.iter().any(|one| one.broker_ids.to_vec() != [node]);
    Ok(if elsewhere {
        let why = format!("partitions must be assigned to broker {node} alone, the only one here");
        Err(TopicError::BadAssignment(why))
    } else {
        Ok(())
    })
}

fn row(name: Text, result: Result<(), TopicError>) -> CreatePartitionsTopicResult {
    let Err(error) = result else { return CreatePartitionsTopicResult { name, ..Default::default() } };
    let (code, message) = topic_error::explain(&error);
    CreatePartitionsTopicResult {
        name,
        error_code: code.0,
        error_message: Some(message.into()),
        ..Default::default()
    }
}
