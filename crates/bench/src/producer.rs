//! One transactional producer: the requests of its transactions, at versions 1 and 2 of the protocol.

use crate::connection::Connection;
use crate::setup::{GROUP, INPUT, OUTPUT};
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use ottla_wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest,
    TxnOffsetCommitRequest,
};
use ottla_wire::{ErrorCode, Text};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A record's value, in bytes.
const VALUE: [u8; 100] = [b'x'; 100];
/// How long to wait before another try, when the broker is still busy with the transaction before.
const RETRY: Duration = Duration::from_micros(500);
/// A broker that is busy for longer counts as failed.
const BUSY: Duration = Duration::from_secs(20);

pub(crate) struct Producer {
    connection: Connection,
    name: Text,
    /// Version of the transaction protocol: 1 or 2.
    protocol: u8,
    partition: i32,
    id: i64,
    epoch: i16,
    sequence: i32,
    offset: i64,
}

/// How long a transaction took, and its last step.
pub(crate) struct Took {
    pub(crate) whole: Duration,
    pub(crate) commit: Duration,
}

impl Producer {
    /// Connects and gets a producer id for the transactional id `name`.
    pub(crate) fn open(broker: &str, name: &str, protocol: u8, partition: i32) -> Result<Producer, String> {
        let mut producer = Producer {
            connection: Connection::open(broker)?,
            name: name.into(),
            protocol,
            partition,
            id: 0,
            epoch: 0,
            sequence: 0,
            offset: 0,
        };
        if !producer.connection.is_null() {
            producer.init()?;
        }
        Ok(producer)
    }

    fn init(&mut self) -> Result<(), String> {
        let ask = InitProducerIdRequest {
            transactional_id: Some(self.name.clone()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let connection = &mut self.connection;
        let answer = patiently("InitProducerId", || {
            let answer = connection.call(&ask, 4)?;
            Ok((answer.error_code, answer))
        })?;
        (self.id, self.epoch) = (answer.producer_id, answer.producer_epoch);
        Ok(())
    }

    /// One transaction: `records` into one partition, one offset, commit.
    pub(crate) fn transact(&mut self, records: usize) -> Result<Took, String> {
        let begun = Instant::now();
        if self.protocol < 2 {
            self.add_partition()?;
        }
        self.produce(records)?;
        if self.protocol < 2 {
            self.add_group()?;
        }
        self.commit_offset()?;
        let ending = Instant::now();
        self.end()?;
        Ok(Took { whole: begun.elapsed(), commit: ending.elapsed() })
    }

    fn add_partition(&mut self) -> Result<(), String> {
        let topic = AddPartitionsToTxnTopic {
            name: Text::from_static(OUTPUT),
            partitions: vec![self.partition].into(),
            ..Default::default()
        };
        let ask = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.name.clone(),
            v3_and_below_producer_id: self.id,
            v3_and_below_producer_epoch: self.epoch,
            v3_and_below_topics: vec![topic],
            ..Default::default()
        };
        let connection = &mut self.connection;
        patiently("AddPartitionsToTxn", || {
            let answer = connection.call(&ask, 3)?;
            let topic = answer.results_by_topic_v3_and_below.first();
            let code = topic.and_then(|topic| topic.results_by_partition.first());
            Ok((code.map_or(0, |partition| partition.partition_error_code), ()))
        })
    }

    fn produce(&mut self, records: usize) -> Result<(), String> {
        let mut batch = BatchBuilder::new(Compression::None)
            .producer(self.id, self.epoch, self.sequence)
            .transactional(true);
        for _ in 0..records {
            batch.push(&NewRecord { timestamp: 0, key: None, value: Some(&VALUE), headers: &[] });
        }
        let batch = batch.build().map_err(|e| e.to_string())?;
        let partition =
            PartitionProduceData { index: self.partition, records: Some(batch.into()), ..Default::default() };
        let topic = TopicProduceData {
            name: Text::from_static(OUTPUT),
            partition_data: vec![partition],
            ..Default::default()
        };
        let ask = ProduceRequest {
            transactional_id: Some(self.name.clone()),
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![topic],
            ..Default::default()
        };
        let version = if self.protocol < 2 { 11 } else { 12 };
        let connection = &mut self.connection;
        patiently("Produce", || {
            let answer = connection.call(&ask, version)?;
            let code = answer.responses.first().and_then(|topic| topic.partition_responses.first());
            Ok((code.map_or(0, |partition| partition.error_code), ()))
        })?;
        self.sequence += records as i32;
        Ok(())
    }

    fn add_group(&mut self) -> Result<(), String> {
        let ask = AddOffsetsToTxnRequest {
            transactional_id: self.name.clone(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            group_id: Text::from_static(GROUP),
            ..Default::default()
        };
        let connection = &mut self.connection;
        patiently("AddOffsetsToTxn", || Ok((connection.call(&ask, 3)?.error_code, ())))
    }

    fn commit_offset(&mut self) -> Result<(), String> {
        self.offset += 1;
        let partition = TxnOffsetCommitRequestPartition {
            partition_index: self.partition,
            committed_offset: self.offset,
            ..Default::default()
        };
        let topic = TxnOffsetCommitRequestTopic {
            name: Text::from_static(INPUT),
            partitions: vec![partition],
            ..Default::default()
        };
        let ask = TxnOffsetCommitRequest {
            transactional_id: self.name.clone(),
            group_id: Text::from_static(GROUP),
            producer_id: self.id,
            producer_epoch: self.epoch,
            topics: vec![topic],
            ..Default::default()
        };
        let version = if self.protocol < 2 { 4 } else { 5 };
        let connection = &mut self.connection;
        patiently("TxnOffsetCommit", || {
            let answer = connection.call(&ask, version)?;
            let code = answer.topics.first().and_then(|topic| topic.partitions.first());
            Ok((code.map_or(0, |partition| partition.error_code), ()))
        })
    }

    fn end(&mut self) -> Result<(), String> {
        let ask = EndTxnRequest {
            transactional_id: self.name.clone(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed: true,
            ..Default::default()
        };
        let version = if self.protocol < 2 { 4 } else { 5 };
        let connection = &mut self.connection;
        let answer = patiently("EndTxn", || {
            let answer = connection.call(&ask, version)?;
            Ok((answer.error_code, answer))
        })?;
        if self.protocol >= 2 && !self.connection.is_null() {
            (self.id, self.epoch, self.sequence) = (answer.producer_id, answer.producer_epoch, 0);
        }
        Ok(())
    }

    /// Asks the broker for the offset that the last transaction committed.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        if self.connection.is_null() || self.offset == 0 {
            return Ok(());
        }
        let found = crate::setup::committed(&mut self.connection, self.partition)?;
        if found == self.offset {
            return Ok(());
        }
        Err(format!("{} committed offset {}, the broker says {found}", &*self.name, self.offset))
    }
}

/// Tries until the answer's code is 0, for as long as the code says that the broker is busy.
fn patiently<T>(what: &str, mut attempt: impl FnMut() -> Result<(i16, T), String>) -> Result<T, String> {
    const PASSING: [ErrorCode; 4] = [
        ErrorCode::CONCURRENT_TRANSACTIONS,
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ErrorCode::NOT_COORDINATOR,
    ];
    let begun = Instant::now();
    loop {
        let (code, answer) = attempt()?;
        if code == 0 {
            return Ok(answer);
        }
        if !PASSING.contains(&ErrorCode(code)) || begun.elapsed() > BUSY {
            return Err(format!("{what} answered error {code}"));
        }
        sleep(RETRY);
    }
}
