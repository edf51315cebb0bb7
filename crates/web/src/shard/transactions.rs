//! Transactions, one transaction, and the partitions that transactions hold back.

use super::blocking::{Blocker, OpenTransactions};
use super::topics::name_of;
use crate::format::span;
use ottla_broker::Context;
use ottla_broker::host::HostGone;
use ottla_core::Shard;
use ottla_core::transactions::Transaction;
use ottla_types::record::TransactionStatus;
use ottla_types::{Millis, TopicPartition};
use serde::Serialize;

/// A transactional id in the list.
#[derive(Serialize)]
pub(crate) struct TransactionRow {
    pub(crate) id: String,
    pub(crate) state: &'static str,
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) partitions: usize,
    /// How long the transaction has been open, in milliseconds; none if it is not.
    pub(crate) age_ms: Option<i64>,
    pub(crate) updated_ms: i64,
}

/// A partition whose last stable offset is held back.
#[derive(Serialize)]
pub(crate) struct BlockedPartition {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) last_stable_offset: i64,
    pub(crate) high_watermark: i64,
    pub(crate) held: Blocker,
}

/// A transactional id and its transaction.
#[derive(Serialize)]
pub(crate) struct TransactionDetail {
    pub(crate) id: String,
    pub(crate) state: &'static str,
    pub(crate) open: bool,
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) timeout_ms: i64,
    /// When the transaction started; none if the id never had one.
    pub(crate) started_ms: Option<i64>,
    /// How long the transaction has been open, in milliseconds; none if it is not.
    pub(crate) age_ms: Option<i64>,
    pub(crate) updated_ms: i64,
    pub(crate) partitions: Vec<PartitionRow>,
    /// Offsets that are committed when the transaction commits.
    pub(crate) staged: Vec<StagedOffset>,
}

/// A partition in a transaction.
#[derive(Serialize)]
pub(crate) struct PartitionRow {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    /// The transaction's first offset in the partition; none before its first record.
    pub(crate) first_offset: Option<i64>,
    pub(crate) last_stable_offset: i64,
    pub(crate) high_watermark: i64,
    /// What holds the last stable offset back: this transaction or another one.
    pub(crate) held: Option<Blocker>,
}

/// An offset that is committed when the transaction commits.
#[derive(Serialize)]
pub(crate) struct StagedOffset {
    pub(crate) group: String,
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) metadata: String,
}

/// The transactional ids that contain `filter`, open transactions first and the one that times out first in front; and
/// all partitions that transactions hold back.
pub(crate) async fn list(
    broker: &Context,
    filter: String,
) -> Result<(Vec<TransactionRow>, Vec<BlockedPartition>), HostGone> {
    let read = broker.shards().transactions().read(move |shard, now| {
        let all = shard.transactions();
        let idle = all.iter().filter(|one| !is_open(one));
        let matching = all.open().chain(idle).filter(|one| one.state().transactional_id.contains(&filter));
        (matching.map(|one| TransactionRow::of(one, now)).collect(), blocked_partitions(shard, now))
    });
    read.await
}

/// One transactional id; none if it is not known.
pub(crate) async fn find(broker: &Context, id: String) -> Result<Option<TransactionDetail>, HostGone> {
    let read = broker
        .shards()
        .transactions()
        .read(move |shard, now| Some(TransactionDetail::of(shard, now, shard.transactions().get(&id)?)));
    read.await
}

fn is_open(transaction: &Transaction) -> bool {
    transaction.state().status == TransactionStatus::Ongoing
}

fn blocked_partitions(shard: &Shard, now: Millis) -> Vec<BlockedPartition> {
    let open = OpenTransactions::new(shard, now);
    let rows = shard.partitions().iter().filter_map(|(at, partition)| {
        Some(BlockedPartition {
            held: open.blocker(partition)?,
            topic: name_of(shard, at)?,
            partition: at.partition,
            last_stable_offset: partition.last_stable().0,
            high_watermark: partition.high_watermark().0,
        })
    });
    rows.collect()
}

/// Kafka's name of a state.
fn status_name(status: TransactionStatus) -> &'static str {
    match status {
        TransactionStatus::Empty => "Empty",
        TransactionStatus::Ongoing => "Ongoing",
        TransactionStatus::CompleteCommit => "CompleteCommit",
        TransactionStatus::CompleteAbort => "CompleteAbort",
    }
}

impl TransactionRow {
    fn of(transaction: &Transaction, now: Millis) -> TransactionRow {
        let state = transaction.state();
        TransactionRow {
            id: state.transactional_id.clone(),
            state: status_name(state.status),
            producer_id: state.producer_id.0,
            epoch: state.epoch.0,
            partitions: transaction.partitions().len(),
            age_ms: is_open(transaction).then(|| now.since(state.started).0),
            updated_ms: state.updated.0,
        }
    }
}

impl TransactionDetail {
    fn of(shard: &Shard, now: Millis, transaction: &Transaction) -> TransactionDetail {
        let state = transaction.state();
        let is_open = is_open(transaction);
        let open = OpenTransactions::new(shard, now);
        let rows = transaction.partitions().iter();
        let staged = shard.offsets().staged(state.producer_id).filter_map(|(group, at, offset)| {
            Some(StagedOffset {
                group: group.to_owned(),
                topic: name_of(shard, at)?,
                partition: at.partition,
                offset: offset.offset.0,
                metadata: offset.metadata.clone(),
            })
        });
        TransactionDetail {
            id: state.transactional_id.clone(),
            state: status_name(state.status),
            open: is_open,
            producer_id: state.producer_id.0,
            epoch: state.epoch.0,
            timeout_ms: state.timeout.0,
            started_ms: (state.started >= Millis(0)).then_some(state.started.0),
            age_ms: is_open.then(|| now.since(state.started).0),
            updated_ms: state.updated.0,
            partitions: rows.filter_map(|at| PartitionRow::of(shard, *at, transaction, &open)).collect(),
            staged: staged.collect(),
        }
    }

    /// How long the transaction has been open, in words; empty if it is not.
    pub(crate) fn age(&self) -> String {
        self.age_ms.map(span).unwrap_or_default()
    }

    /// The time until the transaction times out, in words; empty if it is not open.
    pub(crate) fn time_left(&self) -> String {
        self.age_ms.map(|age| span(self.timeout_ms.saturating_sub(age))).unwrap_or_default()
    }
}

impl PartitionRow {
    fn of(
        shard: &Shard,
        at: TopicPartition,
        transaction: &Transaction,
        open: &OpenTransactions<'_>,
    ) -> Option<PartitionRow> {
        let partition = shard.partitions().get(at)?;
        let producer = transaction.state().producer_id;
        let known = partition.producers().find(|state| state.producer_id == producer);
        Some(PartitionRow {
            topic: name_of(shard, at)?,
            partition: at.partition,
            first_offset: known.and_then(|state| state.transaction_start).map(|offset| offset.0),
            last_stable_offset: partition.last_stable().0,
            high_watermark: partition.high_watermark().0,
            held: open.blocker(partition),
        })
    }

    /// What holds the partition back, in words, as seen from the transaction of this producer.
    pub(crate) fn held_by(&self, producer_id: &i64) -> String {
        match &self.held {
            None => String::new(),
            Some(held) if held.producer_id == Some(*producer_id) => {
                format!("this transaction, from offset {}: {} offsets wait", held.first_offset, held.offsets)
            }
            Some(held) => held.why.clone(),
        }
    }
}
