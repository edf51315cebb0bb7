//! OffsetCommit 2-10: commits offsets outside a transaction.
//! Left out: the retention time of versions 2 to 4 is ignored; offsets.retention.minutes applies to all.

use super::AnswerError;
use super::authorization::{GROUP_DENIED, TOPIC_DENIED, TopicChecks, Verdict, take_denied};
use super::committed_rows::{TopicResults, new_offset, offset_code};
use super::group_member::member_ref;
use super::offset_topics::topic_ref;
use super::subject::Member;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::groups::CommitFencing;
use ottla_core::offsets::{CommitOffsets, OffsetError, TopicOffsets};
use ottla_types::acl::Operation;
use ottla_wire::ErrorCode;
use ottla_wire::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use ottla_wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use ottla_wire::messages::{OffsetCommitRequest, OffsetCommitResponse};

/// S-311: READ on the group and on each topic.
pub(crate) fn authorize(
    request: &mut OffsetCommitRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<OffsetCommitResponse> {
    if !rights.allows(Operation::Read, Resource::Group(&request.group_id)) {
        let topics = std::mem::take(&mut request.topics).into_iter();
        let topics = topics.map(|topic| denied_topic(topic, GROUP_DENIED)).collect();
        return Verdict::Refused(OffsetCommitResponse { topics, ..Default::default() });
    }
    let mut checks = TopicChecks::new(rights, Operation::Read);
    let denied = take_denied(&mut request.topics, |topic| checks.allows_ref(&topic.name, topic.topic_id));
    Verdict::without(denied, |response: &mut OffsetCommitResponse, denied| {
        response.topics.extend(denied.into_iter().map(|topic| denied_topic(topic, TOPIC_DENIED)));
    })
}

fn denied_topic(topic: OffsetCommitRequestTopic, error_code: i16) -> OffsetCommitResponseTopic {
    let partition = |asked: &OffsetCommitRequestPartition| OffsetCommitResponsePartition {
        partition_index: asked.partition_index,
        error_code,
        ..Default::default()
    };
    OffsetCommitResponseTopic {
        partitions: topic.partitions.iter().map(partition).collect(),
        name: topic.name,
        topic_id: topic.topic_id,
        ..Default::default()
    }
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: OffsetCommitRequest,
    version: i16,
) -> Result<OffsetCommitResponse, AnswerError> {
    let member = member_ref(
        &request.group_id,
        request.generation_id_or_member_epoch,
        &request.member_id,
        request.group_instance_id.as_ref(),
    );
    let by_id = version >= 10;
    let offset = |row: &OffsetCommitRequestPartition| {
        let OffsetCommitRequestPartition {
            partition_index, committed_offset, committed_leader_epoch, ..
        } = *row;
        new_offset(partition_index, committed_offset, committed_leader_epoch, row.committed_metadata.as_ref())
    };
    let topics = request.topics.iter().map(|topic| TopicOffsets {
        topic: topic_ref(&topic.name, topic.topic_id, by_id),
        offsets: topic.partitions.iter().map(offset).collect(),
    });
    let topics = topics.collect();
    let results = ctx.shards.of_group(&member.group_id).submit(CommitOffsets { member, topics }).await?;
    let owner = Member(&request.group_id, &request.member_id);
    let topics = request.topics.iter().zip(results).map(|(topic, results)| {
        let results = TopicResults { name: &topic.name, id: topic.topic_id, results };
        let partitions = topic.partitions.iter().map(|row| row.partition_index);
        let codes = results.codes(ctx, &owner, partitions, |error| code(error, version));
        OffsetCommitResponseTopic {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: codes.map(row).collect(),
            ..Default::default()
        }
    });
    Ok(OffsetCommitResponse { topics: topics.collect(), ..Default::default() })
}

fn row((partition_index, code): (i32, ErrorCode)) -> OffsetCommitResponsePartition {
    OffsetCommitResponsePartition { partition_index, error_code: code.0, ..Default::default() }
}

fn code(error: OffsetError, version: i16) -> ErrorCode {
    match error {
        OffsetError::Fenced(CommitFencing::UnknownGroup) if version >= 9 => ErrorCode::GROUP_ID_NOT_FOUND,
        // A plain commit may have an empty group id and has no transaction, so no other refusal exists.
        error => offset_code(error, version >= 10).unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR),
    }
}
