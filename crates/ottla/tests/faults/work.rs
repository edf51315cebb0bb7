//! A small load of every kind, and the checks of its results after a fault.

use ottla_client::{
    Client, ClientError, Consumer, GroupOffset, Isolation, Membership, Options, Producer, ProducerOptions,
    Record,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// Plain records, and transactions.
const PLAIN: usize = 8;
const TRANSACTIONS: usize = 4;
const GROUP: &str = "readers";

/// The writes that the broker acknowledged.
#[derive(Debug, Default, Clone)]
pub(crate) struct AcknowledgedWrites {
    plain: BTreeSet<String>,
    /// Committed transactions by number.
    committed: BTreeSet<usize>,
    /// Errors, for messages of tests.
    pub(crate) failures: Vec<String>,
}

impl AcknowledgedWrites {
    /// True if every write was acknowledged.
    pub(crate) fn is_all(&self) -> bool {
        self.plain.len() == PLAIN && self.committed.len() == TRANSACTIONS
    }
}

/// A client with a short timeout.
pub(crate) async fn client(address: &str, patience: Duration) -> Result<Client, ClientError> {
    let options = Options { request_timeout: patience, patience, ..Options::default() };
    Client::connect_with(address, options).await
}

pub(crate) fn record(value: &str) -> Record {
    Record { value: Some(value.to_owned().into()), ..Default::default() }
}

/// Runs the load, and continues after errors.
pub(crate) async fn run(address: &str) -> AcknowledgedWrites {
    let mut seen = AcknowledgedWrites::default();
    if let Err(error) = plain(address, &mut seen).await {
        seen.failures.push(error.to_string());
    }
    for number in 0..TRANSACTIONS {
        match transaction(address, number).await {
            Ok(()) => drop(seen.committed.insert(number)),
            Err(error) => seen.failures.push(error.to_string()),
        }
    }
    seen
}

const PATIENCE: Duration = Duration::from_secs(3);

async fn plain(address: &str, seen: &mut AcknowledgedWrites) -> Result<(), ClientError> {
    let client = client(address, PATIENCE).await?;
    for number in 0..PLAIN {
        // Each transaction has its own producer: a producer cannot be used after an error.
        let mut producer = Producer::start(client.clone(), ProducerOptions::default()).await?;
        let value = format!("plain {number}");
        match producer.send("plain", Some(0), vec![record(&value)]).await {
            Ok(_) => drop(seen.plain.insert(value)),
            Err(error) => seen.failures.push(error.to_string()),
        }
    }
    Ok(())
}

async fn transactional(client: Client, number: usize) -> Result<Producer, ClientError> {
    let options = ProducerOptions { transactional_id: Some(format!("id {number}")), ..Default::default() };
    Producer::start(client, options).await
}

/// A transaction of two records on two topics and an offset.
async fn transaction(address: &str, number: usize) -> Result<(), ClientError> {
    let client = client(address, PATIENCE).await?;
    let mut producer = transactional(client, number).await?;
    producer.begin().await?;
    for topic in ["left", "right"] {
        producer.send(topic, Some(0), vec![record(&number.to_string())]).await?;
    }
    let offset = GroupOffset { topic: "plain".to_owned(), partition: 0, offset: number as i64 };
    producer.send_offsets(&Membership::outside(&format!("{GROUP} {number}")), &[offset]).await?;
    producer.commit().await
}

/// Reads a topic to its end; no records if it does not exist.
pub(crate) async fn values(client: &Client, topic: &str) -> Result<Vec<String>, ClientError> {
    if !client.topics().await?.iter().any(|known| known.name == topic) {
        return Ok(Vec::new());
    }
    let mut consumer = Consumer::new(client, Isolation::ReadCommitted);
    consumer.assign(topic, 0, 0);
    let mut values = Vec::new();
    while !consumer.at_end() {
        for record in consumer.poll(Duration::from_millis(20)).await? {
            values.push(String::from_utf8_lossy(&record.value.unwrap_or_default()).into_owned());
        }
    }
    Ok(values)
}

/// Checks that every acknowledged write is there, that none is there twice, and that each transaction is there as a
/// whole or not at all.
pub(crate) async fn check(address: &str, seen: &AcknowledgedWrites, case: &str) {
    let client = client(address, Duration::from_secs(30)).await.unwrap();
    for number in 0..TRANSACTIONS {
        // Aborts an open transaction: read_committed consumers stop before it.
        drop(transactional(client.clone(), number).await.unwrap());
    }
    let plain = values(&client, "plain").await.unwrap();
    let set: BTreeSet<String> = plain.iter().cloned().collect();
    assert_eq!(set.len(), plain.len(), "{case}: something is there twice: {plain:?}");
    assert!(set.is_superset(&seen.plain), "{case}: {plain:?} of {seen:?}");
    let (left, right) = (values(&client, "left").await.unwrap(), values(&client, "right").await.unwrap());
    assert_eq!(left, right, "{case}: torn");
    for number in 0..TRANSACTIONS {
        let text = number.to_string();
        let times = left.iter().filter(|value| **value == text).count();
        assert!(times <= 1, "{case}: {left:?}");
        assert!(
            times == 1 || !seen.committed.contains(&number),
            "{case}: {number} is lost: {left:?} of {seen:?}"
        );
        let offsets = client.committed_so_far(&format!("{GROUP} {number}")).await.unwrap();
        assert_eq!(offsets.len(), times, "{case}: {number}: data and offsets part: {offsets:?}");
    }
}
