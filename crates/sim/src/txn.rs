//! A transactional producer like those of real clients: it retries until it gets an answer, aborts after a failure, and
//! starts again when it is fenced.

use crate::client::{Care, Client, NoAnswer};
use crate::member::Committer;
use crate::place::{Place, TOPICS};
use crate::plan::ms;
use crate::records::{self, Fresh, Sender};
use crate::world::{World, count, rest};
use ottla_checker::OpId;
use ottla_wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use ottla_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use ottla_wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest,
    ProduceResponse, TxnOffsetCommitRequest,
};
use ottla_wire::{ErrorCode, Records};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// Why a step of a transaction did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No answer within the time: the outcome is unknown.
    Doubt,
    /// The transaction cannot continue and must be aborted.
    Abort,
    /// The generation of the group is over: abort, and join again.
    Rejoin,
    /// This producer ends.
    Over {
        /// Whether an earlier attempt of the same request may have succeeded.
        doubt: bool,
    },
}

/// Values for each place.
pub(crate) type Batches = BTreeMap<Place, Vec<Fresh>>;

/// How long a client retries.
const TRIES: Duration = Duration::from_secs(12);

/// See the module.
pub(crate) struct Producer {
    pub(crate) client: Client,
    id: String,
    /// Whether Produce and TxnOffsetCommit add to the transaction, and EndTxn raises the epoch.
    pub(crate) second: bool,
    timeout: u64,
    producer: i64,
    epoch: i16,
    sequences: BTreeMap<Place, i32>,
    added: BTreeSet<Place>,
    /// Something of this transaction was sent.
    begun: Option<Instant>,
    /// Other producers may have taken the id meanwhile.
    pub(crate) rivals: bool,
}

impl Producer {
    pub(crate) fn new(client: Client, id: String, second: bool, timeout: u64) -> Producer {
        Producer {
            client,
            id,
            second,
            timeout,
            producer: -1,
            epoch: -1,
            sequences: BTreeMap::new(),
            added: BTreeSet::new(),
            begun: None,
            rivals: false,
        }
    }

    /// Gets the producer id; the previous owner of the transactional id is fenced. `again` keeps it and asks for the
    /// next epoch.
    pub(crate) async fn start(&mut self, again: bool) -> Result<(), Trouble> {
        let request = InitProducerIdRequest {
            transactional_id: Some(self.id.as_str().into()),
            transaction_timeout_ms: self.timeout as i32,
            producer_id: if again { self.producer } else { -1 },
            producer_epoch: if again { self.epoch } else { -1 },
            ..Default::default()
        };
        let version = self.client.random.within(3..6) as i16;
        let settled = self.client.settle(&request, version, Care::Strict, self.until()).await;
        let settled = settled.map_err(|_| Trouble::Doubt)?;
        let answer = settled.answer;
        if answer.error_code != 0 {
            return Err(self.trouble(ErrorCode(answer.error_code), settled.doubt, "InitProducerId"));
        }
        (self.producer, self.epoch) = (answer.producer_id, answer.producer_epoch);
        self.forget();
        self.sequences.clear();
        Ok(())
    }

    /// Sends batches of values, one for each place, in one request, and notes where they landed.
    pub(crate) async fn produce(&mut self, op: OpId, batches: &Batches) -> Result<(), Trouble> {
        let places = self.deliver(batches).await?;
        let mut history = self.client.world.history();
        for (values, base) in batches.values().zip(places) {
            for (fresh, offset) in values.iter().zip(base..) {
                history.ack(op, fresh.value, offset);
            }
        }
        Ok(())
    }

    /// Sends batches in one request; where each of them landed.
    pub(crate) async fn deliver(&mut self, batches: &Batches) -> Result<Vec<i64>, Trouble> {
        self.begun.get_or_insert_with(Instant::now);
        if !self.second {
            self.add_partitions(batches.keys().copied().collect()).await?;
        }
        let request = self.produce_request(batches);
        let version = self.client.random.within(if self.second { 12..14 } else { 8..12 }) as i16;
        let care = if self.second { Care::Ghost } else { Care::Late };
        let until = self.until_impatient();
        let settled = self.client.settle(&request, version, care, until).await;
        let settled = settled.map_err(|_| Trouble::Doubt)?;
        let mut places = Vec::new();
        for (place, values) in batches {
            let Some(landed) = landed(&self.client.world, &settled.answer, *place) else {
                let what = "Produce is answered without a partition that was in it";
                self.client.world.find(format!("{}: {what}", self.client.name));
                return Err(Trouble::Over { doubt: true });
            };
            match ErrorCode(landed.error_code) {
                ErrorCode::NONE => {}
                code => return Err(self.trouble(code, settled.doubt, "Produce")),
            }
            *self.sequences.entry(*place).or_default() += values.len() as i32;
            places.push(landed.base_offset);
        }
        Ok(places)
    }

    fn produce_request(&mut self, batches: &Batches) -> ProduceRequest {
        let sender = Sender { id: self.producer, epoch: self.epoch, transactional: true };
        let mut topics: Vec<TopicProduceData> = Vec::new();
        for (place, values) in batches {
            let sequence = self.sequences.get(place).copied().unwrap_or(0);
            let batch = records::batch(sender, sequence, values, &mut self.client.random);
            if topics.last().is_none_or(|topic| topic.name.as_str() != place.name()) {
                let topic_id = self.client.world.topic_id(place.topic);
                let name = place.name().into();
                topics.push(TopicProduceData { name, topic_id, ..Default::default() });
            }
            if let Some(topic) = topics.last_mut() {
                topic.partition_data.push(PartitionProduceData {
                    index: place.partition,
                    records: Some(Records::from(batch)),
                    ..Default::default()
                });
            }
        }
        ProduceRequest {
            transactional_id: Some(self.id.as_str().into()),
            acks: -1,
            timeout_ms: 5000,
            topic_data: topics,
            ..Default::default()
        }
    }

    /// Adds new partitions to the transaction.
    async fn add_partitions(&mut self, mut places: BTreeSet<Place>) -> Result<(), Trouble> {
        places.retain(|place| !self.added.contains(place));
        if places.is_empty() {
            return Ok(());
        }
        let topics = (0..TOPICS.len()).filter_map(|topic| {
            let here = places.iter().filter(|place| place.topic == topic);
            let partitions: Vec<i32> = here.map(|place| place.partition).collect();
            let name = TOPICS[topic].into();
            (!partitions.is_empty()).then(|| AddPartitionsToTxnTopic {
                name,
                partitions: partitions.into(),
                ..Default::default()
            })
        });
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.id.as_str().into(),
            v3_and_below_producer_id: self.producer,
            v3_and_below_producer_epoch: self.epoch,
            v3_and_below_topics: topics.collect(),
            ..Default::default()
        };
        let version = self.client.random.within(0..4) as i16;
        let settled = self.client.settle(&request, version, Care::Strict, self.until()).await;
        let settled = settled.map_err(|_| Trouble::Doubt)?;
        let results = settled.answer.results_by_topic_v3_and_below.iter();
        let codes = results.flat_map(|topic| &topic.results_by_partition);
        let mut codes = codes.map(|result| ErrorCode(result.partition_error_code));
        if let Some(code) = codes.find(|code| *code != ErrorCode::NONE) {
            return Err(self.trouble(code, settled.doubt, "AddPartitionsToTxn"));
        }
        self.added.append(&mut places);
        Ok(())
    }

    /// Puts a group's next offsets into the transaction.
    pub(crate) async fn offsets(
        &mut self,
        committer: &Committer,
        offsets: &[(Place, i64)],
    ) -> Result<(), Trouble> {
        self.begun.get_or_insert_with(Instant::now);
        if !self.second {
            self.add_group(&committer.group).await?;
        }
        let topics = offsets.iter().map(|(place, offset)| TxnOffsetCommitRequestTopic {
            name: place.name().into(),
            partitions: vec![TxnOffsetCommitRequestPartition {
                partition_index: place.partition,
                committed_offset: *offset,
                ..Default::default()
            }],
            ..Default::default()
        });
        let request = TxnOffsetCommitRequest {
            transactional_id: self.id.as_str().into(),
            group_id: committer.group.as_str().into(),
            producer_id: self.producer,
            producer_epoch: self.epoch,
            generation_id_or_member_epoch: committer.generation,
            member_id: committer.member.as_str().into(),
            group_instance_id: committer.instance.clone(),
            topics: topics.collect(),
            ..Default::default()
        };
        let version = if self.second { 5 } else { self.client.random.within(3..5) as i16 };
        let care = if self.second { Care::Ghost } else { Care::Strict };
        let settled = self.client.settle(&request, version, care, self.until()).await;
        let settled = settled.map_err(|_| Trouble::Doubt)?;
        let rows = settled.answer.topics.iter().flat_map(|topic| &topic.partitions);
        let refused = rows.map(|row| ErrorCode(row.error_code)).find(|code| *code != ErrorCode::NONE);
        refused.map_or(Ok(()), |code| Err(self.trouble(code, settled.doubt, "TxnOffsetCommit")))
    }

    async fn add_group(&mut self, group: &str) -> Result<(), Trouble> {
        let request = AddOffsetsToTxnRequest {
            transactional_id: self.id.as_str().into(),
            producer_id: self.producer,
            producer_epoch: self.epoch,
            group_id: group.into(),
            ..Default::default()
        };
        let version = self.client.random.within(0..4) as i16;
        let settled = self.client.settle(&request, version, Care::Strict, self.until()).await;
        let settled = settled.map_err(|_| Trouble::Doubt)?;
        match ErrorCode(settled.answer.error_code) {
            ErrorCode::NONE => Ok(()),
            code => Err(self.trouble(code, settled.doubt, "AddOffsetsToTxn")),
        }
    }

    /// Ends the transaction; without a request if nothing was sent in it.
    pub(crate) async fn end(&mut self, commit: bool) -> Result<(), Trouble> {
        if self.begun.is_none() {
            return Ok(());
        }
        let request = EndTxnRequest {
            transactional_id: self.id.as_str().into(),
            producer_id: self.producer,
            producer_epoch: self.epoch,
            committed: commit,
            ..Default::default()
        };
        let version = if self.second { 5 } else { self.client.random.within(0..5) as i16 };
        let care = if self.second { Care::Ghost } else { Care::Strict };
        let settled = self.client.settle(&request, version, care, self.until()).await;
        let settled = settled.map_err(|NoAnswer { doubt }| Trouble::Over { doubt })?;
        let answer = settled.answer;
        match ErrorCode(answer.error_code) {
            ErrorCode::NONE => {}
            // Nothing of it may have reached the broker: then there is nothing to abort.
            ErrorCode::INVALID_TXN_STATE if !commit && !self.second => {}
            code => return Err(self.trouble(code, settled.doubt, "EndTxn")),
        }
        count(if commit { &self.client.world.figures.commits } else { &self.client.world.figures.aborts });
        if self.second {
            (self.producer, self.epoch) = (answer.producer_id, answer.producer_epoch);
            self.sequences.clear();
        }
        self.forget();
        Ok(())
    }

    /// Aborts after a failure. At version 1 it is then unknown which sequence numbers arrived: a new epoch starts them
    /// afresh.
    pub(crate) async fn abort(&mut self) -> Result<(), Trouble> {
        self.end(false).await?;
        if !self.second {
            // What it gave up may arrive before the new epoch is there.
            if self.client.random.per_mille(500) {
                rest(&mut self.client.random, 8000).await;
            }
            self.start(true).await?;
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.added.clear();
        self.begun = None;
    }

    fn until(&self) -> Instant {
        Instant::now() + TRIES
    }

    /// Some producers give up a batch after one attempt: it may arrive when its transaction is over.
    fn until_impatient(&mut self) -> Instant {
        if self.client.random.per_mille(200) { Instant::now() } else { self.until() }
    }

    /// The reaction to an error code. Some codes must never be sent to a client without a fault.
    fn trouble(&mut self, code: ErrorCode, doubt: bool, what: &str) -> Trouble {
        let world = self.client.world.clone();
        world.say(format_args!("{}: {what} is answered {}", self.client.name, code.name()));
        match code {
            ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::REBALANCE_IN_PROGRESS
            | ErrorCode::FENCED_INSTANCE_ID => return Trouble::Rejoin,
            ErrorCode::TRANSACTION_ABORTABLE => return Trouble::Abort,
            _ => {}
        }
        let fencing = match code {
            ErrorCode::INVALID_PRODUCER_EPOCH | ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_TXN_STATE => {
                true
            }
            // After the last epoch the producer id changes too.
            ErrorCode::INVALID_PRODUCER_ID_MAPPING => world.plan.exhausted_epochs,
            _ => false,
        };
        if fencing {
            count(&world.figures.fenced);
        }
        if !(fencing && (self.rivals || world.jumped() || self.ran_out())) {
            let version = if self.second { 2 } else { 1 };
            world.find(format!(
                "{}: {what} at version {version} is answered {}, which a client that did nothing wrong must not see",
                self.client.name,
                code.name()
            ));
        }
        Trouble::Over { doubt }
    }

    /// Whether the broker may have aborted the transaction because it took too long.
    fn ran_out(&self) -> bool {
        self.begun.is_some_and(|begun| begun.elapsed() + ms(1) >= ms(self.timeout))
    }
}

/// The row of a partition in an answer.
fn landed<'a>(
    world: &World,
    answer: &'a ProduceResponse,
    place: Place,
) -> Option<&'a PartitionProduceResponse> {
    let here = |topic: &&TopicProduceResponse| {
        topic.name.as_str() == place.name() || topic.topic_id == world.topic_id(place.topic)
    };
    let topic = answer.responses.iter().find(here)?;
    topic.partition_responses.iter().find(|row| row.index == place.partition)
}
