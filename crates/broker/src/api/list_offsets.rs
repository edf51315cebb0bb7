//! ListOffsets 1-11: the ends of a partition, and the first record of a time.
//! Left out: tiered storage, so -4 (earliest local) is the earliest offset, and -5 and -6 (tiered) find nothing.

use super::stored;
use crate::context::{Caller, Context};
use ottla_core::Shard;
use ottla_core::partition::{Isolation, LEADER_EPOCH, Partition};
use ottla_types::record::StoredBatch;
use ottla_types::{Millis, Offset, TopicPartition};
use ottla_wire::batch::{Batch, BatchError};
use ottla_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use ottla_wire::messages::{ListOffsetsRequest, ListOffsetsResponse};
use ottla_wire::{ErrorCode, Text};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// A batch may not hold more than this when decompressed, in bytes.
const MOST_RECORDS: usize = 256 << 20;

pub(crate) async fn answer(
    ctx: &Context,
    _caller: &Caller,
    request: ListOffsetsRequest,
    version: i16,
) -> Result<ListOffsetsResponse, super::Broken> {
    let isolation = super::isolation(request.isolation_level);
    let mut topics = Vec::with_capacity(request.topics.len());
    for ListOffsetsTopic { name, partitions: asked, .. } in request.topics {
        let mut partitions = Vec::with_capacity(asked.len());
        for asked in asked {
            let mut partition = one(ctx, name.clone(), asked, (isolation, version)).await?;
            if version < 4 {
                // Older versions have no such field.
                partition.leader_epoch = -1;
            }
            partitions.push(partition);
        }
        topics.push(ListOffsetsTopicResponse { name, partitions, ..Default::default() });
    }
    Ok(ListOffsetsResponse { topics, ..Default::default() })
}

async fn one(
    ctx: &Context,
    topic: Text,
    asked: ListOffsetsPartition,
    (isolation, version): (Isolation, i16),
) -> Result<ListOffsetsPartitionResponse, super::Broken> {
    let index = asked.partition_index;
    let wanted = match Wanted::of(asked.timestamp, version) {
        Some(wanted) => wanted,
        None => return Ok(refused(index, ErrorCode::UNSUPPORTED_VERSION)),
    };
    let mut from = Offset(0);
    loop {
        let name = topic.clone();
        let epoch = asked.current_leader_epoch;
        let look = move |shard: &Shard| {
            let at = place(shard, &name, index, epoch)?;
            let partition = shard.partitions().get(at).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
            Ok(find(partition, wanted, from, isolation))
        };
        let (batch, end, log_start) = match ctx.host.peek(move |shard, _, _| look(shard)).await? {
            Err(code) => return Ok(refused(index, code)),
            Ok(Found::Nothing) => return Ok(found(index, Millis::NONE, Offset::NONE)),
            Ok(Found::Offset(offset)) => return Ok(found(index, Millis::NONE, offset)),
            Ok(Found::In { batch, end, log_start }) => (batch, end, log_start),
        };
        let Ok(bytes) = stored::bytes(&ctx.reader, &batch).await else {
            return Ok(refused(index, ErrorCode::KAFKA_STORAGE_ERROR));
        };
        let time = if let Wanted::Time(time) = wanted { time } else { batch.max_timestamp };
        let first = Batch::first(&bytes).and_then(|batch| first_at(&batch, time, log_start));
        match first {
            Err(_) => return Ok(refused(index, ErrorCode::CORRUPT_MESSAGE)),
            Ok(Some((time, offset))) if offset < end => return Ok(found(index, time, offset)),
            // The header promised more than the records hold; the next batch may have it.
            Ok(_) if matches!(wanted, Wanted::Time(_)) => from = batch.last_offset.plus(1),
            Ok(_) => return Ok(found(index, Millis::NONE, Offset::NONE)),
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy)]
enum Wanted {
    Latest,
    Earliest,
    LatestTime,
    Tiered,
    Time(Millis),
}

impl Wanted {
    fn of(timestamp: i64, version: i16) -> Option<Wanted> {
        match timestamp {
            LATEST => Some(Wanted::Latest),
            EARLIEST => Some(Wanted::Earliest),
            MAX_TIMESTAMP if version >= 7 => Some(Wanted::LatestTime),
            EARLIEST_LOCAL if version >= 8 => Some(Wanted::Earliest),
            LATEST_TIERED if version >= 9 => Some(Wanted::Tiered),
            EARLIEST_PENDING_UPLOAD if version >= 11 => Some(Wanted::Tiered),
            0.. => Some(Wanted::Time(Millis(timestamp))),
            _ => None,
        }
    }
}

/// What the core knows without looking into a batch.
enum Found {
    Offset(Offset),
    Nothing,
    In { batch: StoredBatch, end: Offset, log_start: Offset },
}

fn place(shard: &Shard, topic: &str, partition: i32, epoch: i32) -> Result<TopicPartition, ErrorCode> {
    let at = shard.catalog().partition_named(topic, partition);
    let at = at.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    if epoch > LEADER_EPOCH { Err(ErrorCode::UNKNOWN_LEADER_EPOCH) } else { Ok(at) }
}

fn find(partition: &Partition, wanted: Wanted, from: Offset, isolation: Isolation) -> Found {
    let batch = match wanted {
        Wanted::Latest => return Found::Offset(partition.end(isolation)),
        Wanted::Earliest => return Found::Offset(partition.log_start()),
        Wanted::Tiered => return Found::Nothing,
        Wanted::LatestTime => partition.find_latest_time(isolation),
        Wanted::Time(time) => partition.find_time(time, from, isolation),
    };
    let (end, log_start) = (partition.end(isolation), partition.log_start());
    batch.map_or(Found::Nothing, |batch| Found::In { batch, end, log_start })
}

/// The first record of a batch of this time or later that is not deleted.
fn first_at(batch: &Batch, time: Millis, log_start: Offset) -> Result<Option<(Millis, Offset)>, BatchError> {
    let header = batch.header();
    for record in batch.records(MOST_RECORDS)?.iter() {
        let record = record?;
        let at = Millis(header.timestamp(record.timestamp_delta));
        let offset = Offset(header.base_offset).plus(record.offset_delta.into());
        if at >= time && offset >= log_start {
            return Ok(Some((at, offset)));
        }
    }
    Ok(None)
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
