//! `ottla txn`: shows transactions and producers, and ends hanging transactions.

use super::Connect;
use super::failure::{Failure, refused};
use super::out::{Out, numbers};
use clap::{Args, Subcommand};
use ottla_client::{Client, Coordinator, Producer, ProducerOptions};
use ottla_wire::messages::describe_producers_request::TopicRequest;
use ottla_wire::messages::describe_producers_response::ProducerState;
use ottla_wire::messages::describe_transactions_response::TransactionState as DescribedTransaction;
use ottla_wire::messages::list_transactions_response::TransactionState as ListedTransaction;
use ottla_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use ottla_wire::messages::{
    DescribeProducersRequest, DescribeTransactionsRequest, ListTransactionsRequest, WriteTxnMarkersRequest,
};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// List and describe transactions, show the producers of a topic, end hanging transactions.
#[derive(Args)]
pub(crate) struct Txn {
    #[command(flatten)]
    connect: Connect,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a transactional id: its state, its producer, the partitions in its transaction.
    Describe {
        /// The transactional id.
        id: String,
    },
    /// Show the idempotent and transactional producers of each partition of a topic.
    ///
    /// TXN-START is the first offset of the open transaction of a producer. While it is open, read_committed consumers
    /// wait before it; `ottla txn abort` ends a hanging one.
    Producers {
        /// Name of the topic.
        topic: String,
    },
    Abort(Abort),
    /// Fence the producer of a transactional id: its open transaction is aborted, and it cannot begin another.
    Fence {
        /// The transactional id.
        id: String,
    },
}

/// List transactional ids with their state.
#[derive(Args)]
struct List {
    /// Only ids in this state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort; may be
    /// repeated.
    #[arg(long)]
    state: Vec<String>,
}

/// End a hanging transaction on one partition, by writing an abort marker there.
///
/// Use this for transactions that no coordinator knows. Fence a transaction that is in progress instead (`ottla txn
/// fence`): the marker would abort only the records before it.
#[derive(Args)]
struct Abort {
    /// Topic on which the transaction hangs.
    #[arg(short, long)]
    topic: String,
    /// Partition on which it hangs.
    #[arg(short, long, value_name = "NUMBER")]
    partition: i32,
    /// Its first offset there, TXN-START in `ottla txn producers`.
    #[arg(long, value_name = "OFFSET")]
    start_offset: i64,
}

impl Txn {
    pub(super) async fn run(self, out: &mut Out) -> Result<(), Failure> {
        let client = self.connect.client().await?;
        let json = self.connect.is_json();
        match self.command {
            Command::List(list) => list.run(&client, json, out).await,
            Command::Describe { id } => show(&describe(&client, &id).await?, json, out),
            Command::Producers { topic } => producers(&client, &topic, json, out).await,
            Command::Abort(abort) => abort.run(&client, json, out).await,
            Command::Fence { id } => fence(client, &id, json, out).await,
        }
    }
}

impl List {
    async fn run(self, client: &Client, json: bool, out: &mut Out) -> Result<(), Failure> {
        let mut found: Vec<ListedTransaction> = Vec::new();
        for node in client.brokers().await? {
            let request = ListTransactionsRequest {
                state_filters: self.state.iter().map(|state| state.as_str().into()).collect(),
                ..Default::default()
            };
            let answer = client.call(node, request).await?;
            refused(answer.error_code, "ListTransactions", || "all transactional ids".to_owned(), None)?;
            if let Some(unknown) = answer.unknown_state_filters.first() {
                return Err(Failure::new(format!("the broker knows no transaction state {:?}", &**unknown))
                    .remedy("`ottla txn list --help` names the states."));
            }
            found.extend(answer.transaction_states);
        }
        found.sort_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
        if json {
            let found = found.iter().map(|txn| {
                json!({
                    "transactional_id": &*txn.transactional_id,
                    "state": &*txn.transaction_state,
                    "producer_id": txn.producer_id,
                })
            });
            return Ok(out.json(&Value::Array(found.collect()))?);
        }
        let row = |txn: &ListedTransaction| {
            vec![
                txn.transactional_id.to_string(),
                txn.transaction_state.to_string(),
                txn.producer_id.to_string(),
            ]
        };
        let rows: Vec<Vec<String>> = found.iter().map(row).collect();
        Ok(out.table(&["TRANSACTIONAL-ID", "STATE", "PRODUCER-ID"], &rows)?)
    }
}

async fn describe(client: &Client, id: &str) -> Result<DescribedTransaction, Failure> {
    let node = client.coordinator(Coordinator::Transaction, id).await?;
    let request = DescribeTransactionsRequest { transactional_ids: vec![id.into()], ..Default::default() };
    let answer = client.call(node, request).await?;
    let Some(found) = answer.transaction_states.into_iter().next() else {
        return Err(Failure::new(format!("the broker does not describe transactional id {id:?}")));
    };
    refused(found.error_code, "DescribeTransactions", || format!("transactional id {id:?}"), None)?;
    Ok(found)
}

fn show(txn: &DescribedTransaction, json: bool, out: &mut Out) -> Result<(), Failure> {
    let started = Some(txn.transaction_start_time_ms).filter(|start| *start >= 0);
    if json {
        let topics: serde_json::Map<String, Value> =
            txn.topics.iter().map(|t| (t.topic.to_string(), json!(t.partitions.to_vec()))).collect();
        return Ok(out.json(&json!({
            "transactional_id": &*txn.transactional_id,
            "state": &*txn.transaction_state,
            "producer_id": txn.producer_id,
            "producer_epoch": txn.producer_epoch,
            "timeout_ms": txn.transaction_timeout_ms,
            "start_time_ms": started,
            "partitions": topics,
        }))?);
    }
    out.line(format!("transactional id {}, state {}", txn.transactional_id, txn.transaction_state))?;
    out.line(format!("producer id {}, epoch {}", txn.producer_id, txn.producer_epoch))?;
    out.line(format!("timeout {} ms", txn.transaction_timeout_ms))?;
    if let Some(age) = started.map(|started| now().saturating_sub(started)) {
        out.line(format!("started {}.{:03} s ago", age / 1000, age % 1000))?;
    }
    for topic in &txn.topics {
        out.line(format!("writes to {}[{}]", topic.topic, numbers(&topic.partitions.to_vec())))?;
    }
    Ok(())
}

async fn producers(client: &Client, topic: &str, json: bool, out: &mut Out) -> Result<(), Failure> {
    let known = client.topic(topic, false).await?;
    let mut rows: Vec<(i32, ProducerState)> = Vec::new();
    for partition in known.partitions.keys() {
        let states = active_producers(client, topic, *partition).await?;
        rows.extend(states.into_iter().map(|state| (*partition, state)));
    }
    if json {
        let rows = rows.iter().map(|(partition, state)| {
            json!({
                "partition": partition,
                "producer_id": state.producer_id,
                "producer_epoch": state.producer_epoch,
                "last_sequence": state.last_sequence,
                "last_timestamp": state.last_timestamp,
                "coordinator_epoch": state.coordinator_epoch,
                "transaction_start": Some(state.current_txn_start_offset).filter(|start| *start >= 0),
            })
        });
        return Ok(out.json(&Value::Array(rows.collect()))?);
    }
    let number = |number: i64| if number < 0 { "-".to_owned() } else { number.to_string() };
    let rows = rows.iter().map(|(partition, state)| {
        vec![
            partition.to_string(),
            state.producer_id.to_string(),
            state.producer_epoch.to_string(),
            number(state.last_sequence.into()),
            number(state.last_timestamp),
            number(state.current_txn_start_offset),
        ]
    });
    let headings = ["PARTITION", "PRODUCER-ID", "EPOCH", "LAST-SEQUENCE", "LAST-TIMESTAMP", "TXN-START"];
    Ok(out.table(&headings, &rows.collect::<Vec<_>>())?)
}

async fn active_producers(
    client: &Client,
    topic: &str,
    partition: i32,
) -> Result<Vec<ProducerState>, Failure> {
    let node = client.topic(topic, false).await?.leader(partition)?;
    let wanted =
        TopicRequest { name: topic.into(), partition_indexes: [partition].into(), ..Default::default() };
    let request = DescribeProducersRequest { topics: vec![wanted], ..Default::default() };
    let answer = client.call(node, request).await?;
    let mut states = Vec::new();
    for found in answer.topics.into_iter().flat_map(|topic| topic.partitions) {
        let about = || format!("partition {partition} of topic {topic:?}");
        refused(found.error_code, "DescribeProducers", about, found.error_message.as_deref())?;
        states.extend(found.active_producers);
    }
    Ok(states)
}

impl Abort {
    async fn run(self, client: &Client, json: bool, out: &mut Out) -> Result<(), Failure> {
        let Abort { topic, partition, start_offset } = &self;
        let states = active_producers(client, topic, *partition).await?;
        let hanging = states.iter().find(|state| state.current_txn_start_offset == *start_offset);
        let Some(hanging) = hanging.filter(|state| state.current_txn_start_offset >= 0) else {
            let what = format!(
                "no open transaction starts at offset {start_offset} of partition {partition} of topic {topic:?}"
            );
            return Err(Failure::new(what).remedy("`ottla txn producers` shows the open ones as TXN-START."));
        };
        let marker = WritableTxnMarker {
            producer_id: hanging.producer_id,
            producer_epoch: i16::try_from(hanging.producer_epoch).unwrap_or(i16::MAX),
            transaction_result: false,
            coordinator_epoch: hanging.coordinator_epoch.max(0),
            topics: vec![WritableTxnMarkerTopic {
                name: topic.as_str().into(),
                partition_indexes: [*partition].into(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let node = client.topic(topic, false).await?.leader(*partition)?;
        let request = WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() };
        let answer = client.call(node, request).await?;
        let topics = answer.markers.iter().flat_map(|marker| &marker.topics);
        for result in topics.flat_map(|topic| &topic.partitions) {
            let about = || format!("partition {partition} of topic {topic:?}");
            refused(result.error_code, "WriteTxnMarkers", about, None)?;
        }
        let (id, epoch) = (hanging.producer_id, hanging.producer_epoch);
        if json {
            let aborted = json!({ "producer_id": id, "producer_epoch": epoch, "aborted": true });
            return Ok(out.json(&aborted)?);
        }
        Ok(out.line(format!(
            "aborted the transaction of producer {id}, epoch {epoch}, on partition {partition}"
        ))?)
    }
}

/// Initializes a producer with the id, which fences the previous one. The id keeps its transaction timeout.
async fn fence(client: Client, id: &str, json: bool, out: &mut Out) -> Result<(), Failure> {
    let known = describe(&client, id).await?;
    let timeout = u64::try_from(known.transaction_timeout_ms).unwrap_or(60_000);
    let options = ProducerOptions {
        transactional_id: Some(id.to_owned()),
        transaction_timeout: Duration::from_millis(timeout),
        ..Default::default()
    };
    let (producer_id, epoch) = Producer::start(client, options).await?.identity();
    if json {
        return Ok(out.json(&json!({
            "transactional_id": id,
            "producer_id": producer_id.0,
            "producer_epoch": epoch.0,
        }))?);
    }
    Ok(out.line(format!("fenced {id}: epochs below {} of producer {} are refused", epoch.0, producer_id.0))?)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
