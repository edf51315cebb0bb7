//! DeleteRecords 0-2: moves the log start offset of partitions.

use super::authorization::{TOPIC_DENIED, TopicChecks, Verdict, take_denied};
use super::partition_lookup;
use crate::authorizer::Rights;
use crate::context::Context;
use crate::session::Session;
use ottla_core::partitions::{DeleteRecords, DeleteRecordsError};
use ottla_types::Offset;
use ottla_types::acl::Operation;
use ottla_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use ottla_wire::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use ottla_wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use ottla_wire::{ErrorCode, Text};

/// S-324: DELETE on each topic.
pub(crate) fn authorize(
    request: &mut DeleteRecordsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<DeleteRecordsResponse> {
    let mut checks = TopicChecks::new(rights, Operation::Delete);
    let denied = take_denied(&mut request.topics, |topic| checks.allows(&topic.name));
    Verdict::without(denied, |response: &mut DeleteRecordsResponse, denied| {
        response.topics.extend(denied.into_iter().map(denied_topic));
    })
}

fn denied_topic(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult {
    let partition = |asked: &DeleteRecordsPartition| DeleteRecordsPartitionResult {
        partition_index: asked.partition_index,
        low_watermark: -1,
        error_code: TOPIC_DENIED,
        ..Default::default()
    };
    let partitions = topic.partitions.iter().map(partition).collect();
    DeleteRecordsTopicResult { name: topic.name, partitions, ..Default::default() }
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: DeleteRecordsRequest,
    _version: i16,
) -> Result<DeleteRecordsResponse, super::AnswerError> {
    let (mut names, mut offsets) = (Vec::<(Text, i32)>::new(), Vec::new());
    for topic in &request.topics {
        for partition in &topic.partitions {
            names.push((topic.name.clone(), partition.partition_index));
            offsets.push(Offset(partition.offset));
        }
    }
    let found = partition_lookup::find(ctx, names).await?;
    let partitions = found.iter().zip(offsets).filter_map(|(found, offset)| Some(((*found)?, offset)));
    let partitions = partitions.collect();
    let results = ctx.shards.partitions().submit(DeleteRecords { partitions }).await?;
    let mut deleted = results.into_iter();
    let mut found = found.into_iter();
    let mut next = || match found.next().flatten() {
        Some(_) => deleted.next().unwrap_or(Err(DeleteRecordsError::UnknownPartition)),
        None => Err(DeleteRecordsError::UnknownPartition),
    };
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let partitions = topic.partitions.iter().map(|asked| result(asked.partition_index, next()));
        let partitions = partitions.collect();
        topics.push(DeleteRecordsTopicResult { name: topic.name, partitions, ..Default::default() });
    }
    Ok(DeleteRecordsResponse { topics, ..Default::default() })
}

fn result(partition_index: i32, result: Result<Offset, DeleteRecordsError>) -> DeleteRecordsPartitionResult {
    let (low_watermark, code) = match result {
        Ok(start) => (start.0, ErrorCode::NONE),
        Err(DeleteRecordsError::UnknownPartition) => (-1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        Err(DeleteRecordsError::OutOfRange) => (-1, ErrorCode::OFFSET_OUT_OF_RANGE),
        Err(DeleteRecordsError::NotByPolicy) => (-1, ErrorCode::POLICY_VIOLATION),
    };
    DeleteRecordsPartitionResult { partition_index, low_watermark, error_code: code.0, ..Default::default() }
}
