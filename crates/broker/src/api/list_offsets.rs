//! ListOffsets 1-11: the ends of a partition, and the first record from a timestamp on.
//! Left out: tiered storage, so -4 (earliest local) is the earliest offset, and -5 and -6 (tiered) find nothing.

use super::authorization::{TOPIC_DENIED, TopicChecks, Verdict, take_denied};
use super::leader_epoch::check_epoch;
use super::subject::{Partition, Reason};
use crate::authorizer::Rights;
use crate::context::Context;
use crate::session::Session;
use crate::stored;
use ottla_core::Shard;
use ottla_core::catalog::LEADER_EPOCH;
use ottla_core::partitions::{Isolation, Source};
use ottla_types::acl::Operation;
use ottla_types::{Millis, Offset};
use ottla_wire::batch::{Batch, BatchError};
use ottla_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use ottla_wire::messages::{ListOffsetsRequest, ListOffsetsResponse};
use ottla_wire::{ErrorCode, Text, Uuid};
use std::io;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// A batch may not hold more than this when decompressed, in bytes.
const MOST_RECORDS: usize = 256 << 20;

/// S-306: DESCRIBE on each topic.
pub(crate) fn authorize(
    request: &mut ListOffsetsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<ListOffsetsResponse> {
    let mut checks = TopicChecks::new(rights, Operation::Describe);
    let denied = take_denied(&mut request.topics, |topic| checks.allows(&topic.name));
    Verdict::without(denied, |response: &mut ListOffsetsResponse, denied| {
        response.topics.extend(denied.into_iter().map(denied_topic));
    })
}

fn denied_topic(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse {
    let partition = |asked: &ListOffsetsPartition| ListOffsetsPartitionResponse {
        partition_index: asked.partition_index,
        error_code: TOPIC_DENIED,
        ..Default::default()
    };
    let partitions = topic.partitions.iter().map(partition).collect();
    ListOffsetsTopicResponse { name: topic.name, partitions, ..Default::default() }
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: ListOffsetsRequest,
    version: i16,
) -> Result<ListOffsetsResponse, super::AnswerError> {
    let isolation = super::isolation(request.isolation_level);
    let queries: Vec<PartitionQuery> =
        request.topics.iter().flat_map(|topic| PartitionQuery::all(topic, isolation, version)).collect();
    let looks = queries.clone();
    let look = ctx
        .shards
        .partitions()
        .read(move |shard, _| looks.iter().map(|query| query.look(shard, Offset(0))).collect::<Vec<_>>());
    let mut rows = Vec::with_capacity(queries.len());
    for (query, lookup) in queries.iter().zip(look.await?) {
        let mut row = query.settle(ctx, lookup).await?;
        if version < 4 {
            // Older versions have no such field.
            row.leader_epoch = -1;
        }
        rows.push(row);
    }
    let mut rows = rows.into_iter();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let partitions = rows.by_ref().take(topic.partitions.len()).collect();
        topics.push(ListOffsetsTopicResponse { name: topic.name, partitions, ..Default::default() });
    }
    Ok(ListOffsetsResponse { topics, ..Default::default() })
}

/// One partition of the request.
#[derive(Clone)]
struct PartitionQuery {
    topic: Text,
    asked: ListOffsetsPartition,
    kind: Option<OffsetKind>,
    isolation: Isolation,
}

impl PartitionQuery {
    fn all(
        topic: &ListOffsetsTopic,
        isolation: Isolation,
        version: i16,
    ) -> impl Iterator<Item = PartitionQuery> {
        topic.partitions.iter().map(move |asked| PartitionQuery {
            topic: topic.name.clone(),
            asked: asked.clone(),
            kind: OffsetKind::of(asked.timestamp, version),
            isolation,
        })
    }

    /// What the shard knows of it, without batches before `from`.
    fn look(&self, shard: &Shard, from: Offset) -> Result<Lookup, ErrorCode> {
        let at = shard.catalog().partition_named(&self.topic, self.asked.partition_index);
        let partition = at.and_then(|at| shard.partitions().get(at));
        let partition = partition.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        check_epoch(self.asked.current_leader_epoch)?;
        let kind = self.kind.ok_or(ErrorCode::UNSUPPORTED_VERSION)?;
        Ok(find(partition, kind, from, self.isolation))
    }

    fn refused(&self, ctx: &Context, code: ErrorCode) -> ListOffsetsPartitionResponse {
        let why = match code {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => "there is no such partition",
            ErrorCode::FENCED_LEADER_EPOCH => "the leader epoch is below the broker's, which is 0",
            ErrorCode::UNKNOWN_LEADER_EPOCH => "the leader epoch is above the broker's, which is 0",
            ErrorCode::UNSUPPORTED_VERSION => "this version has no such special timestamp",
            _ => "a batch that may hold the answer cannot be read",
        };
        let index = self.asked.partition_index;
        ctx.refused(Partition(&self.topic, Uuid::ZERO, index), code, &Reason(None, why));
        refused(index, code)
    }

    /// The row of the response. Reads batches as far as needed.
    async fn settle(
        &self,
        ctx: &Context,
        mut lookup: Result<Lookup, ErrorCode>,
    ) -> Result<ListOffsetsPartitionResponse, super::AnswerError> {
        let index = self.asked.partition_index;
        let mut from = Offset(0);
        let mut freed = 0;
        loop {
            let (source, end, log_start) = match lookup {
                Err(code) => return Ok(self.refused(ctx, code)),
                Ok(Lookup::Nothing) => return Ok(found(index, Millis::NONE, Offset::NONE)),
                Ok(Lookup::Offset(offset)) => return Ok(found(index, Millis::NONE, offset)),
                Ok(Lookup::In { source, end, log_start }) => (source, end, log_start),
            };
            let by_time = matches!(self.kind, Some(OffsetKind::Time(_)));
            // The latest timestamp may be that of a deleted record, as long as a part or batch holds the record.
            let (time, log_start) = match by_time {
                true => (Millis(self.asked.timestamp), log_start),
                false => (source.max_timestamp(), Offset(0)),
            };
            match search(ctx, source, time, log_start).await {
                Ok(SearchResult::Found(time, offset)) if offset < end => {
                    return Ok(found(index, time, offset));
                }
                Ok(_) if !by_time => return Ok(found(index, Millis::NONE, Offset::NONE)),
                // The header has a later timestamp than the records. A following batch may have the record.
                Ok(SearchResult::Found(_, last) | SearchResult::NotIn(last)) => from = last.plus(1),
                // The next look finds where the batch is now, or that it was deleted.
                Err(SearchError::Freed) if freed < stored::MAX_REPLANS => freed += 1,
                Err(SearchError::Freed) => return Ok(self.refused(ctx, ErrorCode::KAFKA_STORAGE_ERROR)),
                Err(SearchError::Refused(code)) => return Ok(self.refused(ctx, code)),
            }
            let again = self.clone();
            lookup = ctx.shards.partitions().read(move |shard, _| again.look(shard, from)).await?;
        }
    }
}

/// The result of a search for a timestamp in a source.
enum SearchResult {
    Found(Millis, Offset),
    /// Nothing up to this offset.
    NotIn(Offset),
}

/// Why a source cannot be searched.
enum SearchError {
    /// It was freed meanwhile.
    Freed,
    Refused(ErrorCode),
}

/// The first record in a source of this time or later.
async fn search(
    ctx: &Context,
    source: Source,
    time: Millis,
    log_start: Offset,
) -> Result<SearchResult, SearchError> {
    let bytes = stored::find_time(&ctx.reader, source, time).await.map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            return SearchError::Freed;
        }
        tracing::error!(%error, "a batch cannot be read from the log");
        SearchError::Refused(ErrorCode::KAFKA_STORAGE_ERROR)
    })?;
    let Some(bytes) = bytes else { return Ok(SearchResult::NotIn(source.last_offset())) };
    let look = |batch: Batch| {
        let last = Offset(batch.header().last_offset());
        let found = first_at(&batch, time, log_start)?;
        Ok(found.map_or(SearchResult::NotIn(last), |(time, offset)| SearchResult::Found(time, offset)))
    };
    Batch::first(&bytes).and_then(look).map_err(|_| SearchError::Refused(ErrorCode::CORRUPT_MESSAGE))
}

/// The kind of offset that is requested.
#[derive(Clone, Copy)]
enum OffsetKind {
    Latest,
    Earliest,
    LatestTime,
    Tiered,
    Time(Millis),
}

impl OffsetKind {
    fn of(timestamp: i64, version: i16) -> Option<OffsetKind> {
        match timestamp {
            LATEST => Some(OffsetKind::Latest),
            EARLIEST => Some(OffsetKind::Earliest),
            MAX_TIMESTAMP if version >= 7 => Some(OffsetKind::LatestTime),
            EARLIEST_LOCAL if version >= 8 => Some(OffsetKind::Earliest),
            LATEST_TIERED if version >= 9 => Some(OffsetKind::Tiered),
            EARLIEST_PENDING_UPLOAD if version >= 11 => Some(OffsetKind::Tiered),
            0.. => Some(OffsetKind::Time(Millis(timestamp))),
            _ => None,
        }
    }
}

/// What the core knows without reading a batch.
enum Lookup {
    Offset(Offset),
    Nothing,
    In { source: Source, end: Offset, log_start: Offset },
}

fn find(
    partition: &ottla_core::partitions::Partition,
    kind: OffsetKind,
    from: Offset,
    isolation: Isolation,
) -> Lookup {
    let source = match kind {
        OffsetKind::Latest => return Lookup::Offset(partition.end(isolation)),
        OffsetKind::Earliest => return Lookup::Offset(partition.log_start()),
        OffsetKind::Tiered => return Lookup::Nothing,
        OffsetKind::LatestTime => partition.find_latest_time(isolation),
        OffsetKind::Time(time) => partition.find_time(time, from, isolation),
    };
    let (end, log_start) = (partition.end(isolation), partition.log_start());
    source.map_or(Lookup::Nothing, |source| Lookup::In { source, end, log_start })
}

/// The first record of a batch with this timestamp or a later one that is not deleted.
fn first_at(batch: &Batch, time: Millis, log_start: Offset) -> Result<Option<(Millis, Offset)>, BatchError> {
    let header = batch.header();
    let mut first = None;
    batch.walk(MOST_RECORDS, &mut |record| {
        let at = Millis(header.timestamp(record.timestamp_delta));
        let offset = Offset(header.base_offset).plus(record.offset_delta.into());
        if at >= time && offset >= log_start {
            first = Some((at, offset));
        }
        first.is_none()
    })?;
    Ok(first)
}

fn found(partition_index: i32, timestamp: Millis, offset: Offset) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse {
        partition_index,
        timestamp: timestamp.0,
        offset: offset.0,
        leader_epoch: if offset == Offset::NONE { -1 } else { LEADER_EPOCH },
        ..Default::default()
    }
}

fn refused(partition_index: i32, code: ErrorCode) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse { partition_index, error_code: code.0, ..Default::default() }
}
