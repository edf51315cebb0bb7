//! The judgements on offsets: which are committed, staged and deleted.

use super::{
    CommitOffsets, DeleteOffsets, DeleteOffsetsError, NewOffset, OffsetAnswer, OffsetDeleteError,
    OffsetError, StageError, StageOffsets,
};
use crate::effect::{Answer, Effects};
use crate::hash::offsets_partition;
use crate::shard::Shard;
use crate::transaction::{TransactionCheck, TransactionClaim};
use ottla_types::record::{CommittedOffset, LogRecord, OffsetsCommitted, OffsetsDeleted, OffsetsStaged};
use ottla_types::{Millis, TopicPartition};

/// Results in the order asked, and the offsets that pass.
type Judged = (Vec<Result<(), OffsetError>>, Vec<(TopicPartition, CommittedOffset)>);

impl Shard {
    pub(crate) fn commit_offsets(&mut self, now: Millis, ask: CommitOffsets, out: &mut Effects) {
        let result = self.groups.admit_commit(now, &ask.member, true).map(|()| {
            let (results, offsets) = self.judge_offsets(now, ask.offsets);
            if !offsets.is_empty() {
                let group_id = ask.member.group_id.clone();
                out.append(LogRecord::OffsetsCommitted(OffsetsCommitted { group_id, offsets }));
            }
            results
        });
        out.reply(ask.ticket, Answer::Offsets(OffsetAnswer::Committed(result)));
    }

    pub(crate) fn stage_offsets(&mut self, now: Millis, ask: StageOffsets, out: &mut Effects) {
        let ticket = ask.ticket;
        let result = self.judge_stage(now, ask, out);
        out.reply(ticket, Answer::Offsets(OffsetAnswer::Staged(result)));
    }

    /// The transaction comes first: a fenced member's request may start it although its offsets are refused (T-164).
    fn judge_stage(
        &mut self,
        now: Millis,
        ask: StageOffsets,
        out: &mut Effects,
    ) -> Result<Vec<Result<(), OffsetError>>, StageError> {
        if ask.member.group_id.is_empty() {
            return Err(StageError::InvalidGroupId);
        }
        let partitions = self.catalog.settings().offsets_partitions;
        let home = offsets_partition(&ask.member.group_id, partitions);
        let check = if ask.verify_only { TransactionCheck::Verify } else { TransactionCheck::Add };
        let claim = TransactionClaim {
            transactional_id: ask.transactional_id,
            producer_id: ask.producer_id,
            producer_epoch: ask.producer_epoch,
            check,
        };
        let added = self.transactions.admit(now, &claim, &[], &[home]).map_err(StageError::Transaction)?;
        added.into_iter().for_each(|record| out.append(record));
        self.groups.admit_commit(now, &ask.member, false).map_err(StageError::Fenced)?;
        let (results, offsets) = self.judge_offsets(now, ask.offsets);
        if !offsets.is_empty() {
            out.append(LogRecord::OffsetsStaged(OffsetsStaged {
                group_id: ask.member.group_id,
                producer_id: claim.producer_id,
                producer_epoch: claim.producer_epoch,
                offsets,
            }));
        }
        Ok(results)
    }

    /// Each offset by itself (T-166): a note that is too long, a partition that is gone.
    fn judge_offsets(&self, now: Millis, asked: Vec<NewOffset>) -> Judged {
        let longest = self.catalog.settings().offset_metadata_max;
        let mut results = Vec::with_capacity(asked.len());
        let mut passed = Vec::with_capacity(asked.len());
        for new in asked {
            let result = if !self.catalog.has_partition(new.partition) {
                Err(OffsetError::UnknownPartition)
            } else if utf16_exceeds(&new.metadata, longest) {
                Err(OffsetError::MetadataTooLarge)
            } else {
                let NewOffset { partition, offset, leader_epoch, metadata } = new;
                passed.push((partition, CommittedOffset { offset, leader_epoch, metadata, at: now }));
                Ok(())
            };
            results.push(result);
        }
        (results, passed)
    }

    pub(crate) fn delete_offsets(&mut self, ask: DeleteOffsets, out: &mut Effects) {
        let result = self.judge_delete(&ask);
        if let Ok(results) = &result {
            let judged = ask.partitions.iter().zip(results);
            let group = self.offsets.groups.get(&ask.group_id);
            let has = |partition: &TopicPartition| {
                group.is_some_and(|g| g.committed.contains_key(partition) || g.is_staged(*partition))
            };
            let gone = judged.filter(|(partition, result)| result.is_ok() && has(partition));
            let partitions: Vec<TopicPartition> = gone.map(|(partition, _)| *partition).collect();
            if !partitions.is_empty() {
                let group_id = ask.group_id;
                out.append(LogRecord::OffsetsDeleted(OffsetsDeleted { group_id, partitions }));
            }
        }
        out.reply(ask.ticket, Answer::Offsets(OffsetAnswer::Deleted(result)));
    }

    fn judge_delete(
        &self,
        ask: &DeleteOffsets,
    ) -> Result<Vec<Result<(), OffsetDeleteError>>, DeleteOffsetsError> {
        let group = self.groups.get(&ask.group_id).ok_or(DeleteOffsetsError::UnknownGroup)?;
        if !group.is_empty() && !group.is_consumer() {
            return Err(DeleteOffsetsError::NotEmpty);
        }
        let judge = |partition: &TopicPartition| {
            let topic = self.catalog.topic(partition.topic);
            let subscribed = topic.is_some_and(|topic| group.is_subscribed(&topic.name));
            if subscribed { Err(OffsetDeleteError::Subscribed) } else { Ok(()) }
        };
        Ok(ask.partitions.iter().map(judge).collect())
    }
}

/// True if the text has more than `most` UTF-16 units.
fn utf16_exceeds(text: &str, most: usize) -> bool {
    // A unit takes at least one byte, so short texts need no counting.
    text.len() > most && text.encode_utf16().count() > most
}
