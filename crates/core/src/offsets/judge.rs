//! The judgements on offsets: which are committed, staged and deleted.

use super::{
    CommitOffsets, CommitOffsetsReply, DeleteOffsets, DeleteOffsetsError, DeleteOffsetsReply, NewOffset,
    OffsetCommand, OffsetDeleteError, OffsetError, Offsets, Others, StageOffsets, StageOffsetsReply,
    TopicOffsets,
};
use crate::catalog::{Catalog, Topic};
use crate::effect::Effects;
use crate::hash::offsets_partition;
use crate::refusal::{Facts, Rejection};
use crate::transactions::{TransactionCheck, TransactionClaim};
use ottla_types::record::{CommittedOffset, OffsetsCommitted, OffsetsDeleted, OffsetsStaged};
use ottla_types::{Millis, TopicPartition};

/// Results in the order asked.
type Results<E> = Vec<Vec<Result<(), E>>>;
type Refusal = Rejection<OffsetError>;

impl Offsets {
    /// Judges a command and replies to it.
    pub(crate) fn step(
        &self,
        now: Millis,
        command: OffsetCommand,
        mut others: Others<'_>,
        out: &mut Effects,
    ) {
        match command {
            OffsetCommand::CommitOffsets(command, ticket) => {
                let reply = commit_offsets(now, command, &mut others, out);
                out.reply(ticket, reply);
            }
            OffsetCommand::StageOffsets(command, ticket) => {
                let reply = stage_offsets(now, command, &mut others, out);
                out.reply(ticket, reply);
            }
            OffsetCommand::DeleteOffsets(command, ticket) => {
                let reply = self.delete_offsets(command, &others, out);
                out.reply(ticket, reply);
            }
        }
    }

    fn delete_offsets(
        &self,
        ask: DeleteOffsets,
        others: &Others<'_>,
        out: &mut Effects,
    ) -> DeleteOffsetsReply {
        let mut partitions = Vec::new();
        let result = self.judge_delete(&ask, others, &mut partitions);
        if result.is_ok() && !partitions.is_empty() {
            let group_id = ask.group_id;
            out.append(OffsetsDeleted { group_id, partitions });
        }
        result
    }

    /// Judges each partition; `gone` gets those that have something to delete.
    fn judge_delete(
        &self,
        ask: &DeleteOffsets,
        others: &Others<'_>,
        gone: &mut Vec<TopicPartition>,
    ) -> Result<Results<OffsetDeleteError>, DeleteOffsetsError> {
        let group = others.groups.classic(&ask.group_id).ok_or(DeleteOffsetsError::UnknownGroup)?;
        if !group.is_empty() && !group.is_consumer() {
            return Err(DeleteOffsetsError::NotEmpty);
        }
        let offsets = self.groups.get(&ask.group_id);
        let mut judge = |topic: Option<&Topic>, partition: i32| {
            let at = existing(topic, partition).ok_or(OffsetDeleteError::UnknownPartition)?;
            if topic.is_some_and(|topic| group.is_subscribed(&topic.name)) {
                return Err(OffsetDeleteError::Subscribed);
            }
            gone.extend(offsets.filter(|offsets| offsets.has(at)).map(|_| at));
            Ok(())
        };
        let judged = ask.topics.iter().map(|(topic, asked)| {
            let topic = others.catalog.topic_by(topic);
            asked.iter().map(|partition| judge(topic, *partition)).collect()
        });
        Ok(judged.collect())
    }
}

fn commit_offsets(
    now: Millis,
    ask: CommitOffsets,
    others: &mut Others<'_>,
    out: &mut Effects,
) -> CommitOffsetsReply {
    let gate = if any_exists(others.catalog, &ask.topics) {
        others.groups.admit_commit(now, &ask.member, true).map_err(|refusal| refusal.map(OffsetError::Fenced))
    } else {
        Ok(())
    };
    let (results, offsets) = judge_offsets(others.wall, others.catalog, ask.topics, gate);
    if !offsets.is_empty() {
        let group_id = ask.member.group_id;
        out.append(OffsetsCommitted { group_id, offsets });
    }
    results
}

fn stage_offsets(
    now: Millis,
    mut ask: StageOffsets,
    others: &mut Others<'_>,
    out: &mut Effects,
) -> StageOffsetsReply {
    let topics = std::mem::take(&mut ask.topics);
    let gate = if any_exists(others.catalog, &topics) { admit_stage(now, &ask, others, out) } else { Ok(()) };
    let (results, offsets) = judge_offsets(others.wall, others.catalog, topics, gate);
    if !offsets.is_empty() {
        out.append(OffsetsStaged {
            group_id: ask.member.group_id,
            producer_id: ask.producer_id,
            producer_epoch: ask.producer_epoch,
            offsets,
        });
    }
    results
}

/// The transaction comes before the group: a fenced member's request may start it although its offsets are refused
/// (T-164).
fn admit_stage(
    now: Millis,
    ask: &StageOffsets,
    others: &mut Others<'_>,
    out: &mut Effects,
) -> Result<(), Refusal> {
    if ask.member.group_id.is_empty() {
        return Err(Rejection::by("T-162", OffsetError::InvalidGroupId, Facts::None));
    }
    let home = offsets_partition(&ask.member.group_id, others.catalog.settings().offsets_partitions);
    let claim = TransactionClaim {
        transactional_id: ask.transactional_id.clone(),
        producer_id: ask.producer_id,
        producer_epoch: ask.producer_epoch,
        check: if ask.verify_only { TransactionCheck::Verify } else { TransactionCheck::Add },
    };
    let admitted = others.transactions.admit(now, &claim, (&[], &[home]), out);
    admitted.map_err(|refusal| refusal.map(OffsetError::Transaction))?;
    others.groups.admit_commit(now, &ask.member, false).map_err(|refusal| refusal.map(OffsetError::Fenced))
}

/// False if nothing asked for exists: then neither the transaction nor the group is looked at (T-161).
fn any_exists(catalog: &Catalog, topics: &[TopicOffsets]) -> bool {
    topics.iter().any(|asked| {
        let topic = catalog.topic_by(&asked.topic);
        topic.is_some_and(|topic| asked.offsets.iter().any(|new| topic.has(new.partition)))
    })
}

/// Each offset by itself: a partition that does not exist, what is wrong with the whole request, a note that is too
/// long.
fn judge_offsets(
    wall: Millis,
    catalog: &Catalog,
    topics: Vec<TopicOffsets>,
    gate: Result<(), Refusal>,
) -> (Results<Refusal>, Vec<(TopicPartition, CommittedOffset)>) {
    let mut passed = Vec::new();
    let results = topics.into_iter().map(|asked| {
        let topic = catalog.topic_by(&asked.topic);
        let judged = asked.offsets.into_iter().map(|new| {
            let at = judge_offset(catalog, topic, &new, gate)?;
            let NewOffset { offset, leader_epoch, metadata, .. } = new;
            passed.push((at, CommittedOffset { offset, leader_epoch, metadata, at: wall }));
            Ok(())
        });
        judged.collect()
    });
    (results.collect(), passed)
}

fn judge_offset(
    catalog: &Catalog,
    topic: Option<&Topic>,
    new: &NewOffset,
    gate: Result<(), Refusal>,
) -> Result<TopicPartition, Refusal> {
    let unknown = |error| Rejection::by("T-161", error, Facts::None);
    let topic = topic.ok_or(unknown(OffsetError::UnknownTopic))?;
    let at = existing(Some(topic), new.partition).ok_or(unknown(OffsetError::UnknownPartition))?;
    gate?;
    let most = catalog.settings().offset_metadata_max;
    if utf16_exceeds(&new.metadata, most) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let given = number(new.metadata.encode_utf16().count());
        let facts = Facts::Most { given, most: number(most) };
        return Err(Rejection::by("T-166", OffsetError::MetadataTooLarge, facts));
    }
    Ok(at)
}

fn existing(topic: Option<&Topic>, partition: i32) -> Option<TopicPartition> {
    topic.filter(|topic| topic.has(partition)).map(|topic| TopicPartition { topic: topic.id, partition })
}

/// True if the text has more than `most` UTF-16 units.
fn utf16_exceeds(text: &str, most: usize) -> bool {
    // A unit takes at least one byte, so short texts need no counting.
    text.len() > most && text.encode_utf16().count() > most
}
