//! A host that the test runs step by step, so small that it rewrites all the time, and the records it should hold.

use bytes::Bytes;
use ottla_broker::host::{self, DrivenHost, HostGone, HostOptions, NoRoom, ProduceOutcome, Snapshots};
use ottla_core::Command;
use ottla_core::catalog::{CreateTopics, DeleteTopics, NewTopic, TopicRef};
use ottla_core::config::Settings;
use ottla_core::partitions::{DeleteRecords, Produce, ProduceBatch};
use ottla_core::partitions::{Isolation, Source};
use ottla_core::transactions::TransactionCheck;
use ottla_core::transactions::{EndTxn, InitProducerId};
use ottla_store::Options;
use ottla_store::testing::FaultMedium;
use ottla_types::record::BatchPlace;
use ottla_types::{
    BatchSummary, Millis, Offset, ProducerEpoch, ProducerId, TimestampType, TopicId, TopicPartition,
};
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Bytes of a segment.
pub(crate) const SEGMENT: u64 = 64 << 10;
/// Bytes that the tail may hold.
pub(crate) const BOUND: u64 = 4 * SEGMENT;

pub(crate) type Owner = (ProducerId, ProducerEpoch);
pub(crate) type Offer = Result<Result<ProduceOutcome, NoRoom>, HostGone>;

/// The host, and the offsets and values of the records that it should hold.
pub(crate) struct World {
    pub(crate) medium: FaultMedium,
    pub(crate) driven: DrivenHost,
    pub(crate) now: Millis,
    more: BTreeMap<String, String>,
    pub(crate) expected: BTreeMap<TopicPartition, Vec<(i64, usize)>>,
}

/// The only partition of topic number `topic`.
pub(crate) fn at(topic: u8) -> TopicPartition {
    TopicPartition { topic: TopicId([topic; 16]), partition: 0 }
}

fn options(more: &BTreeMap<String, String>) -> HostOptions {
    let mut configs = BTreeMap::from([
        ("ottla.tail.max.bytes".to_owned(), BOUND.to_string()),
        ("ottla.rewrite.buffer.bytes".to_owned(), (64 << 10).to_string()),
        ("ottla.runs.max".to_owned(), "1000".to_owned()),
    ]);
    configs.extend(more.clone());
    HostOptions {
        settings: Settings::from_configs(&configs).unwrap(),
        log: Options {
            segment_size: SEGMENT,
            recent: 0,
            zero_fill: false,
            threads: false,
            ..Options::disk()
        },
        cluster_id: "ottla-test-cluster-id0".to_owned(),
        snapshots: Snapshots::every(8 * SEGMENT),
    }
}

/// Polls a future once, without a waker.
pub(crate) fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

impl World {
    pub(crate) fn new(configs: &[(&str, &str)]) -> World {
        let more = configs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let (medium, now) = (FaultMedium::new(1), Millis(1_700_000_000_000));
        let driven = host::drive(Arc::new(medium.clone()), options(&more), now).unwrap();
        let mut world = World { medium, driven, now, more, expected: BTreeMap::new() };
        world.run(3);
        world
    }

    /// Kills and restarts the process; with `crash`, the power is lost too.
    pub(crate) fn restart(&mut self, crash: bool) {
        self.medium = if crash { self.medium.crash() } else { self.medium.restart() };
        self.driven = host::drive(Arc::new(self.medium.clone()), options(&self.more), self.now).unwrap();
    }

    /// Runs the host and lets it write this many times, one second apart.
    pub(crate) fn run(&mut self, times: usize) {
        for _ in 0..times {
            self.now = self.now.after(Millis(1000));
            self.driven.turn(self.now);
            self.driven.write();
        }
        self.driven.turn(self.now);
    }

    pub(crate) fn wait<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = Box::pin(future);
        for _ in 0..1000 {
            if let Some(done) = poll(&mut future) {
                return done;
            }
            self.run(1);
        }
        panic!("no answer comes");
    }

    fn submit<C: Command>(&mut self, command: C) -> C::Reply {
        let host = self.driven.host().clone();
        self.wait(async move { host.submit(command).await.unwrap() })
    }

    pub(crate) fn create(&mut self, topic: u8, configs: &[(&str, &str)]) {
        let configs = configs.iter().map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned())));
        let new = NewTopic {
            name: format!("topic-{topic}"),
            id: at(topic).topic,
            partitions: 1,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: configs.collect(),
        };
        self.submit(CreateTopics { topics: vec![new], validate_only: false });
        self.expected.insert(at(topic), Vec::new());
    }

    pub(crate) fn delete(&mut self, topic: u8) {
        let topics = vec![TopicRef::Id(at(topic).topic)];
        self.submit(DeleteTopics { topics });
        self.expected.remove(&at(topic));
    }

    pub(crate) fn delete_before(&mut self, topic: u8, offset: i64) {
        let partitions = vec![(at(topic), Offset(offset))];
        self.submit(DeleteRecords { partitions });
        self.expected.get_mut(&at(topic)).unwrap().retain(|(base, _)| *base >= offset);
    }

    /// Submits a batch with a value of this many bytes. The command is pending once the future was polled.
    pub(crate) fn offer(
        &self,
        topic: u8,
        bytes: usize,
        owner: Option<(Owner, i32)>,
    ) -> impl Future<Output = Offer> + Unpin + use<> {
        let batches = vec![batch(topic, bytes, self.now, owner)];
        let transactional_id = owner.map(|_| "id".to_owned());
        let check = TransactionCheck::Add;
        let host = self.driven.host().clone();
        let produce = Produce { transactional_id, check, batches };
        Box::pin(async move { host.produce(produce).await })
    }

    /// Notes a reply to [`World::offer`].
    pub(crate) fn answered(&mut self, topic: u8, bytes: usize, offer: Offer) -> Result<Millis, NoRoom> {
        let offered = offer.unwrap()?;
        let offset = offered.results[0].as_ref().unwrap().base_offset.0;
        self.expected.get_mut(&at(topic)).unwrap().push((offset, bytes));
        Ok(offered.mute)
    }

    pub(crate) fn produce(&mut self, topic: u8, bytes: usize) -> Result<Millis, NoRoom> {
        let offer = self.offer(topic, bytes, None);
        let offer = self.wait(offer);
        self.answered(topic, bytes, offer)
    }

    pub(crate) fn produce_in(&mut self, topic: u8, bytes: usize, owner: Owner, sequence: i32) {
        let offer = self.offer(topic, bytes, Some((owner, sequence)));
        let offer = self.wait(offer);
        self.answered(topic, bytes, offer).unwrap();
    }

    pub(crate) fn init(&mut self) -> Owner {
        let (transactional_id, timeout) = (Some("id".to_owned()), Millis(600_000));
        self.submit(InitProducerId { transactional_id, timeout, given: None }).unwrap()
    }

    /// Ends the transaction. Returns the owner of the next one.
    pub(crate) fn end(&mut self, owner: Owner, commit: bool) -> Owner {
        self.submit(EndTxn {
            transactional_id: "id".to_owned(),
            producer_id: owner.0,
            producer_epoch: owner.1,
            commit,
            bump: true,
        })
        .unwrap()
    }

    /// Bytes from the oldest batch in the log to its end.
    pub(crate) fn tail(&self) -> u64 {
        let oldest = self.driven.shard().partitions().oldest_live();
        oldest.map_or(0, |oldest| self.driven.ends().0.0 - oldest.0)
    }

    /// Asserts that every partition holds exactly its records, byte for byte.
    pub(crate) fn check(&self) {
        for (partition, expected) in &self.expected {
            let mut found = Vec::new();
            for batch in self.batches(*partition) {
                // The expected records have no markers.
                if batch[22] & 0x20 == 0 {
                    let base = i64::from_be_bytes(batch[..8].try_into().unwrap());
                    found.push((base, batch.iter().filter(|byte| **byte == partition.topic.0[0]).count()));
                }
            }
            let found: Vec<i64> = found.iter().map(|(base, _)| *base).collect();
            let wanted: Vec<i64> = expected.iter().map(|(base, _)| *base).collect();
            assert_eq!(found, wanted, "{partition:?}");
        }
    }

    /// The batches of a partition as readers get them.
    pub(crate) fn batches(&self, partition: TopicPartition) -> Vec<Bytes> {
        let state = self.driven.shard().partitions().get(partition).unwrap();
        let plan = state.read(state.log_start(), u64::MAX, true, Isolation::Uncommitted).unwrap();
        let (reader, mut all) = (self.driven.reader(), Vec::new());
        for source in plan.sources {
            match source {
                Source::Batch(batch) => {
                    if let BatchPlace::Log { position, size } = batch.place {
                        all.push(reader.read(position, size as usize).unwrap());
                    }
                }
                Source::Part { part, from, to } => {
                    let mut scan = reader.runs().scan(&part).unwrap();
                    while let Some(batch) = scan.next_batch().unwrap() {
                        if batch.last_offset >= from && batch.last_offset < to {
                            all.push(batch.bytes);
                        }
                    }
                }
            }
        }
        all
    }

    /// Files of a kind, by name, with their sizes.
    pub(crate) fn files(&self, kind: &str) -> Vec<(String, u64)> {
        let files = self.medium.files().into_iter().map(|(name, size)| (name, size as u64));
        files.filter(|(name, _)| name.starts_with(kind)).collect()
    }
}

fn batch(topic: u8, bytes: usize, now: Millis, owner: Option<(Owner, i32)>) -> ProduceBatch {
    let none = ((ProducerId::NONE, ProducerEpoch::NONE), -1);
    let ((producer_id, producer_epoch), sequence) = owner.unwrap_or(none);
    let mut builder = BatchBuilder::new(Compression::None)
        .producer(producer_id.0, producer_epoch.0, sequence)
        .transactional(owner.is_some());
    let value = vec![topic; bytes];
    builder.push(&NewRecord { timestamp: now.0, key: None, value: Some(&value), headers: &[] });
    let payload = builder.build().unwrap();
    let summary = BatchSummary {
        size: payload.len() as u32,
        last_offset_delta: 0,
        record_count: 1,
        base_timestamp: now,
        max_timestamp: now,
        timestamp_type: TimestampType::CreateTime,
        producer_id,
        producer_epoch,
        base_sequence: sequence,
        transactional: owner.is_some(),
        control: false,
    };
    ProduceBatch {
        topic: TopicRef::Id(at(topic).topic),
        partition: 0,
        keyless: true,
        earliest: summary.base_timestamp,
        stamped: false,
        summary,
        payload,
    }
}
