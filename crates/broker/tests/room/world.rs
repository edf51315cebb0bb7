//! A host on a small disk, and the commands that the tests submit to it.

use ottla_broker::host::{self, Host, HostGone, HostOptions, NoRoom, RunningHost, Snapshots};
use ottla_core::Shard;
use ottla_core::catalog::{CreateTopics, DeleteTopics, NewTopic, TopicRef};
use ottla_core::config::Settings;
use ottla_core::groups::MemberRef;
use ottla_core::offsets::{CommitOffsets, NewOffset, OffsetLookup, TopicOffsets};
use ottla_core::partitions::Isolation;
use ottla_core::partitions::{Produce, ProduceBatch};
use ottla_core::transactions::TransactionCheck;
use ottla_core::transactions::{EndTxn, InitProducerId};
use ottla_store::testing::FaultMedium;
use ottla_store::{LogReader, Options};
use ottla_types::record::BatchPlace;
use ottla_types::{
    BatchSummary, Millis, Offset, ProducerEpoch, ProducerId, TimestampType, TopicId, TopicPartition,
};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// Bytes of a segment.
pub(crate) const SEGMENT: u64 = 64 << 10;
/// Bytes of a batch: two to a segment.
pub(crate) const BATCH: usize = 28_000;

pub(crate) type Owner = (ProducerId, ProducerEpoch);

pub(crate) struct World {
    pub(crate) medium: FaultMedium,
    pub(crate) host: Host,
    pub(crate) failure: watch::Receiver<Option<String>>,
    reader: LogReader,
    thread: JoinHandle<()>,
}

/// The only partition of topic number `topic`.
pub(crate) fn at(topic: u8) -> TopicPartition {
    TopicPartition { topic: TopicId([topic; 16]), partition: 0 }
}

impl World {
    pub(crate) fn start(medium: FaultMedium) -> World {
        let configs = BTreeMap::from([("log.retention.check.interval.ms".to_owned(), "20".to_owned())]);
        let options = HostOptions {
            settings: Settings::from_configs(&configs).unwrap(),
            log: Options { segment_size: SEGMENT, recent: 0, zero_fill: false, ..Options::disk() },
            cluster_id: "ottla-test-cluster-id0".to_owned(),
            snapshots: Snapshots::every(u64::MAX),
        };
        let started = host::start(Arc::new(medium.clone()), options).unwrap();
        let RunningHost { host, reader, failure, thread, .. } = started;
        World { medium, host, failure, reader, thread }
    }

    /// Stops the process in order and starts the next one.
    pub(crate) fn restart(self) -> World {
        self.host.stop();
        self.thread.join().unwrap();
        World::start(self.medium.restart())
    }

    /// A power loss, and the next process.
    pub(crate) fn crash(self) -> World {
        let medium = self.medium.crash();
        self.host.stop();
        self.thread.join().unwrap();
        World::start(medium)
    }

    pub(crate) async fn create(&self, topic: u8, configs: &[(&str, &str)]) {
        let configs = configs.iter().map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned())));
        let new = NewTopic {
            name: format!("topic-{topic}"),
            id: at(topic).topic,
            partitions: 1,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: configs.collect(),
        };
        self.host.submit(CreateTopics { topics: vec![new], validate_only: false }).await.unwrap();
    }

    pub(crate) async fn delete(&self, topic: u8) {
        let topics = vec![TopicRef::Id(at(topic).topic)];
        self.host.submit(DeleteTopics { topics }).await.unwrap();
    }

    /// Submits one batch, in a transaction if there is an owner. Returns its offset.
    pub(crate) async fn produce(&self, topic: u8, owner: Option<Owner>, first: i32) -> Result<i64, NoRoom> {
        self.produce_all(&[topic], owner, first).await.map(|offsets| offsets[0])
    }

    /// Submits a batch for each topic, in one command.
    pub(crate) async fn produce_all(
        &self,
        topics: &[u8],
        owner: Option<Owner>,
        first: i32,
    ) -> Result<Vec<i64>, NoRoom> {
        let batches = topics.iter().map(|topic| batch(*topic, owner, first)).collect();
        let transactional_id = owner.map(|_| "id".to_owned());
        let check = TransactionCheck::Add;
        let outcome = self.host.produce(Produce { transactional_id, check, batches }).await.unwrap()?;
        Ok(outcome.results.iter().map(|one| one.unwrap().base_offset.0).collect())
    }

    /// Submits one batch of an idempotent producer. Returns its offset.
    pub(crate) async fn produce_idempotent(
        &self,
        topic: u8,
        producer: Owner,
        first: i32,
    ) -> Result<i64, NoRoom> {
        let mut batch = batch(topic, Some(producer), first);
        batch.summary.transactional = false;
        let (check, batches) = (TransactionCheck::Add, vec![batch]);
        let outcome = self.host.produce(Produce { transactional_id: None, check, batches }).await.unwrap()?;
        Ok(outcome.results[0].unwrap().base_offset.0)
    }

    pub(crate) async fn init(&self, id: &str) -> Result<Owner, HostGone> {
        let transactional_id = Some(id.to_owned());
        let init = InitProducerId { transactional_id, timeout: Millis(600_000), given: None };
        Ok(self.host.submit(init).await?.unwrap())
    }

    pub(crate) async fn commit_transaction(&self, owner: Owner) {
        let end = EndTxn {
            transactional_id: "id".to_owned(),
            producer_id: owner.0,
            producer_epoch: owner.1,
            commit: true,
            bump: true,
        };
        self.host.submit(end).await.unwrap().unwrap();
    }

    /// Commits an offset of a topic for a group.
    pub(crate) async fn commit(&self, topic: u8, offset: i64) -> Result<(), HostGone> {
        let offset = NewOffset {
            partition: 0,
            offset: Offset(offset),
            leader_epoch: -1,
            metadata: "a note that takes some room".repeat(20),
        };
        let topics = vec![TopicOffsets { topic: TopicRef::Id(at(topic).topic), offsets: vec![offset] }];
        let (instance_id, member_id, generation) = (None, String::new(), -1);
        let member = MemberRef { group_id: "group".to_owned(), generation, member_id, instance_id };
        assert_eq!(self.host.submit(CommitOffsets { member, topics }).await?, [[Ok(())]]);
        Ok(())
    }

    /// The committed offset of a topic.
    pub(crate) async fn committed(&self, topic: u8) -> Option<i64> {
        let look = move |shard: &Shard, _| match shard.offsets().fetch("group", at(topic), false) {
            OffsetLookup::Offset(value) => Some(value.offset.0),
            _ => None,
        };
        self.host.read(look).await.unwrap()
    }

    /// Reads all batches of a topic up to the last stable offset, with their bytes. Returns the offset behind the last
    /// one.
    pub(crate) async fn read_all(&self, topic: u8) -> i64 {
        loop {
            // As for any reader, retention may free a segment between the plan and the read: plan again.
            if let Some(end) = self.try_read_all(topic).await {
                return end;
            }
        }
    }

    async fn try_read_all(&self, topic: u8) -> Option<i64> {
        let look = move |shard: &Shard, _| {
            let partition = shard.partitions().get(at(topic)).unwrap();
            partition.read(partition.log_start(), u64::MAX, true, Isolation::Committed).unwrap()
        };
        let plan = self.host.read(look).await.unwrap();
        for batch in plan.batches() {
            let BatchPlace::Log { position, size } = batch.place else { continue };
            let bytes = match self.reader.read(position, size as usize) {
                Err(error) if error.kind() == ErrorKind::NotFound => return None,
                read => read.unwrap(),
            };
            assert_eq!(bytes[..8], batch.base_offset.0.to_be_bytes());
            assert!(bytes[16..].iter().all(|byte| *byte == topic));
        }
        Some(plan.batches().last().map_or(plan.log_start.0, |batch| batch.last_offset.0 + 1))
    }

    /// Number of files of a kind.
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.names(kind).len()
    }

    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        self.medium.files().into_iter().map(|(name, _)| name).filter(|name| name.starts_with(kind)).collect()
    }
}

fn batch(topic: u8, owner: Option<Owner>, first: i32) -> ProduceBatch {
    let (producer_id, producer_epoch) = owner.unwrap_or((ProducerId::NONE, ProducerEpoch::NONE));
    let summary = BatchSummary {
        size: BATCH as u32,
        last_offset_delta: 0,
        record_count: 1,
        base_timestamp: Millis(1_000_000),
        max_timestamp: Millis(1_000_000),
        timestamp_type: TimestampType::CreateTime,
        producer_id,
        producer_epoch,
        base_sequence: if owner.is_some() { first } else { -1 },
        transactional: owner.is_some(),
        control: false,
    };
    let payload = vec![topic; BATCH].into();
    ProduceBatch {
        topic: TopicRef::Id(at(topic).topic),
        partition: 0,
        keyless: false,
        earliest: summary.base_timestamp,
        stamped: false,
        summary,
        payload,
    }
}

/// Waits until other threads make a condition true.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..30_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("never came: {what}");
}
