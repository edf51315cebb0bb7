//! What every scenario needs: a client, topics, waiting, and reading to the end.

use krafka::Kafka;
use krafka::auth::{AuthConfig, TlsConfig};
use krafka::admin::{ListConsumerGroupOffsetsOptions, NewTopic, TopicPartition};
use krafka::consumer::{AutoOffsetReset, Consumer, ConsumerRecord, IsolationLevel};
use krafka::producer::{Producer, Record, TransactionalProducer};
use std::error::Error;
use std::fmt::Debug;
use std::time::{Duration, Instant};

pub type Res<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long one poll waits for records.
pub const POLL: Duration = Duration::from_millis(200);

/// The world of one scenario. The run id starts every name that it creates on the broker.
pub struct World {
    pub kafka: Kafka,
    pub run: String,
    bootstrap: String,
    deadline: Instant,
}

/// TLS and SASL, when the runner asks for them.
fn security() -> Option<AuthConfig> {
    let given = |name: &str| std::env::var(name).unwrap_or_default();
    let user = std::env::var("E2E_USER").ok()?;
    let tls = TlsConfig::new().with_ca_cert(given("E2E_CA"));
    Some(AuthConfig::sasl_scram_sha512(user, given("E2E_PASSWORD")).with_tls(tls))
}

async fn connect(bootstrap: &str) -> Res<Kafka> {
    let kafka = Kafka::builder(bootstrap).client_id("e2e-krafka");
    let kafka = match security() {
        Some(security) => kafka.security(security),
        None => kafka,
    };
    Ok(kafka.request_timeout(Duration::from_secs(10)).connect().await?)
}

impl World {
    pub async fn new(bootstrap: &str, run: &str) -> Res<World> {
        Ok(World {
            kafka: connect(bootstrap).await?,
            bootstrap: bootstrap.to_owned(),
            run: run.to_owned(),
            deadline: Instant::now() + Duration::from_secs(40),
        })
    }

    /// Connections of one's own, as another process would have them: members of a group wait for each other in JoinGroup.
    pub async fn connection(&self) -> Res<Kafka> {
        connect(&self.bootstrap).await
    }

    /// The scenario's consumer group.
    pub fn group(&self) -> String {
        format!("{}-g", self.run)
    }

    /// Creates a topic named by the run id and the suffix.
    pub async fn topic(&self, suffix: &str, partitions: i32) -> Res<String> {
        let name = format!("{}{suffix}", self.run);
        let topic = NewTopic::new(&name, partitions, 1)?;
        let admin = self.kafka.admin();
        for (_, result) in admin.create_topics([topic], Default::default()).await? {
            result?;
        }
        self.until("the new topic", async || {
            let found = admin.describe_topics([&name], Default::default()).await?;
            Ok(found.into_values().all(|t| t.is_ok_and(|t| t.partitions.len() == partitions as usize)))
        })
        .await?;
        Ok(name)
    }

    /// Asks until the question answers true, or the scenario's time is over.
    pub async fn until(&self, what: &str, mut ask: impl AsyncFnMut() -> Res<bool>) -> Res<()> {
        while !ask().await? {
            self.in_time(what)?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn in_time(&self, what: &str) -> Res<()> {
        ensure(Instant::now() < self.deadline, || format!("{what}: not seen in time"))
    }

    pub async fn producer(&self) -> Res<Producer> {
        Ok(self.kafka.producer().build().await?)
    }

    /// A transactional producer; every one of a scenario has the same transactional id.
    pub async fn transactional(&self) -> Res<TransactionalProducer> {
        let timeout = Duration::from_secs(30);
        let producer = self.kafka.producer().transaction_timeout(timeout).delivery_timeout(timeout);
        Ok(producer.build_transactional(format!("{}-t", self.run)).await?)
    }

    /// A reader of all partitions from their beginning, without a group.
    pub async fn reader(&self, topic: &str, partitions: i32, level: IsolationLevel) -> Res<Consumer> {
        let reader = self.kafka.consumer_without_group();
        let reader = reader.auto_offset_reset(AutoOffsetReset::Earliest).isolation_level(level);
        let reader = reader.fetch_max_wait(POLL).build().await?;
        reader.assign(topic, (0..partitions).collect()).await?;
        Ok(reader)
    }

    /// Polls until `enough` says so.
    pub async fn read(
        &self,
        reader: &Consumer,
        mut enough: impl FnMut(ConsumerRecord) -> Res<bool>,
    ) -> Res<()> {
        loop {
            for record in reader.poll(POLL).await? {
                if enough(record)? {
                    return Ok(());
                }
            }
            self.in_time("the end of the records")?;
        }
    }

    /// The values of each partition up to its record `end`.
    pub async fn read_to_end(
        &self,
        topic: &str,
        partitions: usize,
        level: IsolationLevel,
    ) -> Res<Vec<Vec<String>>> {
        let reader = self.reader(topic, partitions as i32, level).await?;
        let mut values = vec![Vec::new(); partitions];
        let mut missing = partitions;
        self.read(&reader, |record| {
            match record.value_str() {
                Some("end") => missing -= 1,
                Some(value) => values[record.partition as usize].push(value.to_owned()),
                None => return Err("a record without a value".into()),
            }
            Ok(missing == 0)
        })
        .await?;
        reader.close().await?;
        Ok(values)
    }

    /// The committed offset of each partition, -1 where there is none.
    pub async fn committed(&self, topic: &str, partitions: i32) -> Res<Vec<i64>> {
        let options = ListConsumerGroupOffsetsOptions::default();
        let mut found = self.kafka.admin().list_consumer_group_offsets(self.group(), options).await?;
        let mut offsets = Vec::new();
        for partition in 0..partitions {
            let offset = found.remove(&TopicPartition::new(topic, partition)).transpose()?;
            offsets.push(offset.and_then(|o| o.offset).unwrap_or(-1));
        }
        Ok(offsets)
    }
}

/// A record with this value.
pub fn text(topic: &str, partition: i32, value: &str) -> Record {
    Record::new(topic, value.to_owned()).partition(partition)
}

pub fn ensure(good: bool, complaint: impl FnOnce() -> String) -> Res<()> {
    if good { Ok(()) } else { Err(complaint().into()) }
}

pub fn same<T: PartialEq + Debug>(want: &T, got: &T, what: &str) -> Res<()> {
    ensure(want == got, || format!("{what}: got {got:?}, should be {want:?}"))
}
