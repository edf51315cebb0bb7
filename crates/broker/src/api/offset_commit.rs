//! OffsetCommit 2-10: commits offsets outside a transaction.
//! Left out: the retention time of versions 2 to 4 is ignored; offsets.retention.minutes holds for all.

use super::Broken;
use super::group_member::{fencing_code, member_ref};
use super::offset_topics::topic_ref;
use super::subject::{In, Member, Partition};
use crate::context::{Caller, Context};
use ottla_core::Refused;
use ottla_core::group::CommitFencing;
use ottla_core::offsets::{CommitOffsets, NewOffset, OffsetError, TopicOffsets};
use ottla_types::Offset;
use ottla_wire::ErrorCode;
use ottla_wire::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use ottla_wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use ottla_wire::messages::{OffsetCommitRequest, OffsetCommitResponse};

pub(crate) async fn answer(
    ctx: &Context,
    _caller: &Caller,
    request: OffsetCommitRequest,
    version: i16,
) -> Result<OffsetCommitResponse, Broken> {
    let member = member_ref(
        &request.group_id,
        request.generation_id_or_member_epoch,
        &request.member_id,
        request.group_instance_id.as_ref(),
    );
    let topics = request.topics.iter().map(|topic| TopicOffsets {
        topic: topic_ref(&topic.name, topic.topic_id, version >= 10),
        offsets: topic.partitions.iter().map(new_offset).collect(),
    });
    let topics = topics.collect();
    let results = ctx.host.submit(CommitOffsets { member, topics }).await?;
    let topics = request.topics.into_iter().zip(results);
    let who = Member(&request.group_id, &request.member_id);
    let topics = topics.map(|(topic, results)| answer_topic(ctx, &who, (topic, results), version)).collect();
    Ok(OffsetCommitResponse { topics, ..Default::default() })
}

fn new_offset(partition: &OffsetCommitRequestPartition) -> NewOffset {
    NewOffset {
        partition: partition.partition_index,
        offset: Offset(partition.committed_offset),
        leader_epoch: partition.committed_leader_epoch,
        metadata: partition.committed_metadata.as_ref().map(String::from).unwrap_or_default(),
    }
}

fn answer_topic(
    ctx: &Context,
    who: &Member<'_>,
    (topic, results): (OffsetCommitRequestTopic, Vec<Result<(), Refused<OffsetError>>>),
    version: i16,
) -> OffsetCommitResponseTopic {
    let partitions = topic.partitions.iter().zip(results).map(|(asked, result)| {
        let refused = |refusal: Refused<OffsetError>| {
            let code = code(refusal.error, version);
            let subject = In(Partition(&topic.name, topic.topic_id, asked.partition_index), who);
            ctx.refused(subject, code, &refusal);
            code
        };
        let error = result.map_or_else(refused, |()| ErrorCode::NONE);
        OffsetCommitResponsePartition {
            partition_index: asked.partition_index,
            error_code: error.0,
            ..Default::default()
        }
    });
    OffsetCommitResponseTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: partitions.collect(),
        ..Default::default()
    }
}

fn code(error: OffsetError, version: i16) -> ErrorCode {
    match error {
        OffsetError::UnknownTopic if version >= 10 => ErrorCode::UNKNOWN_TOPIC_ID,
        OffsetError::UnknownTopic | OffsetError::UnknownPartition => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        OffsetError::MetadataTooLarge => ErrorCode::OFFSET_METADATA_TOO_LARGE,
        OffsetError::Fenced(CommitFencing::UnknownGroup) if version >= 9 => ErrorCode::GROUP_ID_NOT_FOUND,
        OffsetError::Fenced(error) => fencing_code(error),
        // A plain commit may have an empty group id and has no transaction.
        OffsetError::InvalidGroupId | OffsetError::Transaction(_) => ErrorCode::UNKNOWN_SERVER_ERROR,
    }
}
