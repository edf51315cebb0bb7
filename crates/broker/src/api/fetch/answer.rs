//! From plans to the rows of an answer: the bytes are read here.

use super::plan::{self, Bounds, Part, Planned, Reading, TopicKey};
use crate::api::Broken;
use crate::api::stored::{self, Stored};
use crate::context::Context;
use crate::host::Watchers;
use ottla_core::Shard;
use ottla_core::partition::{Isolation, ReadPlan};
use ottla_types::{Offset, TopicPartition};
use ottla_wire::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
use ottla_wire::{ErrorCode, Records};
use std::io;

/// A row for each planned partition, in order; their indexes are filled in by [`by_topic`].
///
/// zstd batches go out at every version, as Apache Kafka 4.4 sends them: clients of Fetch 4 that can read them exist.
pub(super) async fn rows(
    ctx: &Context,
    parts: &[Part],
    planned: Planned,
    isolation: Isolation,
) -> Result<Vec<PartitionData>, Broken> {
    let mut rows = Vec::with_capacity(planned.readings.len());
    for (part, reading) in parts.iter().zip(planned.readings) {
        rows.push(row(ctx, part, reading, isolation).await?);
    }
    Ok(rows)
}

/// Reads what was planned. What was freed meanwhile is planned again, and so is what follows if a part holds nothing more.
async fn row(
    ctx: &Context,
    part: &Part,
    mut reading: Reading,
    isolation: Isolation,
) -> Result<PartitionData, Broken> {
    let mut from = Offset(part.asked.fetch_offset);
    let mut tries = 0;
    loop {
        let (at, plan) = match reading {
            Reading::Refused(code, _) => return Ok(refused(code)),
            Reading::Plan(at, plan) => (at, plan),
        };
        match stored::read_plan(&ctx.reader, &plan).await {
            Ok(stored) if stored.bytes > 0 || plan.sources.is_empty() => {
                return Ok(filled(ctx, at, plan, stored, isolation));
            }
            Ok(stored) => match stored.last {
                Some(last) => from = last.plus(1).max(from),
                // Nothing fits.
                None => return Ok(filled(ctx, at, plan, stored, isolation)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < stored::TRIES => tries += 1,
            Err(error) => {
                tracing::error!(%error, "batches cannot be read from the log");
                return Ok(refused(ErrorCode::KAFKA_STORAGE_ERROR));
            }
        }
        let bounds = Bounds { max_bytes: plan.max_bytes, first_whole: plan.first_whole, isolation };
        let again = part.clone();
        let look = move |shard: &Shard, _, _: &mut Watchers| plan::again(shard, &again, from, &bounds);
        reading = ctx.host.peek(look).await?;
        if let Reading::Refused(code, why) = &reading {
            // A log that starts later may not be durable yet.
            ctx.host.settled().await?;
            ctx.refused(part, *code, why);
        }
    }
}

fn filled(
    ctx: &Context,
    at: TopicPartition,
    mut plan: ReadPlan,
    stored: Stored,
    isolation: Isolation,
) -> PartitionData {
    if stored.bytes > 0 {
        ctx.metrics().fetched(at.topic, stored.bytes, stored.offsets);
    }
    // What lies behind the last batch that was read is no matter of this answer (T-205).
    plan.trim_aborted(stored.last.unwrap_or(Offset::NONE));
    let entry = |aborted: &ottla_types::record::AbortedTransaction| AbortedTransaction {
        producer_id: aborted.producer_id.0,
        first_offset: aborted.first_offset.0,
        ..Default::default()
    };
    PartitionData {
        high_watermark: plan.high_watermark.0,
        last_stable_offset: plan.last_stable.0,
        log_start_offset: plan.log_start.0,
        // T-204: null unless only committed data was asked for.
        aborted_transactions: (isolation == Isolation::Committed)
            .then(|| plan.aborted.iter().map(entry).collect()),
        records: Some(Records::from(stored.chunks)),
        ..Default::default()
    }
}

/// A row without data. Its records are empty, never null: clients stumble over that (KAFKA-18646).
pub(super) fn refused(code: ErrorCode) -> PartitionData {
    let unknown = matches!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID);
    PartitionData {
        error_code: code.0,
        high_watermark: -1,
        // Null, but of a partition that is not known Kafka says that there are none.
        aborted_transactions: unknown.then(Vec::new),
        records: Some(Records::default()),
        ..Default::default()
    }
}

/// The rows to be shown, under their topics in the order of the parts.
pub(super) fn by_topic(parts: &[Part], rows: Vec<Option<PartitionData>>) -> Vec<FetchableTopicResponse> {
    let mut topics: Vec<FetchableTopicResponse> = Vec::new();
    let mut last: Option<&TopicKey> = None;
    for (part, row) in parts.iter().zip(rows) {
        let Some(mut row) = row else { continue };
        row.partition_index = part.asked.partition;
        if last != Some(&part.topic) {
            topics.push(topic(&part.topic));
            last = Some(&part.topic);
        }
        if let Some(topic) = topics.last_mut() {
            topic.partitions.push(row);
        }
    }
    topics
}

fn topic(key: &TopicKey) -> FetchableTopicResponse {
    match key {
        TopicKey::Name(name) => FetchableTopicResponse { topic: name.clone(), ..Default::default() },
        TopicKey::Id(id) => FetchableTopicResponse { topic_id: *id, ..Default::default() },
    }
}
