//! Transactions, one transaction, and what they hold back.

use super::groups::topic_name;
use super::holding::{Held, Open};
use super::text::{moment, span};
use crate::asked::{Asked, Refusal};
use crate::shell::Shell;
use askama::Template;
use ottla_core::Shard;
use ottla_core::transaction::Transaction;
use ottla_types::record::TransactionStatus;
use ottla_types::{Millis, TopicPartition};
use serde::Serialize;

/// The list of transactional ids.
#[derive(Template, Serialize)]
#[template(path = "transactions.html")]
pub(crate) struct TransactionsPage {
    #[serde(skip)]
    shell: Shell,
    #[serde(skip)]
    filter: String,
    /// Open transactions first, the one that times out first in front.
    transactions: Vec<Row>,
    /// Ids that are not listed, for there are too many.
    left_out: usize,
    /// Partitions whose last stable offset is held back.
    held: Vec<HeldRow>,
    held_left_out: usize,
}

/// A transactional id in the list.
#[derive(Serialize)]
struct Row {
    id: String,
    state: &'static str,
    producer_id: i64,
    epoch: i16,
    partitions: usize,
    /// How long the transaction has been open.
    age_ms: Option<i64>,
    updated_ms: i64,
}

/// A partition whose last stable offset is held back.
#[derive(Serialize)]
struct HeldRow {
    topic: String,
    partition: i32,
    last_stable_offset: i64,
    high_watermark: i64,
    held: Held,
}

pub(crate) async fn transactions(asked: Asked) -> Result<TransactionsPage, Refusal> {
    let filter = asked.text("q").unwrap_or_default().to_owned();
    let wanted = filter.clone();
    let look = asked.app.broker.host().read(move |shard, now| {
        let all = shard.transactions();
        let idle = all.iter().filter(|one| !is_open(one));
        let named = all.open().chain(idle).filter(|one| one.state().transactional_id.contains(&wanted));
        (named.map(|one| Row::of(one, now)).collect(), held(shard, now))
    });
    let (rows, held) = look.await?;
    let (transactions, left_out) = super::cut(rows);
    let (held, held_left_out) = super::cut(held);
    let shell = asked.shell("Transactions", "Transactions");
    Ok(TransactionsPage { shell, filter, transactions, left_out, held, held_left_out })
}

fn is_open(transaction: &Transaction) -> bool {
    transaction.state().status == TransactionStatus::Ongoing
}

fn held(shard: &Shard, now: Millis) -> Vec<HeldRow> {
    let open = Open::new(shard, now);
    let rows = shard.partitions().iter().filter_map(|(at, partition)| {
        Some(HeldRow {
            held: open.holding(partition)?,
            topic: topic_name(shard, at)?,
            partition: at.partition,
            last_stable_offset: partition.last_stable().0,
            high_watermark: partition.high_watermark().0,
        })
    });
    rows.collect()
}

impl Row {
    fn of(transaction: &Transaction, now: Millis) -> Row {
        let state = transaction.state();
        Row {
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

/// Kafka's name of a state.
fn status_name(status: TransactionStatus) -> &'static str {
    match status {
        TransactionStatus::Empty => "Empty",
        TransactionStatus::Ongoing => "Ongoing",
        TransactionStatus::CompleteCommit => "CompleteCommit",
        TransactionStatus::CompleteAbort => "CompleteAbort",
    }
}

/// One transactional id.
#[derive(Template, Serialize)]
#[template(path = "transaction.html")]
pub(crate) struct TransactionPage {
    #[serde(skip)]
    shell: Shell,
    #[serde(flatten)]
    pub(super) seen: Seen,
}

/// A transactional id and its transaction.
#[derive(Serialize)]
pub(super) struct Seen {
    pub(super) id: String,
    pub(super) state: &'static str,
    pub(super) open: bool,
    pub(super) producer_id: i64,
    pub(super) epoch: i16,
    pub(super) timeout_ms: i64,
    /// When the transaction started; none if the id never had one.
    pub(super) started_ms: Option<i64>,
    /// How long it has been open.
    pub(super) age_ms: Option<i64>,
    pub(super) updated_ms: i64,
    pub(super) partitions: Vec<PartitionRow>,
    /// Offsets that take effect when it commits.
    pub(super) staged: Vec<StagedRow>,
}

/// A partition in a transaction.
#[derive(Serialize)]
pub(super) struct PartitionRow {
    pub(super) topic: String,
    pub(super) partition: i32,
    /// The transaction's first offset there; none before its first record.
    pub(super) first_offset: Option<i64>,
    pub(super) last_stable_offset: i64,
    pub(super) high_watermark: i64,
    /// What holds the last stable offset back: this transaction or another one.
    pub(super) held: Option<Held>,
}

/// An offset that takes effect when the transaction commits.
#[derive(Serialize)]
pub(super) struct StagedRow {
    pub(super) group: String,
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) metadata: String,
}

pub(crate) async fn transaction(asked: Asked) -> Result<TransactionPage, Refusal> {
    let seen = find(&asked).await?;
    Ok(TransactionPage { shell: asked.shell(format!("Transactional id {}", seen.id), "Transactions"), seen })
}

/// Looks the transactional id of a question up.
pub(super) async fn find(asked: &Asked) -> Result<Seen, Refusal> {
    let id = asked.text("id").ok_or_else(|| Refusal::bad("say which transactional id: ?id=NAME"))?.to_owned();
    let wanted = id.clone();
    let look = asked
        .app
        .broker
        .host()
        .read(move |shard, now| Some(Seen::of(shard, now, shard.transactions().get(&wanted)?)));
    look.await?.ok_or_else(|| Refusal::missing(format!("there is no transactional id {id:?}")))
}

impl Seen {
    fn of(shard: &Shard, now: Millis, transaction: &Transaction) -> Seen {
        let state = transaction.state();
        let open = is_open(transaction);
        let holders = Open::new(shard, now);
        let rows = transaction.partitions().iter();
        let staged = shard.offsets().staged(state.producer_id).filter_map(|(group, at, offset)| {
            Some(StagedRow {
                group: group.to_owned(),
                topic: topic_name(shard, at)?,
                partition: at.partition,
                offset: offset.offset.0,
                metadata: offset.metadata.clone(),
            })
        });
        Seen {
            id: state.transactional_id.clone(),
            state: status_name(state.status),
            open,
            producer_id: state.producer_id.0,
            epoch: state.epoch.0,
            timeout_ms: state.timeout.0,
            started_ms: (state.started >= Millis(0)).then_some(state.started.0),
            age_ms: open.then(|| now.since(state.started).0),
            updated_ms: state.updated.0,
            partitions: rows.filter_map(|at| PartitionRow::of(shard, *at, transaction, &holders)).collect(),
            staged: staged.collect(),
        }
    }

    pub(super) fn age(&self) -> String {
        self.age_ms.map(span).unwrap_or_default()
    }

    pub(super) fn left(&self) -> String {
        self.age_ms.map(|age| span(self.timeout_ms.saturating_sub(age))).unwrap_or_default()
    }
}

impl PartitionRow {
    fn of(shard: &Shard, at: TopicPartition, whose: &Transaction, open: &Open<'_>) -> Option<PartitionRow> {
        let partition = shard.partitions().get(at)?;
        let producer = whose.state().producer_id;
        let known = partition.producers().find(|state| state.producer_id == producer);
        Some(PartitionRow {
            topic: topic_name(shard, at)?,
            partition: at.partition,
            first_offset: known.and_then(|state| state.transaction_start).map(|offset| offset.0),
            last_stable_offset: partition.last_stable().0,
            high_watermark: partition.high_watermark().0,
            held: open.holding(partition),
        })
    }

    /// What holds the partition back, seen from the transaction of this producer.
    pub(super) fn blame(&self, producer_id: &i64) -> String {
        match &self.held {
            None => String::new(),
            Some(held) if held.producer_id == Some(*producer_id) => {
                format!("this transaction, from offset {}: {} offsets wait", held.first_offset, held.offsets)
            }
            Some(held) => held.why.clone(),
        }
    }
}
