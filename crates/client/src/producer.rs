//! Sending records: always acks=all, always idempotent.
//!
//! A send begins immediately and returns when all records are acknowledged; to get large batches, pass many records at
//! once. A batch is sent again with the same sequence number until the broker responds, so a lost response causes no
//! duplicates.

use crate::client::{Client, millis};
use crate::cluster::{Coordinator, Node, Topic};
use crate::error::{ClientError, check, check_with};
use crate::murmur;
use crate::record::{BatchHead, Record, encode_batch};
use bytes::Bytes;
use ottla_types::{ProducerEpoch, ProducerId, sequence_after};
use ottla_wire::codec::Compression;
use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::messages::{InitProducerIdRequest, ProduceRequest};
use ottla_wire::{Records, Versions};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, SystemTime};

/// The largest batch in bytes; a broker accepts 1 MiB by default.
const BATCH_BYTES: usize = 900_000;

/// Options of a producer.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    /// Makes the producer transactional; an earlier producer with this id is fenced.
    pub transactional_id: Option<String>,
    /// The transaction timeout, after which the broker aborts an open transaction.
    pub transaction_timeout: Duration,
    /// Codec of the batches.
    pub compression: Compression,
}

impl Default for ProducerOptions {
    fn default() -> ProducerOptions {
        ProducerOptions {
            transactional_id: None,
            transaction_timeout: Duration::from_secs(60),
            compression: Compression::None,
        }
    }
}

/// The partition and the offset of a record that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// Number of the partition.
    pub partition: i32,
    /// Offset in the partition.
    pub offset: i64,
}

/// Sends records, in transactions if it has a transactional id.
pub struct Producer {
    pub(crate) client: Client,
    pub(crate) options: ProducerOptions,
    pub(crate) id: ProducerId,
    pub(crate) epoch: ProducerEpoch,
    /// Next sequence number by topic and partition; absent is 0.
    pub(crate) sequences: HashMap<(String, i32), i32>,
    pub(crate) transaction: Option<Transaction>,
    /// The failure after which nothing more can be sent, because it is unknown which records arrived.
    pub(crate) broken: Option<String>,
    spread: usize,
}

/// An open transaction.
pub(crate) struct Transaction {
    /// Whether the cluster has transaction version 2: Produce and TxnOffsetCommit add to the transaction by themselves.
    pub(crate) adds_by_itself: bool,
    pub(crate) partitions: BTreeSet<(String, i32)>,
    pub(crate) groups: BTreeSet<String>,
}

impl Transaction {
    pub(crate) fn is_empty(&self) -> bool {
        self.partitions.is_empty() && self.groups.is_empty()
    }
}

/// A batch to be sent, and the indexes of the caller's records in it.
struct Outgoing {
    partition: i32,
    bytes: Bytes,
    records: Vec<usize>,
}

impl Producer {
    /// Gets a producer id. With a transactional id, fences an earlier producer and aborts its open transaction.
    pub async fn start(client: Client, options: ProducerOptions) -> Result<Producer, ClientError> {
        let mut producer = Producer {
            client,
            options,
            id: ProducerId::NONE,
            epoch: ProducerEpoch::NONE,
            sequences: HashMap::new(),
            transaction: None,
            broken: None,
            spread: 0,
        };
        producer.init().await?;
        Ok(producer)
    }

    /// The producer id and epoch in use.
    pub fn identity(&self) -> (ProducerId, ProducerEpoch) {
        (self.id, self.epoch)
    }

    /// Asks for a producer id, or for the next epoch of the one in use (KIP-360).
    pub(crate) async fn init(&mut self) -> Result<(), ClientError> {
        let (id, epoch) = self.client.retrying("a producer id", || self.init_once()).await?;
        self.id = id;
        self.epoch = epoch;
        self.sequences.clear();
        Ok(())
    }

    async fn init_once(&self) -> Result<(ProducerId, ProducerEpoch), ClientError> {
        let transactional_id = self.options.transactional_id.as_deref();
        let node = match transactional_id {
            Some(id) => self.client.coordinator(Coordinator::Transaction, id).await?,
            None => Node::Any,
        };
        let request = InitProducerIdRequest {
            transactional_id: transactional_id.map(Into::into),
            transaction_timeout_ms: millis(self.options.transaction_timeout),
            producer_id: self.id.0,
            producer_epoch: self.epoch.0,
            ..Default::default()
        };
        let answer = self.client.call(node, request).await?;
        check(answer.error_code, "InitProducerId", || match transactional_id {
            Some(id) => format!("transactional id {id:?}"),
            None => "a producer without transactional id".to_owned(),
        })?;
        Ok((ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch)))
    }

    /// Sends records to a topic, each to `partition`, or else to the partition of its key, or else to one partition per
    /// call in turn. Returns when all are acknowledged, with partition and offset of each in the given order.
    ///
    /// After an error it is unknown which records arrived: abort the transaction, or start another producer.
    pub async fn send(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        records: Vec<Record>,
    ) -> Result<Vec<RecordMetadata>, ClientError> {
        self.check_usable()?;
        let found = self.client.ready_topic(topic, true).await?;
        let mut queues = self.batches(&found, partition, records)?;
        self.join_transaction(topic, queues.keys().copied().collect()).await?;
        let mut placed = Vec::new();
        while queues.values().any(|queue| !queue.is_empty()) {
            let round: Vec<Outgoing> = queues.values_mut().filter_map(VecDeque::pop_front).collect();
            let sent =
                self.client.retrying("records to be acknowledged", || self.send_round(topic, &round)).await;
            let offsets = sent.map_err(|error| self.breaks(error))?;
            for batch in round {
                let base = offsets.get(&batch.partition).copied().unwrap_or(-1);
                let place = |(delta, record)| {
                    let offset = if base < 0 { -1 } else { base + delta };
                    (record, RecordMetadata { partition: batch.partition, offset })
                };
                placed.extend((0_i64..).zip(batch.records).map(place));
            }
        }
        placed.sort_by_key(|(record, _)| *record);
        Ok(placed.into_iter().map(|(_, placed)| placed).collect())
    }

    fn check_usable(&self) -> Result<(), ClientError> {
        match &self.broken {
            Some(reason) if self.transaction.is_some() => Err(ClientError::Misuse(format!(
                "the transaction has to be aborted, because something in it failed: {reason}"
            ))),
            Some(reason) => Err(ClientError::Misuse(format!(
                "the producer cannot go on, start another one; an earlier send failed: {reason}"
            ))),
            None if self.options.transactional_id.is_some() && self.transaction.is_none() => {
                Err(ClientError::Misuse("no transaction is open; begin one before sending".to_owned()))
            }
            None => Ok(()),
        }
    }

    /// Records that a request with records or offsets failed.
    pub(crate) fn breaks(&mut self, error: ClientError) -> ClientError {
        self.broken = Some(error.to_string());
        error
    }

    /// Sorts records into batches, a queue of them per partition, and takes their sequence numbers.
    fn batches(
        &mut self,
        topic: &Topic,
        partition: Option<i32>,
        records: Vec<Record>,
    ) -> Result<BTreeMap<i32, VecDeque<Outgoing>>, ClientError> {
        let count = topic.partitions.len() as i32;
        if let Some(wanted) = partition {
            topic.leader(wanted)?;
        }
        self.spread = self.spread.wrapping_add(1);
        let turn = (self.spread % topic.partitions.len().max(1)) as i32;
        let now = now();
        let mut chosen: BTreeMap<i32, Vec<(usize, Record)>> = BTreeMap::new();
        for (place, mut record) in records.into_iter().enumerate() {
            record.timestamp.get_or_insert(now);
            let by_key = || record.key.as_ref().map_or(turn, |key| murmur::partition_of(key, count));
            chosen.entry(partition.unwrap_or_else(by_key)).or_default().push((place, record));
        }
        let mut queues = BTreeMap::new();
        for (partition, records) in chosen {
            queues.insert(partition, self.cut(&topic.name, partition, records)?);
        }
        Ok(queues)
    }

    /// Divides one partition's records into batches.
    fn cut(
        &mut self,
        topic: &str,
        partition: i32,
        records: Vec<(usize, Record)>,
    ) -> Result<VecDeque<Outgoing>, ClientError> {
        let mut queue = VecDeque::new();
        let mut records = records.into_iter().peekable();
        while let Some(first) = records.next() {
            let mut size = first.1.size();
            let mut batch = vec![first];
            while let Some(next) = records.next_if(|(_, next)| size + next.size() <= BATCH_BYTES) {
                size += next.1.size();
                batch.push(next);
            }
            let sequence = self.sequences.entry((topic.to_owned(), partition)).or_default();
            let head = BatchHead {
                producer_id: self.id,
                producer_epoch: self.epoch,
                base_sequence: *sequence,
                transactional: self.options.transactional_id.is_some(),
                compression: self.options.compression,
            };
            *sequence = sequence_after(*sequence, batch.len() as i32);
            let (places, records): (Vec<usize>, Vec<Record>) = batch.into_iter().unzip();
            queue.push_back(Outgoing { partition, bytes: encode_batch(&head, &records)?, records: places });
        }
        Ok(queue)
    }

    /// Sends one batch per partition to the current leaders; returns the base offset of each partition's batch.
    async fn send_round(&self, topic: &str, round: &[Outgoing]) -> Result<HashMap<i32, i64>, ClientError> {
        let topic = self.client.topic(topic, true).await?;
        let mut by_leader: Vec<(Node, ProduceRequest)> = Vec::new();
        for batch in round {
            let leader = topic.leader(batch.partition)?;
            let place = match by_leader.iter().position(|(node, _)| *node == leader) {
                Some(place) => place,
                None => {
                    by_leader.push((leader, self.produce_request(&topic)));
                    by_leader.len() - 1
                }
            };
            by_leader[place].1.topic_data[0].partition_data.push(PartitionProduceData {
                index: batch.partition,
                records: Some(Records::from(batch.bytes.clone())),
                ..Default::default()
            });
        }
        let mut offsets = HashMap::new();
        for answer in self.client.call_each(by_leader, self.produce_versions(), Duration::ZERO).await? {
            for partition in answer.responses.iter().flat_map(|topic| &topic.partition_responses) {
                let about = || format!("partition {} of topic {:?}", partition.index, topic.name);
                check_with(partition.error_code, "Produce", about, partition.error_message.as_deref())?;
                offsets.insert(partition.index, partition.base_offset);
            }
        }
        Ok(offsets)
    }

    fn produce_request(&self, topic: &Topic) -> ProduceRequest {
        ProduceRequest {
            transactional_id: self.options.transactional_id.as_deref().map(Into::into),
            acks: -1,
            timeout_ms: millis(self.client.options().request_timeout),
            topic_data: vec![TopicProduceData {
                name: topic.name.as_str().into(),
                topic_id: topic.id,
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    /// From version 12 on Produce adds partitions to the transaction by itself (T-05); without it, stay below.
    fn produce_versions(&self) -> Versions {
        match &self.transaction {
            Some(transaction) if !transaction.adds_by_itself => Versions::new(0, 11),
            Some(_) => Versions::new(12, i16::MAX),
            None => Versions::new(0, i16::MAX),
        }
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
