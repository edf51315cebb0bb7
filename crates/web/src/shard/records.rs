//! The batches of a partition from an offset on, with the state of their transactions.

use bytes::Bytes;
use ottla_broker::Context;
use ottla_broker::host::HostGone;
use ottla_core::Shard;
use ottla_core::partitions::{Isolation, Partition, ReadPlan};
use ottla_types::record::AbortedTransaction;
use ottla_types::{Offset, ProducerId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;

/// Bytes of batches that are read for a page; a single batch may be larger.
const MAX_BYTES: u64 = 1 << 20;

/// The records to read.
pub(crate) struct RecordQuery {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    /// The first offset; without one, the last `count` records are read. An offset out of range is moved into it.
    pub(crate) offset: Option<i64>,
    pub(crate) count: usize,
}

/// Batches of a partition, read.
pub(crate) struct RecordRange {
    pub(crate) start: i64,
    pub(crate) last_stable_offset: i64,
    pub(crate) high_watermark: i64,
    /// The first offset to show.
    pub(crate) offset: i64,
    /// The bytes of the batches.
    pub(crate) chunks: Vec<Bytes>,
    aborted: Vec<AbortedTransaction>,
    /// First offsets of open transactions.
    open: BTreeMap<ProducerId, Offset>,
}

/// The outcome of a record's transaction.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fate {
    /// The record is in no transaction.
    Plain,
    Committed,
    /// read_committed readers skip the record.
    Aborted,
    /// read_committed readers wait.
    Open,
}

/// Why records cannot be read.
pub(crate) enum ReadError {
    NoPartition,
    HostGone(HostGone),
    Io(io::Error),
}

/// Reads records of a partition.
pub(crate) async fn read(broker: &Context, query: RecordQuery) -> Result<RecordRange, ReadError> {
    let plan = broker
        .shards()
        .partitions()
        .read(move |shard, _| plan(shard, &query))
        .await
        .map_err(ReadError::HostGone)?;
    let (mut range, plan) = plan.ok_or(ReadError::NoPartition)?;
    range.chunks = broker.read_plan(&plan).await.map_err(ReadError::Io)?;
    Ok(range)
}

fn plan(shard: &Shard, query: &RecordQuery) -> Option<(RecordRange, ReadPlan)> {
    let at = shard.catalog().partition_named(&query.topic, query.partition)?;
    let partition = shard.partitions().get(at)?;
    let (start, high_watermark) = (partition.log_start(), partition.high_watermark());
    let last = high_watermark.0 - i64::try_from(query.count).unwrap_or(i64::MAX);
    let offset = Offset(query.offset.unwrap_or(last)).min(high_watermark).max(start);
    let plan = partition.read(offset, MAX_BYTES, true, Isolation::Uncommitted).ok()?;
    let last = plan.last_offset().unwrap_or(offset);
    let open = partition.producers().filter_map(|state| Some((state.producer_id, state.transaction_start?)));
    let range = RecordRange {
        start: start.0,
        last_stable_offset: partition.last_stable().0,
        high_watermark: high_watermark.0,
        offset: offset.0,
        chunks: Vec::new(),
        aborted: Partition::aborted_between(partition, offset, last),
        open: open.collect(),
    };
    Some((range, plan))
}

impl RecordRange {
    /// The outcome of the transaction of a producer at an offset.
    pub(crate) fn fate(&self, producer_id: i64, offset: i64) -> Fate {
        let producer = ProducerId(producer_id);
        if self.open.get(&producer).is_some_and(|first| first.0 <= offset) {
            return Fate::Open;
        }
        let holds = |one: &AbortedTransaction| {
            one.producer_id == producer && (one.first_offset.0..one.marker_offset.0).contains(&offset)
        };
        if self.aborted.iter().any(holds) { Fate::Aborted } else { Fate::Committed }
    }
}
