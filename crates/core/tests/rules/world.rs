//! A shard with a log in memory: what a host does, without bytes.

use crate::support::{Answer, Tickets, input};
use bytes::Bytes;
use ottla_core::catalog::{CreateTopics, DeleteTopics, NewTopic, TopicRef};
use ottla_core::config::Settings;
use ottla_core::groups::MemberRef;
use ottla_core::offsets::{NewOffset, StageOffsets, TopicOffsets};
use ottla_core::partitions::{
    AppendResult, DeleteRecords, DeleteRecordsError, Produce, ProduceBatch, ProduceError,
};
use ottla_core::partitions::{Isolation, OutOfRange, ReadPlan};
use ottla_core::transactions::{AddPartitionsToTxn, EndTxn, InitProducerId};
use ottla_core::transactions::{EndError, InitError, TransactionCheck, TransactionClaim, TransactionError};
use ottla_core::{Effect, Effects, Input, RecordPosition, Rejection, Shard};
use ottla_types::record::{LogRecord, Marker, PartitionRecord, TransactionRecord};
use ottla_types::{
    BatchSummary, LogPosition, Millis, Offset, ProducerEpoch, ProducerId, TimestampType, TopicId,
    TopicPartition,
};
use std::collections::BTreeMap;

pub(crate) type Owner = (ProducerId, ProducerEpoch);

/// A shard, its log and its clock.
pub(crate) struct World {
    pub(crate) shard: Shard,
    pub(crate) settings: Settings,
    pub(crate) log: Vec<(RecordPosition, LogRecord)>,
    pub(crate) now: Millis,
    end: u64,
    pub(crate) advanced: Vec<TopicPartition>,
    /// How many more records the log takes; none if it takes all.
    room: Option<usize>,
}

/// Partition `partition` of topic number `topic`.
pub(crate) fn at(topic: u8, partition: i32) -> TopicPartition {
    TopicPartition { topic: topic_id(topic), partition }
}

/// Ids come in no order, as random ones do.
pub(crate) fn topic_id(topic: u8) -> TopicId {
    TopicId([topic.reverse_bits(); 16])
}

pub(crate) fn owner(id: i64, epoch: i16) -> Owner {
    (ProducerId(id), ProducerEpoch(epoch))
}

/// A batch of `count` records of an owner from sequence `first` on.
pub(crate) fn batch(owner: Owner, first: i32, count: i32, transactional: bool) -> BatchSummary {
    BatchSummary {
        size: 60 + 10 * count as u32,
        last_offset_delta: count - 1,
        record_count: count,
        base_timestamp: Millis(1_000_000),
        max_timestamp: Millis(1_000_000),
        timestamp_type: TimestampType::CreateTime,
        producer_id: owner.0,
        producer_epoch: owner.1,
        base_sequence: first,
        transactional,
        control: false,
    }
}

pub(crate) fn plain(count: i32) -> BatchSummary {
    batch((ProducerId::NONE, ProducerEpoch::NONE), -1, count, false)
}

impl World {
    /// A world with topic number 1, of three partitions.
    pub(crate) fn new() -> World {
        let mut world = World::with(&[]);
        world.create_topic(1, 3, &[]);
        world
    }

    pub(crate) fn with(configs: &[(&str, &str)]) -> World {
        let configs: BTreeMap<_, _> =
            configs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let settings = Settings::from_configs(&configs).unwrap_or_else(|error| panic!("{error:?}"));
        let shard = Shard::new(settings.clone());
        World {
            shard,
            settings,
            log: Vec::new(),
            now: Millis(1_000_000),
            end: 4096,
            advanced: Vec::new(),
            room: None,
        }
    }

    pub(crate) fn create_topic(&mut self, topic: u8, partitions: i32, configs: &[(&str, &str)]) {
        let configs =
            configs.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect();
        let new = NewTopic {
            name: format!("topic-{topic}"),
            id: topic_id(topic),
            partitions,
            replication_factor: 1,
            assignments: Vec::new(),
            configs,
        };
        self.ask(input(CreateTopics { topics: vec![new], validate_only: false }));
    }

    /// Steps without making anything durable; the answers.
    pub(crate) fn step(&mut self, input: Input) -> Vec<Answer> {
        let mut out = Effects::default();
        let mut tickets = Tickets::default();
        tickets.note(&input);
        self.shard.step(self.now, input, &mut out);
        let mut answers = Vec::new();
        for effect in out.drain() {
            match effect {
                Effect::Append(record) => {
                    if let Some(room) = &mut self.room {
                        let Some(left) = room.checked_sub(1) else {
                            self.shard.refused();
                            return answers;
                        };
                        *room = left;
                    }
                    self.append(record);
                }
                Effect::Reply(reply) => answers.push(tickets.open(reply).1),
                Effect::Advanced(partition) => self.advanced.push(partition),
            }
        }
        answers
    }

    /// Appends a record and applies it.
    pub(crate) fn append(&mut self, record: LogRecord) {
        let position = LogPosition(self.end);
        let mut payload = position;
        self.end += 64;
        let mut record = record;
        if let LogRecord::Partitions(PartitionRecord::BatchAppended(appended)) = &mut record {
            payload = LogPosition(self.end);
            self.end += u64::from(appended.summary.size);
            appended.payload = Bytes::new();
        }
        let at = RecordPosition { position, payload };
        self.shard.apply(at, &record);
        self.log.push((at, record));
    }

    /// Steps while the log takes only so many more records, and refuses the rest as the host does: no answer comes.
    pub(crate) fn refuse(&mut self, room: usize, input: Input) {
        self.room = Some(room);
        assert_eq!(self.step(input), []);
        self.room = None;
    }

    /// Everything in the log is durable.
    pub(crate) fn sync(&mut self) {
        self.step(Input::Durable(LogPosition(self.end)));
    }

    /// Asks and syncs; the only answer.
    pub(crate) fn ask(&mut self, input: Input) -> Answer {
        let mut answers = self.step(input);
        self.sync();
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    /// Lets time pass and ticks until nothing is due.
    pub(crate) fn pass(&mut self, millis: i64) {
        self.now = self.now.after(Millis(millis));
        while self.shard.deadline().is_some_and(|due| due <= self.now) {
            self.step(Input::Tick);
        }
        self.sync();
    }

    /// A shard rebuilt from the log.
    pub(crate) fn replayed(&self) -> Shard {
        self.replayed_from(&[], 0)
    }

    /// A shard rebuilt from snapshot rows and the log from record number `tail` on.
    pub(crate) fn replayed_from(&self, rows: &[LogRecord], tail: usize) -> Shard {
        let mut shard = Shard::new(self.settings.clone());
        rows.iter().for_each(|row| shard.restore(row));
        self.log[tail..].iter().for_each(|(at, record)| shard.apply(*at, record));
        shard
    }

    /// A snapshot is all that is left of the log's beginning, and the process starts again.
    pub(crate) fn restart_from_snapshot(&mut self) {
        let rows = self.shard.snapshot();
        self.shard = self.replayed_from(&rows, self.log.len());
        self.sync();
    }

    /// What a crash and a restart leave.
    pub(crate) fn restart(&mut self) {
        self.shard = self.replayed();
        self.sync();
    }

    pub(crate) fn init(&mut self, id: &str, given: Option<Owner>) -> Result<Owner, InitError> {
        self.init_with(id, given, 60_000)
    }

    pub(crate) fn init_with(
        &mut self,
        id: &str,
        given: Option<Owner>,
        timeout: i64,
    ) -> Result<Owner, InitError> {
        match self.ask(initialise(id, given, timeout)) {
            Answer::InitProducerId(result) => kind(result),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn add(
        &mut self,
        id: &str,
        owner: Owner,
        partitions: &[TopicPartition],
    ) -> Vec<Result<(), TransactionError>> {
        self.claim(id, owner, partitions, TransactionCheck::Add)
    }

    pub(crate) fn claim(
        &mut self,
        id: &str,
        owner: Owner,
        partitions: &[TopicPartition],
        check: TransactionCheck,
    ) -> Vec<Result<(), TransactionError>> {
        match self.ask(adding(id, owner, partitions, check)) {
            Answer::AddPartitionsToTxn(results) => results.into_iter().map(kind).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn end(
        &mut self,
        id: &str,
        owner: Owner,
        commit: bool,
        bump: bool,
    ) -> Result<Owner, EndError> {
        match self.ask(ending(id, owner, commit, bump)) {
            Answer::EndTxn(result) => kind(result),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn produce(
        &mut self,
        id: Option<&str>,
        check: TransactionCheck,
        batches: &[(TopicPartition, BatchSummary)],
    ) -> Vec<Result<AppendResult, ProduceError>> {
        match self.ask(producing(id, check, batches)) {
            Answer::Produce(results) => results.into_iter().map(kind).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Produces one batch outside a transaction; its base offset.
    pub(crate) fn write(&mut self, at: TopicPartition, summary: BatchSummary) -> Result<i64, ProduceError> {
        let result = self.produce(None, TransactionCheck::Add, &[(at, summary)]).remove(0);
        result.map(|appended| appended.base_offset.0)
    }

    /// Deletes the records before an offset; the new start.
    pub(crate) fn delete_before(
        &mut self,
        at: TopicPartition,
        offset: i64,
    ) -> Result<i64, DeleteRecordsError> {
        let ask = DeleteRecords { partitions: vec![(at, Offset(offset))] };
        match self.ask(input(ask)) {
            Answer::DeleteRecords(mut results) => results.remove(0).map(|start| start.0),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn delete_topic(&mut self, topic: u8) {
        let topics = vec![TopicRef::Id(topic_id(topic))];
        self.ask(input(DeleteTopics { topics }));
    }

    pub(crate) fn read_committed(&self, at: TopicPartition, from: i64) -> ReadPlan {
        self.read(at, from, Isolation::Committed).unwrap_or_else(|error| panic!("{error:?}"))
    }

    pub(crate) fn read(
        &self,
        at: TopicPartition,
        from: i64,
        isolation: Isolation,
    ) -> Result<ReadPlan, OutOfRange> {
        let partition = self.shard.partitions().get(at).unwrap_or_else(|| panic!("no partition {at:?}"));
        partition.read(Offset(from), 1 << 20, true, isolation)
    }

    /// Produces one record in a transaction, at version 2; its offset.
    pub(crate) fn write_in(
        &mut self,
        id: &str,
        owner: Owner,
        at: TopicPartition,
        first: i32,
    ) -> Result<i64, ProduceError> {
        self.write_checked(id, owner, at, first, TransactionCheck::Add)
    }

    pub(crate) fn write_checked(
        &mut self,
        id: &str,
        owner: Owner,
        at: TopicPartition,
        first: i32,
        check: TransactionCheck,
    ) -> Result<i64, ProduceError> {
        let result = self.produce(Some(id), check, &[(at, batch(owner, first, 1, true))]).remove(0);
        result.map(|appended| appended.base_offset.0)
    }
}

/// A result with the kind of its refusal alone.
pub(crate) fn kind<T, E>(result: Result<T, Rejection<E>>) -> Result<T, E> {
    result.map_err(|refused| refused.error)
}

pub(crate) fn claim(id: &str, owner: Owner, check: TransactionCheck) -> TransactionClaim {
    TransactionClaim { transactional_id: id.to_owned(), producer_id: owner.0, producer_epoch: owner.1, check }
}

/// InitProducerId.
pub(crate) fn initialise(id: &str, given: Option<Owner>, timeout: i64) -> Input {
    input(InitProducerId { transactional_id: Some(id.to_owned()), timeout: Millis(timeout), given })
}

/// AddPartitionsToTxn.
pub(crate) fn adding(
    id: &str,
    owner: Owner,
    partitions: &[TopicPartition],
    check: TransactionCheck,
) -> Input {
    let claim = claim(id, owner, check);
    input(AddPartitionsToTxn { claim, partitions: partitions.to_vec() })
}

/// EndTxn.
pub(crate) fn ending(id: &str, owner: Owner, commit: bool, bump: bool) -> Input {
    input(EndTxn {
        transactional_id: id.to_owned(),
        producer_id: owner.0,
        producer_epoch: owner.1,
        commit,
        bump,
    })
}

/// Produce.
pub(crate) fn producing(
    id: Option<&str>,
    check: TransactionCheck,
    batches: &[(TopicPartition, BatchSummary)],
) -> Input {
    let batches = batches
        .iter()
        .map(|(partition, summary)| ProduceBatch {
            topic: TopicRef::Id(partition.topic),
            partition: partition.partition,
            keyless: false,
            earliest: summary.base_timestamp,
            stamped: false,
            summary: *summary,
            payload: Bytes::new(),
        })
        .collect();
    input(Produce { transactional_id: id.map(str::to_owned), check, batches })
}

/// TxnOffsetCommit at version 5 of one offset, of group "g" without members.
pub(crate) fn staging(id: &str, owner: Owner, at: TopicPartition, offset: i64) -> Input {
    let new = NewOffset {
        partition: at.partition,
        offset: Offset(offset),
        leader_epoch: -1,
        metadata: String::new(),
    };
    input(StageOffsets {
        transactional_id: id.to_owned(),
        producer_id: owner.0,
        producer_epoch: owner.1,
        verify_only: false,
        member: MemberRef {
            group_id: "g".to_owned(),
            generation: -1,
            member_id: String::new(),
            instance_id: None,
        },
        topics: vec![TopicOffsets { topic: TopicRef::Id(at.topic), offsets: vec![new] }],
    })
}

/// The marker of a record that ends a transaction.
pub(crate) fn marker(record: &LogRecord) -> Option<Marker> {
    match record {
        LogRecord::Transactions(TransactionRecord::TransactionEnded(ended)) => Some(ended.marker),
        _ => None,
    }
}
