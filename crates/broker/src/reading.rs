//! Reads records from several partitions for one response: for Fetch, and for any later API that returns records.
//!
//! ```text
//!                 a partition advances, or the deadline passes
//!           ┌─────────────────────── wait ◀────────────────────────────────┐
//!           ▼                          ▲                                   │
//!   plan all partitions ──────────────▶┘ too few bytes, no error           │ the plans promised bytes,
//!   (on the state machine)                 and the deadline is ahead       │ compaction had removed all
//!           │ enough bytes, an error, or the deadline has passed           │ and the deadline is ahead
//!           ▼                                                              │
//!   charge the response budget ──▶ read each partition ────────────────────┴──▶ results
//!   (after MAX_BUDGET_WAIT          (memory or disk)
//!    without records)                  │       ▲
//!                                      ▼       │ plan this partition again: its segment or run was freed,
//!                                      └───────┘ or nothing is left in the planned range
//! ```
//!
//! A plan may rest on state that is not durable yet only in one case: an error, such as a deleted topic. The read then
//! waits until the log is durable before it reports the error. Records below the high watermark are durable.

mod plan;

pub(crate) use plan::{PartitionRead, ReadBounds, ReadError, TopicKey};

use crate::host::{Host, HostGone, Watch};
use crate::net::{ResponseBudget, ResponseCharge};
use crate::stored::{self, StoredBatches};
use bytes::Bytes;
use ottla_core::partitions::{Isolation, ReadPlan};
use ottla_store::LogReader;
use ottla_types::{Offset, TopicPartition};
use plan::{PartitionBounds, PartitionPlan, Plans};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

/// How long a read waits for the response budget. After that it returns no records, so that requests do not accumulate
/// behind clients that do not read their responses; the client fetches again.
const MAX_BUDGET_WAIT: Duration = Duration::from_secs(1);
/// Bytes of a partition in a response without its records, roughly.
const PARTITION_OVERHEAD: u64 = 64;

/// What a read takes from: the state machine, the log, and the memory budget of responses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordReader<'a> {
    pub(crate) host: &'a Host,
    pub(crate) log: &'a LogReader,
    pub(crate) budget: &'a ResponseBudget,
}

/// The records that were read of a partition.
#[derive(Debug)]
pub(crate) struct PartitionRecords {
    pub(crate) at: TopicPartition,
    /// The plan that was read. Its aborted transactions begin before the end of the records (T-205).
    pub(crate) plan: ReadPlan,
    /// Whole batches in offset order; a chunk may hold several.
    pub(crate) chunks: Vec<Bytes>,
    /// Bytes of all chunks.
    pub(crate) bytes: u64,
    /// Offsets that the batches span.
    pub(crate) offsets: u64,
}

/// The result for one partition.
pub(crate) type ReadResult = Result<PartitionRecords, ReadError>;

impl RecordReader<'_> {
    /// Reads the partitions once there are `min_bytes` of records or an error, or when the deadline passes. Returns a
    /// result for each partition, in order, and the charge for the memory that they take.
    ///
    /// # Errors
    /// The host is gone.
    pub(crate) async fn read(
        &self,
        reads: &Arc<Vec<PartitionRead>>,
        bounds: ReadBounds,
        deadline: Instant,
    ) -> Result<(Vec<ReadResult>, ResponseCharge), HostGone> {
        let mut waited_for = None;
        loop {
            let (plans, watch) = self.plan(reads, bounds, deadline).await?;
            let partitions = plans.readable_partitions();
            // A topic of that name was deleted and created again: what the read waited for has ended.
            let changed = waited_for.as_ref().is_some_and(|before| *before != partitions);
            let watch = match watch.filter(|_| !changed) {
                Some(watch) => {
                    waited_for = Some(partitions);
                    watch
                }
                None => {
                    let promised = plans.bytes();
                    let (results, charge) = self.fill(reads, plans, bounds.isolation).await?;
                    let has_news = results.iter().any(|result| result.as_ref().map_or(true, |r| r.bytes > 0));
                    if has_news || promised == 0 || Instant::now() >= deadline {
                        return Ok((results, charge));
                    }
                    match self.host.peek(move |_, _, watchers| watchers.watch(partitions)).await? {
                        Some(watch) => watch,
                        None => return Ok((results, charge)),
                    }
                }
            };
            wait(&watch, deadline).await;
        }
    }

    /// Plans all partitions. Returns a watch on them if the read has to wait for more.
    async fn plan(
        &self,
        reads: &Arc<Vec<PartitionRead>>,
        bounds: ReadBounds,
        deadline: Instant,
    ) -> Result<(Plans, Option<Watch>), HostGone> {
        let may_wait = Instant::now() < deadline && !reads.is_empty();
        // Records that do not fit into the budget are left for the next request.
        let bounds = ReadBounds { max_bytes: bounds.max_bytes.min(self.budget.most()), ..bounds };
        let reads = Arc::clone(reads);
        let look = self.host.peek(move |shard, _, watchers| {
            let plans = plan::plan_all(shard, &reads, bounds);
            let waits = may_wait && !plans.is_enough(bounds.min_bytes);
            let watch = waits.then(|| watchers.watch(plans.readable_partitions())).flatten();
            (plans, watch)
        });
        let (plans, watch) = look.await?;
        if watch.is_none() && plans.has_error() {
            // The deletion of a topic or of records may not be durable yet.
            self.host.settled().await?;
        }
        Ok((plans, watch))
    }

    /// Charges the budget and reads what was planned.
    async fn fill(
        &self,
        reads: &[PartitionRead],
        mut plans: Plans,
        isolation: Isolation,
    ) -> Result<(Vec<ReadResult>, ResponseCharge), HostGone> {
        let overhead = reads.len() as u64 * PARTITION_OVERHEAD;
        let charge = timeout(MAX_BUDGET_WAIT, self.budget.charge(plans.most() + overhead)).await;
        let mut charge = match charge {
            Ok(charge) => charge,
            Err(_) => {
                plans.clear();
                self.budget.charge(overhead).await
            }
        };
        let mut results = Vec::with_capacity(plans.partitions.len());
        let mut bytes = 0;
        for (read, plan) in reads.iter().zip(plans.partitions) {
            let result = self.read_partition(read, plan, isolation).await?;
            bytes += result.as_ref().map_or(0, |records| records.bytes);
            results.push(result);
        }
        charge.shrink(overhead + bytes);
        Ok((results, charge))
    }

    /// Reads one partition. Plans it again if its data was freed since, or if the planned range holds no records any
    /// more.
    async fn read_partition(
        &self,
        read: &PartitionRead,
        mut plan: PartitionPlan,
        isolation: Isolation,
    ) -> Result<ReadResult, HostGone> {
        let mut from = read.from;
        let mut freed = 0;
        loop {
            let (at, planned) = match plan {
                Err(error) => return Ok(Err(error)),
                Ok(plan) => plan,
            };
            match stored::read_plan(self.log, &planned).await {
                Ok(stored) if stored.bytes > 0 || planned.sources.is_empty() => {
                    return Ok(Ok(records(at, planned, stored)));
                }
                Ok(stored) => match stored.last {
                    Some(last) => from = last.plus(1).max(from),
                    // The first batch does not fit.
                    None => return Ok(Ok(records(at, planned, stored))),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound && freed < stored::MAX_REPLANS => {
                    freed += 1;
                }
                Err(error) => {
                    tracing::error!(%error, "batches cannot be read from the log");
                    return Ok(Err(ReadError::Storage));
                }
            }
            let ReadPlan { max_bytes, first_whole, .. } = planned;
            let bounds = PartitionBounds { max_bytes, first_whole, isolation };
            let again = read.clone();
            plan = self.host.peek(move |shard, _, _| plan::plan_again(shard, &again, from, bounds)).await?;
            if plan.is_err() {
                // The deletion of a topic or of records may not be durable yet.
                self.host.settled().await?;
            }
        }
    }
}

fn records(at: TopicPartition, mut plan: ReadPlan, stored: StoredBatches) -> PartitionRecords {
    // Transactions behind the last batch that was read do not concern this response (T-205).
    plan.trim_aborted(stored.last.unwrap_or(Offset::NONE));
    let StoredBatches { chunks, bytes, offsets, .. } = stored;
    PartitionRecords { at, plan, chunks, bytes, offsets }
}

/// Waits until a watched partition advances or the deadline passes.
async fn wait(watch: &Watch, deadline: Instant) {
    tokio::select! {
        biased;
        () = watch.advanced() => {}
        () = sleep_until(deadline) => {}
    }
}
