//! TxnOffsetCommit 0-6: stages offsets in a transaction. There is no top-level error: every partition has it (T-160).
//! Left out: nothing.

use super::AnswerError;
use super::authorization::{
    GROUP_DENIED, TOPIC_DENIED, TRANSACTIONAL_ID_DENIED, TopicChecks, Verdict, take_denied,
};
use super::committed_rows::{OtherOffsetError, TopicResults, new_offset, offset_code};
use super::group_member::member_ref;
use super::offset_topics::topic_ref;
use super::subject::TransactionalId;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::offsets::{OffsetError, StageOffsets, TopicOffsets};
use ottla_core::transactions::TransactionError;
use ottla_types::acl::Operation;
use ottla_types::{ProducerEpoch, ProducerId};
use ottla_wire::ErrorCode;
use ottla_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use ottla_wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use ottla_wire::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};

/// S-333: WRITE on the transactional id, READ on the group and on each topic.
pub(crate) fn authorize(
    request: &mut TxnOffsetCommitRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<TxnOffsetCommitResponse> {
    let id = Resource::TransactionalId(&request.transactional_id);
    let denied = if !rights.allows(Operation::Write, id) {
        Some(TRANSACTIONAL_ID_DENIED)
    } else if !rights.allows(Operation::Read, Resource::Group(&request.group_id)) {
        Some(GROUP_DENIED)
    } else {
        None
    };
    if let Some(code) = denied {
        let topics = std::mem::take(&mut request.topics).into_iter();
        let topics = topics.map(|topic| denied_topic(topic, code)).collect();
        return Verdict::Refused(TxnOffsetCommitResponse { topics, ..Default::default() });
    }
    let mut checks = TopicChecks::new(rights, Operation::Read);
    let denied = take_denied(&mut request.topics, |topic| checks.allows_ref(&topic.name, topic.topic_id));
    Verdict::without(denied, |response: &mut TxnOffsetCommitResponse, denied| {
        response.topics.extend(denied.into_iter().map(|topic| denied_topic(topic, TOPIC_DENIED)));
    })
}

fn denied_topic(topic: TxnOffsetCommitRequestTopic, code: i16) -> TxnOffsetCommitResponseTopic {
    let partition = |asked: &TxnOffsetCommitRequestPartition| row((asked.partition_index, ErrorCode(code)));
    TxnOffsetCommitResponseTopic {
        partitions: topic.partitions.iter().map(partition).collect(),
        name: topic.name,
        topic_id: topic.topic_id,
        ..Default::default()
    }
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: TxnOffsetCommitRequest,
    version: i16,
) -> Result<TxnOffsetCommitResponse, AnswerError> {
    let member = member_ref(
        &request.group_id,
        request.generation_id_or_member_epoch,
        &request.member_id,
        request.group_instance_id.as_ref(),
    );
    let by_id = version >= 6;
    let offset = |row: &TxnOffsetCommitRequestPartition| {
        let TxnOffsetCommitRequestPartition { partition_index, committed_offset, .. } = *row;
        let metadata = row.committed_metadata.as_ref();
        new_offset(partition_index, committed_offset, row.committed_leader_epoch, metadata)
    };
    let topics = request.topics.iter().map(|topic| TopicOffsets {
        topic: topic_ref(&topic.name, topic.topic_id, by_id),
        offsets: topic.partitions.iter().map(offset).collect(),
    });
    let topics = topics.collect();
    let stage = StageOffsets {
        transactional_id: String::from(&request.transactional_id),
        producer_id: ProducerId(request.producer_id),
        producer_epoch: ProducerEpoch(request.producer_epoch),
        // Under transaction version 2 the offsets also add the group to the transaction (T-05).
        verify_only: version < 5,
        member,
        topics,
    };
    let results = ctx.shards.of_transactional_id(&request.transactional_id).submit(stage).await?;
    let owner = TransactionalId(&request.transactional_id);
    let topics = request.topics.iter().zip(results).map(|(topic, results)| {
        let results = TopicResults { name: &topic.name, id: topic.topic_id, results };
        let partitions = topic.partitions.iter().map(|row| row.partition_index);
        let codes = results.codes(ctx, &owner, partitions, |error| code(error, version));
        TxnOffsetCommitResponseTopic {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: codes.map(row).collect(),
            ..Default::default()
        }
    });
    Ok(TxnOffsetCommitResponse { topics: topics.collect(), ..Default::default() })
}

fn row((partition_index, code): (i32, ErrorCode)) -> TxnOffsetCommitResponsePartition {
    TxnOffsetCommitResponsePartition { partition_index, error_code: code.0, ..Default::default() }
}

/// A fenced producer always gets INVALID_PRODUCER_EPOCH here (T-163, T-220).
fn code(error: OffsetError, version: i16) -> ErrorCode {
    match offset_code(error, version >= 6) {
        Ok(code) => code,
        Err(OtherOffsetError::InvalidGroupId) => ErrorCode::INVALID_GROUP_ID,
        Err(OtherOffsetError::Transaction(error)) => match error {
            TransactionError::NoId => ErrorCode::INVALID_REQUEST,
            TransactionError::UnknownProducer => ErrorCode::INVALID_PRODUCER_ID_MAPPING,
            TransactionError::Fenced => ErrorCode::INVALID_PRODUCER_EPOCH,
            TransactionError::NotInTransaction if version >= 4 => ErrorCode::TRANSACTION_ABORTABLE,
            TransactionError::NotInTransaction => ErrorCode::INVALID_TXN_STATE,
        },
    }
}
