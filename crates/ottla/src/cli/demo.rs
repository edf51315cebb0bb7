//! `ottla demo`: a small exactly-once pipeline, and what consumers of each isolation level read of it.

use super::failure::Failure;
use super::out::Out;
use super::{Connect, group, topic};
use clap::Args;
use ottla_client::{
    Client, ConsumedRecord, Consumer, GroupConsumer, GroupOptions, Isolation, Producer, ProducerOptions,
    Record,
};
use ottla_wire::messages::create_topics_request::CreatableTopic;
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime};

/// How long one fetch waits for records.
const WAIT: Duration = Duration::from_millis(50);
/// How long records may take to arrive or to become visible.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// Run a small exactly-once pipeline step by step.
///
/// It reads orders and writes a receipt for each. The receipts and the offset of the orders that were read are one
/// transaction: both take effect, or neither does. The demo shows an open transaction, a commit, an abort and the
/// retry; and each time what a read_committed and a read_uncommitted consumer read, and where the group would continue.
/// It fails if the broker returns anything else. Topics and group have new names in every run and are deleted at the
/// end.
#[derive(Args)]
pub(crate) struct Demo {
    #[command(flatten)]
    connect: Connect,
    /// Keep topics and group, to inspect them with the other commands.
    #[arg(long)]
    keep: bool,
}

impl Demo {
    pub(super) async fn run(self, out: &mut Out) -> Result<(), Failure> {
        let started = Instant::now();
        let client = self.connect.client().await?;
        let mut scenario = Scenario::new(client, self.connect.is_json());
        let played = scenario.play(out).await;
        if self.keep {
            played?;
            scenario.say(
                &format!(
                    "Kept: topics {} and {}, group {}.",
                    scenario.orders, scenario.receipts, scenario.name
                ),
                out,
            )?;
        } else {
            let cleaned = scenario.clean_up().await;
            played.and(cleaned)?;
            let took = started.elapsed().as_millis();
            scenario.say(
                &format!("Done in {took} ms; topics and group are deleted, --keep leaves them in place."),
                out,
            )?;
        }
        if self.connect.is_json() {
            out.json(&Value::Array(scenario.steps))?;
        }
        Ok(())
    }
}

/// A run of the demo.
struct Scenario {
    client: Client,
    /// Name of the group, and the transactional id.
    name: String,
    orders: String,
    receipts: String,
    json: bool,
    steps: Vec<Value>,
}

/// What consumers read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    uncommitted: Vec<String>,
    committed: Vec<String>,
    /// Where the group would continue in the orders.
    next: Option<i64>,
}

impl View {
    fn new(uncommitted: &[&str], committed: &[&str], next: Option<i64>) -> View {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        View { uncommitted: owned(uncommitted), committed: owned(committed), next }
    }
}

impl Scenario {
    fn new(client: Client, json: bool) -> Scenario {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("demo-{:x}", now.as_millis());
        let (orders, receipts) = (format!("{name}-orders"), format!("{name}-receipts"));
        Scenario { client, name, orders, receipts, json, steps: Vec::new() }
    }

    async fn play(&mut self, out: &mut Out) -> Result<(), Failure> {
        self.say("A pipeline reads orders and writes a receipt for each, exactly once.", out)?;
        self.say(&format!("Topics {} and {}, group {}.", self.orders, self.receipts, self.name), out)?;
        for name in [&self.orders, &self.receipts] {
            let topic = CreatableTopic {
                name: name.as_str().into(),
                num_partitions: 1,
                replication_factor: topic::BROKER_DEFAULT,
                ..Default::default()
            };
            topic::create(&self.client, topic, false).await?;
        }
        let mut shop = Producer::start(self.client.clone(), ProducerOptions::default()).await?;
        shop.send(&self.orders, None, ["apples", "pears", "plums"].map(record).to_vec()).await?;
        let mut worker = Worker::start(self).await?;
        worker.handle(3).await?;
        let what = "1. Orders for apples, pears and plums came in. A worker has written their receipts and its offset
   \
                    in one transaction, which is still open:";
        self.step(what, View::new(&["APPLES", "PEARS", "PLUMS"], &[], None), out).await?;

        worker.producer.commit().await?;
        let three = ["APPLES", "PEARS", "PLUMS"];
        let what = "2. The worker commits. Receipts and offset count from here on:";
        self.step(what, View::new(&three, &three, Some(3)), out).await?;

        shop.send(&self.orders, None, vec![record("figs")]).await?;
        worker.handle(1).await?;
        worker.producer.abort().await?;
        worker.member.leave().await?;
        let what =
            "3. An order for figs came in. The worker wrote the receipt and its offset, then had to abort.
   \
                    The receipt is in the log but does not count, and neither does the offset:";
        self.step(what, View::new(&["APPLES", "PEARS", "PLUMS", "FIGS"], &three, Some(3)), out).await?;

        let mut worker = Worker::start(self).await?;
        worker.handle(1).await?;
        worker.producer.commit().await?;
        worker.member.leave().await?;
        let what =
            "4. Another worker takes over where the group continues, reads the order again, and commits:";
        let all = ["APPLES", "PEARS", "PLUMS", "FIGS", "FIGS"];
        self.step(what, View::new(&all, &all[..4], Some(4)), out).await?;
        self.say("", out)?;
        self.say("The receipt for figs was written twice, and counts once. That is exactly once.", out)
    }

    fn say(&self, text: &str, out: &mut Out) -> Result<(), Failure> {
        if self.json {
            return Ok(());
        }
        out.text(text)?;
        out.line("")?;
        Ok(out.flush()?)
    }

    /// Prints a step, after what consumers read has become what is expected.
    async fn step(&mut self, what: &str, expected: View, out: &mut Out) -> Result<(), Failure> {
        let started = Instant::now();
        let mut seen = self.look().await?;
        while seen != expected {
            if started.elapsed() >= MAX_WAIT {
                let what = format!("expected to see {expected:?}, and after {MAX_WAIT:?} saw {seen:?}");
                return Err(
                    Failure::new(what).remedy("This is a bug of the broker: please report it with its log.")
                );
            }
            seen = self.look().await?;
        }
        self.steps.push(json!({
            "step": what.replace("\n  ", ""),
            "read_uncommitted": seen.uncommitted,
            "read_committed": seen.committed,
            "group_continues_at": seen.next,
        }));
        self.say("", out)?;
        self.say(what, out)?;
        self.say(&format!("   read_uncommitted sees   {}", listed(&seen.uncommitted)), out)?;
        self.say(&format!("   read_committed sees     {}", listed(&seen.committed)), out)?;
        let next = match seen.next {
            Some(offset) => format!("order {offset}"),
            None => "the beginning: nothing is committed".to_owned(),
        };
        self.say(&format!("   the group continues at  {next}"), out)
    }

    async fn look(&self) -> Result<View, Failure> {
        let committed = self.client.committed_so_far(&self.name).await?;
        Ok(View {
            uncommitted: self.read(Isolation::ReadUncommitted).await?,
            committed: self.read(Isolation::ReadCommitted).await?,
            next: committed.first().map(|committed| committed.offset.offset),
        })
    }

    async fn read(&self, isolation: Isolation) -> Result<Vec<String>, Failure> {
        let mut consumer = Consumer::new(&self.client, isolation);
        consumer.assign(&self.receipts, 0, 0);
        let mut values = Vec::new();
        while !consumer.at_end() {
            values.extend(consumer.poll(WAIT).await?.iter().map(value));
        }
        Ok(values)
    }

    async fn clean_up(&self) -> Result<(), Failure> {
        topic::delete(&self.client, &self.orders).await?;
        topic::delete(&self.client, &self.receipts).await?;
        group::delete(&self.client, &self.name).await
    }
}

/// Reads orders and writes receipts, in transactions that hold both.
struct Worker {
    member: GroupConsumer,
    producer: Producer,
    receipts: String,
}

impl Worker {
    async fn start(scenario: &Scenario) -> Result<Worker, Failure> {
        let options = ProducerOptions { transactional_id: Some(scenario.name.clone()), ..Default::default() };
        let group = GroupOptions::new(&scenario.name, &[&scenario.orders]);
        Ok(Worker {
            member: GroupConsumer::new(&scenario.client, group),
            producer: Producer::start(scenario.client.clone(), options).await?,
            receipts: scenario.receipts.clone(),
        })
    }

    /// Reads `count` orders, and writes their receipts and the group's offset in a transaction that stays open.
    async fn handle(&mut self, count: usize) -> Result<(), Failure> {
        let started = Instant::now();
        let mut orders = Vec::new();
        while orders.len() < count {
            if started.elapsed() >= MAX_WAIT {
                return Err(Failure::new(format!("{count} orders were sent, {} arrived", orders.len())));
            }
            orders.extend(self.member.poll(WAIT).await?.iter().map(value));
        }
        self.producer.begin().await?;
        let receipts = orders.iter().map(|order| record(&order.to_uppercase()));
        self.producer.send(&self.receipts, None, receipts.collect()).await?;
        Ok(self.producer.send_offsets(self.member.membership(), &self.member.positions()).await?)
    }
}

fn record(value: &str) -> Record {
    Record { value: Some(value.to_owned().into()), ..Default::default() }
}

fn value(record: &ConsumedRecord) -> String {
    String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned()
}

fn listed(values: &[String]) -> String {
    if values.is_empty() { "nothing".to_owned() } else { values.join(", ") }
}
