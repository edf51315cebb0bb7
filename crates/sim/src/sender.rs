//! An idempotent producer without transactions: up to five batches in flight, which are sent again in order until they
//! are acknowledged.

use crate::client::{Care, Client, PATIENCE, is_passing};
use crate::place::{IN, LOG, Place};
use crate::random::Random;
use crate::records::{self, Fresh};
use crate::world::{World, rest};
use bytes::Bytes;
use ottla_checker::{Kind, OpId, Outcome};
use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::messages::{InitProducerIdRequest, ProduceRequest};
use ottla_wire::{ErrorCode, Records};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Batches in flight.
const WINDOW: usize = 5;
/// How long a client retries.
const TRIES: Duration = Duration::from_secs(12);

struct Outgoing {
    place: Place,
    bytes: Bytes,
    values: Vec<Fresh>,
    version: i16,
}

struct Sender {
    client: Client,
    producer: i64,
    epoch: i16,
    sequences: BTreeMap<Place, i32>,
}

/// The answer to a batch.
enum Answer {
    Landed(i64),
    Again,
    Refused(ErrorCode),
    Missing,
}

/// Performs its operations, and starts again with a new epoch whenever it does not know the outcome of a batch.
pub(crate) async fn run(world: Arc<World>, number: u64, mut random: Random) {
    let mut left = world.plan.crew.ops;
    let mut life = 0;
    while left > 0 {
        life += 1;
        let client = Client::new(&world, format!("s{number}.{life}"), random.fork());
        let mut sender = Sender { client, producer: -1, epoch: -1, sequences: BTreeMap::new() };
        if !sender.start().await {
            rest(&mut random, 500).await;
            continue;
        }
        while left > 0 {
            left -= 1;
            rest(&mut random, 200).await;
            if !sender.operate().await && !sender.start().await {
                break;
            }
            if random.per_mille(world.plan.faults.clients) && !world.is_calm() {
                break;
            }
        }
    }
}

impl Sender {
    /// Gets a producer id, or the next epoch of the one it has.
    async fn start(&mut self) -> bool {
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: 1000,
            producer_id: self.producer,
            producer_epoch: self.epoch,
            ..Default::default()
        };
        let version = self.client.random.within(3..6) as i16;
        let until = Instant::now() + TRIES;
        let Ok(settled) = self.client.settle(&request, version, Care::Strict, until).await else {
            return false;
        };
        (self.producer, self.epoch) = (settled.answer.producer_id, settled.answer.producer_epoch);
        self.sequences.clear();
        settled.answer.error_code == 0
    }

    /// Sends some batches. False if it does not know their outcome.
    async fn operate(&mut self) -> bool {
        let world = Arc::clone(&self.client.world);
        let op = {
            let mut history = world.history();
            let process = history.process(&self.client.name);
            history.begin(process, Kind::Send, world.stamp())
        };
        let mut queue = VecDeque::new();
        for _ in 0..self.client.random.within(1..9) {
            queue.push_back(self.outgoing(op));
        }
        let outcome = self.deliver(op, queue).await;
        world.history().end(op, outcome, world.stamp());
        outcome == Outcome::Ok
    }

    fn outgoing(&mut self, op: OpId) -> Outgoing {
        let world = Arc::clone(&self.client.world);
        let random = &mut self.client.random;
        let topic = random.pick(&[IN, IN, LOG]);
        let place = Place { topic, partition: random.within(0..world.plan.partitions as u64) as i32 };
        let values = world.fresh_values(random.within(1..4));
        let key = world.key(place);
        values.iter().for_each(|fresh| world.history().write(op, key, fresh.value));
        let sequence = self.sequences.entry(place).or_default();
        let sender = records::Sender { id: self.producer, epoch: self.epoch, transactional: false };
        let bytes = records::batch(sender, *sequence, &values, random);
        *sequence += values.len() as i32;
        Outgoing { place, bytes, values, version: random.within(3..14) as i16 }
    }

    async fn deliver(&mut self, op: OpId, mut queue: VecDeque<Outgoing>) -> Outcome {
        let until = Instant::now() + TRIES;
        let mut tried = false;
        while !queue.is_empty() {
            if tried && Instant::now() >= until {
                self.client.hang_up();
                return Outcome::Info;
            }
            tried = true;
            let round = queue.len().min(WINDOW);
            let Some(answers) = self.round(&queue, round).await else {
                rest(&mut self.client.random, 150).await;
                continue;
            };
            let before = queue.len();
            if !self.note(op, &mut queue, answers) {
                return Outcome::Info;
            }
            if queue.len() == before {
                // Virtual time must advance, or a temporary refusal would never end.
                rest(&mut self.client.random, 150).await;
            }
        }
        Outcome::Ok
    }

    /// Sends the first batches of the queue and takes their answers. None if not even one was sent.
    async fn round(&mut self, queue: &VecDeque<Outgoing>, round: usize) -> Option<Vec<Answer>> {
        let mut posted = 0;
        for outgoing in queue.iter().take(round) {
            let request = request(&self.client.world, outgoing);
            if self.client.post(&request, outgoing.version, Care::Ghost).await.is_err() {
                break;
            }
            posted += 1;
        }
        let mut answers = Vec::new();
        for outgoing in queue.iter().take(posted) {
            let received = self.client.receive::<ProduceRequest>(outgoing.version, PATIENCE).await;
            let landed = received.ok().and_then(|answer| {
                let row = answer.responses.first()?.partition_responses.first()?;
                Some((ErrorCode(row.error_code), row.base_offset))
            });
            answers.push(match landed {
                None => Answer::Missing,
                Some((ErrorCode::NONE, offset)) => Answer::Landed(offset),
                Some((code, _)) if is_passing(code) => Answer::Again,
                Some((code, _)) => Answer::Refused(code),
            });
        }
        (posted > 0).then_some(answers)
    }

    /// Removes the acknowledged batches from the queue. False if the producer cannot continue.
    fn note(&mut self, op: OpId, queue: &mut VecDeque<Outgoing>, answers: Vec<Answer>) -> bool {
        let world = Arc::clone(&self.client.world);
        let mut kept = VecDeque::new();
        // After a batch that is not acknowledged yet, later batches of its partition are out of order.
        let mut waiting: Vec<Place> = Vec::new();
        let mut goes_on = true;
        for answer in answers {
            let Some(outgoing) = queue.pop_front() else { break };
            match answer {
                Answer::Landed(offset) => {
                    let mut history = world.history();
                    for (fresh, offset) in outgoing.values.iter().zip(offset..) {
                        history.ack(op, fresh.value, offset);
                    }
                    continue;
                }
                Answer::Refused(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
                    if waiting.contains(&outgoing.place) => {}
                Answer::Refused(code) => {
                    goes_on = false;
                    world.find(format!(
                        "{}: Produce to {:?} is answered {}, which a client that did nothing wrong must not see",
                        self.client.name,
                        outgoing.place,
                        code.name()
                    ));
                }
                Answer::Again | Answer::Missing => {}
            }
            waiting.push(outgoing.place);
            kept.push_back(outgoing);
        }
        while let Some(outgoing) = kept.pop_back() {
            queue.push_front(outgoing);
        }
        goes_on
    }
}

fn request(world: &World, outgoing: &Outgoing) -> ProduceRequest {
    let partition = PartitionProduceData {
        index: outgoing.place.partition,
        records: Some(Records::from(outgoing.bytes.clone())),
        ..Default::default()
    };
    let topic = TopicProduceData {
        name: outgoing.place.name().into(),
        topic_id: world.topic_id(outgoing.place.topic),
        partition_data: vec![partition],
        ..Default::default()
    };
    ProduceRequest { acks: -1, timeout_ms: 5000, topic_data: vec![topic], ..Default::default() }
}
