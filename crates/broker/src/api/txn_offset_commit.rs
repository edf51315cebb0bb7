//! TxnOffsetCommit 0-6: stages offsets in a transaction. There is no top-level error: every partition carries it (T-160).
//! Left out: nothing.

use super::Broken;
use super::group_member::{fencing_code, member_ref};
use super::offset_topics::topic_ref;
use super::subject::{In, Partition, TransactionalId};
use crate::context::{Caller, Context};
use ottla_core::Refused;
use ottla_core::offsets::{NewOffset, OffsetError, StageOffsets, TopicOffsets};
use ottla_core::transaction::TransactionError;
use ottla_types::{Offset, ProducerEpoch, ProducerId};
use ottla_wire::ErrorCode;
use ottla_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use ottla_wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use ottla_wire::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};

pub(crate) async fn answer(
    ctx: &Context,
    _caller: &Caller,
    request: TxnOffsetCommitRequest,
    version: i16,
) -> Result<TxnOffsetCommitResponse, Broken> {
    let member = member_ref(
        &request.group_id,
        request.generation_id_or_member_epoch,
        &request.member_id,
        request.group_instance_id.as_ref(),
    );
    let topics = request.topics.iter().map(|topic| TopicOffsets {
        topic: topic_ref(&topic.name, topic.topic_id, version >= 6),
        offsets: topic.partitions.iter().map(new_offset).collect(),
    });
    let topics = topics.collect();
    let transactional_id = String::from(&request.transactional_id);
    let stage = StageOffsets {
        transactional_id,
        producer_id: ProducerId(request.producer_id),
        producer_epoch: ProducerEpoch(request.producer_epoch),
        // The second transaction protocol adds the group to the transaction with the offsets (T-05).
        verify_only: version < 5,
        member,
        topics,
    };
    let results = ctx.host.submit(stage).await?;
    let topics = request.topics.into_iter().zip(results);
    let who = TransactionalId(&request.transactional_id);
    let topics = topics.map(|(topic, results)| answer_topic(ctx, &who, (topic, results), version)).collect();
    Ok(TxnOffsetCommitResponse { topics, ..Default::default() })
}

fn new_offset(partition: &TxnOffsetCommitRequestPartition) -> NewOffset {
    NewOffset {
        partition: partition.partition_index,
        offset: Offset(partition.committed_offset),
        leader_epoch: partition.committed_leader_epoch,
        metadata: partition.committed_metadata.as_ref().map(String::from).unwrap_or_default(),
    }
}

fn answer_topic(
    ctx: &Context,
    who: &TransactionalId<'_>,
    (topic, results): (TxnOffsetCommitRequestTopic, Vec<Result<(), Refused<OffsetError>>>),
    version: i16,
) -> TxnOffsetCommitResponseTopic {
    let partitions = topic.partitions.iter().zip(results).map(|(asked, result)| {
        let refused = |refusal: Refused<OffsetError>| {
            let code = code(refusal.error, version);
            let subject = In(Partition(&topic.name, topic.topic_id, asked.partition_index), who);
            ctx.refused(subject, code, &refusal);
            code
        };
        let error = result.map_or_else(refused, |()| ErrorCode::NONE);
        TxnOffsetCommitResponsePartition {
            partition_index: asked.partition_index,
            error_code: error.0,
            ..Default::default()
        }
    });
    TxnOffsetCommitResponseTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: partitions.collect(),
        ..Default::default()
    }
}

/// A fenced producer is always told INVALID_PRODUCER_EPOCH here (T-163, T-220).
fn code(error: OffsetError, version: i16) -> ErrorCode {
    match error {
        OffsetError::UnknownTopic if version >= 6 => ErrorCode::UNKNOWN_TOPIC_ID,
        OffsetError::UnknownTopic | OffsetError::UnknownPartition => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        OffsetError::MetadataTooLarge => ErrorCode::OFFSET_METADATA_TOO_LARGE,
        OffsetError::InvalidGroupId => ErrorCode::INVALID_GROUP_ID,
        OffsetError::Fenced(error) => fencing_code(error),
        OffsetError::Transaction(TransactionError::NoId) => ErrorCode::INVALID_REQUEST,
        OffsetError::Transaction(TransactionError::UnknownProducer) => ErrorCode::INVALID_PRODUCER_ID_MAPPING,
        OffsetError::Transaction(TransactionError::Fenced) => ErrorCode::INVALID_PRODUCER_EPOCH,
        OffsetError::Transaction(TransactionError::NotInTransaction) if version >= 4 => {
            ErrorCode::TRANSACTION_ABORTABLE
        }
        OffsetError::Transaction(TransactionError::NotInTransaction) => ErrorCode::INVALID_TXN_STATE,
    }
}
