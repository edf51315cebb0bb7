//! OffsetDelete 0: deletes committed and staged offsets of a group.
//! Left out: nothing.

use super::AnswerError;
use super::authorization::{TOPIC_DENIED, TopicChecks, Verdict, take_denied};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::catalog::TopicRef;
use ottla_core::offsets::{DeleteOffsets, DeleteOffsetsError, OffsetDeleteError};
use ottla_types::acl::Operation;
use ottla_wire::ErrorCode;
use ottla_wire::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use ottla_wire::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use ottla_wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

/// S-347: DELETE on the group, READ on each topic.
pub(crate) fn authorize(
    request: &mut OffsetDeleteRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<OffsetDeleteResponse> {
    if !rights.allows(Operation::Delete, Resource::Group(&request.group_id)) {
        return Verdict::Refused(top_level(ErrorCode::GROUP_AUTHORIZATION_FAILED));
    }
    let mut checks = TopicChecks::new(rights, Operation::Read);
    let denied = take_denied(&mut request.topics, |topic| checks.allows(&topic.name));
    Verdict::without(denied, |response: &mut OffsetDeleteResponse, denied| {
        // An error of the whole request has no rows.
        if response.error_code == 0 {
            response.topics.extend(denied.into_iter().map(denied_topic));
        }
    })
}

fn denied_topic(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic {
    let partition = |asked: &OffsetDeleteRequestPartition| OffsetDeleteResponsePartition {
        partition_index: asked.partition_index,
        error_code: TOPIC_DENIED,
        ..Default::default()
    };
    let partitions = topic.partitions.iter().map(partition).collect();
    OffsetDeleteResponseTopic { name: topic.name, partitions, ..Default::default() }
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: OffsetDeleteRequest,
    _version: i16,
) -> Result<OffsetDeleteResponse, AnswerError> {
    if request.group_id.is_empty() {
        return Ok(top_level(ErrorCode::INVALID_GROUP_ID));
    }
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| partition.partition_index);
        (TopicRef::Name((&topic.name).into()), partitions.collect())
    });
    let topics = topics.collect();
    let group_id: String = request.group_id.into();
    let host = ctx.shards.of_group(&group_id);
    let results = match host.submit(DeleteOffsets { group_id, topics }).await? {
        Ok(results) => results,
        Err(error) => return Ok(top_level(whole_code(error))),
    };
    let topics = request.topics.into_iter().zip(results);
    let topics = topics.map(|(topic, results)| answer_topic(topic, results)).collect();
    Ok(OffsetDeleteResponse { topics, ..Default::default() })
}

fn top_level(error: ErrorCode) -> OffsetDeleteResponse {
    OffsetDeleteResponse { error_code: error.0, ..Default::default() }
}

fn answer_topic(
    topic: OffsetDeleteRequestTopic,
    results: Vec<Result<(), OffsetDeleteError>>,
) -> OffsetDeleteResponseTopic {
    let partitions = topic.partitions.iter().zip(results).map(|(asked, result)| {
        let error = result.map_or_else(code, |()| ErrorCode::NONE);
        OffsetDeleteResponsePartition {
            partition_index: asked.partition_index,
            error_code: error.0,
            ..Default::default()
        }
    });
    OffsetDeleteResponseTopic { name: topic.name, partitions: partitions.collect(), ..Default::default() }
}

fn code(error: OffsetDeleteError) -> ErrorCode {
    match error {
        OffsetDeleteError::UnknownPartition => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        OffsetDeleteError::Subscribed => ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC,
    }
}

fn whole_code(error: DeleteOffsetsError) -> ErrorCode {
    match error {
        DeleteOffsetsError::UnknownGroup => ErrorCode::GROUP_ID_NOT_FOUND,
        DeleteOffsetsError::NotEmpty => ErrorCode::NON_EMPTY_GROUP,
    }
}
