//! Shared by OffsetCommit and TxnOffsetCommit: the rows of their requests and responses.

use super::group_member::fencing_code;
use super::subject::{In, Partition};
use crate::context::Context;
use ottla_core::Rejection;
use ottla_core::offsets::{NewOffset, OffsetError};
use ottla_core::transactions::TransactionError;
use ottla_types::Offset;
use ottla_wire::{ErrorCode, Text, Uuid};
use std::fmt::Display;

/// An offset that a request commits.
pub(super) fn new_offset(
    partition: i32,
    offset: i64,
    leader_epoch: i32,
    metadata: Option<&Text>,
) -> NewOffset {
    let metadata = metadata.map(String::from).unwrap_or_default();
    NewOffset { partition, offset: Offset(offset), leader_epoch, metadata }
}

/// A topic of a request that commits offsets, with the result for each of its partitions.
pub(super) struct TopicResults<'a> {
    pub(super) name: &'a Text,
    pub(super) id: Uuid,
    pub(super) results: Vec<Result<(), Rejection<OffsetError>>>,
}

impl TopicResults<'_> {
    /// The error codes of the partitions, in their order. Notes each refusal as one of `owner`'s, which is a group
    /// member or a transactional id.
    pub(super) fn codes(
        self,
        ctx: &Context,
        owner: &impl Display,
        partitions: impl Iterator<Item = i32>,
        code: impl Fn(OffsetError) -> ErrorCode,
    ) -> impl Iterator<Item = (i32, ErrorCode)> {
        let TopicResults { name, id, results } = self;
        partitions.zip(results).map(move |(partition, result)| {
            let Err(refusal) = result else { return (partition, ErrorCode::NONE) };
            let code = code(refusal.error);
            ctx.refused(In(Partition(name, id, partition), owner), code, &refusal);
            (partition, code)
        })
    }
}

/// The refusals that OffsetCommit and TxnOffsetCommit answer differently.
pub(super) enum OtherOffsetError {
    InvalidGroupId,
    Transaction(TransactionError),
}

/// The error code of a refusal, where OffsetCommit and TxnOffsetCommit have the same.
///
/// # Errors
/// They do not have the same.
pub(super) fn offset_code(error: OffsetError, by_id: bool) -> Result<ErrorCode, OtherOffsetError> {
    Ok(match error {
        OffsetError::UnknownTopic if by_id => ErrorCode::UNKNOWN_TOPIC_ID,
        OffsetError::UnknownTopic | OffsetError::UnknownPartition => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        OffsetError::MetadataTooLarge => ErrorCode::OFFSET_METADATA_TOO_LARGE,
        OffsetError::Fenced(error) => fencing_code(error),
        OffsetError::InvalidGroupId => return Err(OtherOffsetError::InvalidGroupId),
        OffsetError::Transaction(error) => return Err(OtherOffsetError::Transaction(error)),
    })
}
