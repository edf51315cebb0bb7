//! What a partition may know of a producer, each reached by real requests.

use crate::support::Answer;
use crate::transaction::events::{self, Ask, Pair, Place, Version};
use crate::transaction::reach::used;
use crate::transaction::said::{Said, known};
use crate::world::{Start, World, at};
use ottla_core::Input;
use ottla_core::partitions::PartitionCommand;
use ottla_types::record::{
    LogRecord, ProducerIdsReserved, ProducerState, TransactionRecord, TransactionUpdated,
};
use ottla_types::{ProducerEpoch, ProducerId};

/// Batches that the partition saw: two more than it remembers.
pub(crate) const BATCHES: i32 = 7;
/// Records in each of them.
pub(crate) const COUNT: i32 = 2;

/// What the partition knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    None,
    Joined,
    Idle,
    Open,
    Ended,
    Bumped,
    EndedJoined,
    BumpedJoined,
}

/// How a batch is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Old,
    New,
}

impl Step {
    pub(crate) const ALL: [Step; 8] = [
        Step::None,
        Step::Joined,
        Step::Idle,
        Step::Open,
        Step::Ended,
        Step::Bumped,
        Step::EndedJoined,
        Step::BumpedJoined,
    ];

    pub(crate) fn column(self) -> &'static str {
        match self {
            Step::None => "none",
            Step::Joined => "joined",
            Step::Idle => "idle",
            Step::Open => "open",
            Step::Ended => "ended",
            Step::Bumped => "bumped",
            Step::EndedJoined => "ended+",
            Step::BumpedJoined => "bumped+",
        }
    }

    /// The partition remembers the batches of the epoch that it knows.
    pub(crate) fn remembers(self) -> bool {
        match self {
            Step::Idle | Step::Open | Step::Ended | Step::EndedJoined => true,
            Step::None | Step::Joined | Step::Bumped | Step::BumpedJoined => false,
        }
    }

    /// A transaction of the producer is open.
    fn is_open(self) -> bool {
        match self {
            Step::Joined | Step::Open | Step::EndedJoined | Step::BumpedJoined => true,
            Step::None | Step::Idle | Step::Ended | Step::Bumped => false,
        }
    }
}

impl Kind {
    /// A batch of a pair: its first sequence number and its count.
    pub(crate) fn batch(self, pair: Pair, (first, count): (i32, i32)) -> Input {
        let version = if self == Kind::Old { Version::Old } else { Version::New };
        let mut input = events::send(pair, version, 0, first);
        let Input::Partitions(PartitionCommand::Produce(ask, _)) = &mut input else { return input };
        let summary = &mut ask.batches[0].summary;
        (summary.record_count, summary.last_offset_delta) = (count, count - 1);
        summary.transactional = self != Kind::Plain;
        input
    }
}

/// The sequence number `count` after another: 0 follows 2147483647 (T-48). Does not use the code under test.
pub(crate) fn sequence_after(sequence: i32, count: i32) -> i32 {
    i32::try_from((i64::from(sequence) + i64::from(count)) % 2_147_483_648).unwrap()
}

pub(crate) struct Scene {
    pub(crate) world: World,
    step: Step,
    /// The owner; its epoch is what the partition knows, if it knows one.
    owner: Pair,
    /// The first sequence number that the partition saw.
    pub(crate) first: i32,
}

impl Scene {
    /// A pair whose epoch differs from the owner's by so much.
    pub(crate) fn pair(&self, by: i16) -> Pair {
        (self.owner.0, ProducerEpoch(self.owner.1.0 + by))
    }

    /// The owner gets its next epoch, if no transaction is open; at versions 0 and 1 it adds the partition.
    pub(crate) fn raise(&self, kind: Kind, world: &mut World) {
        if kind == Kind::Plain || self.step.is_open() {
            return;
        }
        assert_eq!(Said::from(world.ask(events::init(None))).word(), "ok");
        if kind == Kind::Old {
            ask(Ask::Add(Place::In), self.pair(1), world);
        }
    }

    /// The offset of a batch that the partition saw.
    pub(crate) fn offset_of(&self, batch: (i32, i32)) -> Option<i64> {
        let nth = (0..BATCHES).find(|n| (sequence_after(self.first, n * COUNT), COUNT) == batch);
        nth.map(|n| i64::from(n * COUNT))
    }
}

/// A world in which the partition knows this, of an owner that began with this epoch and sequence number.
pub(crate) fn reach(step: Step, epoch: i16, first: i32) -> Scene {
    let mut world = World::new();
    world.append(LogRecord::Transactions(TransactionRecord::ProducerIdsReserved(ProducerIdsReserved {
        next: ProducerId(1000),
    })));
    let pair = (ProducerId(7), ProducerEpoch(epoch));
    let TransactionUpdated { state, partitions, offset_partitions } = used(pair);
    world.append(LogRecord::Transactions(TransactionRecord::TransactionUpdated(TransactionUpdated {
        state,
        partitions,
        offset_partitions,
    })));
    let kind = match step {
        Step::None => None,
        Step::Joined => {
            ask(Ask::Add(Place::In), pair, &mut world);
            None
        }
        Step::Idle => Some(Kind::Plain),
        Step::Open | Step::Ended | Step::Bumped | Step::EndedJoined | Step::BumpedJoined => Some(Kind::New),
    };
    for n in 0..BATCHES {
        let Some(kind) = kind else { break };
        if n == 0 && kind == Kind::New {
            // Only so may the first sequence number of a transaction be another than zero.
            ask(Ask::Add(Place::In), pair, &mut world);
        }
        let kind = if kind == Kind::New { Kind::Old } else { kind };
        let answer = world.ask(kind.batch(pair, (sequence_after(first, n * COUNT), COUNT)));
        assert!(matches!(&answer, Answer::Produce(results) if results[0].is_ok()), "{answer:?}");
    }
    match step {
        Step::None | Step::Joined | Step::Idle | Step::Open => {}
        Step::Ended | Step::EndedJoined => ask(Ask::End(Version::Old, true), pair, &mut world),
        Step::Bumped | Step::BumpedJoined => ask(Ask::End(Version::New, true), pair, &mut world),
    }
    let state = known(&world).unwrap();
    let owner = (state.producer_id, state.epoch);
    if let Step::EndedJoined | Step::BumpedJoined = step {
        ask(Ask::Add(Place::In), owner, &mut world);
    }
    Scene { world: world.started(Start::Live), step, owner, first }
}

fn ask(ask: Ask, pair: Pair, world: &mut World) {
    let said = Said::from(world.ask(ask.input(pair, world)));
    assert_eq!(said.word(), "ok", "{said:?}");
}

/// What the partition knows of a producer.
pub(crate) fn knowledge(world: &World, id: ProducerId) -> Option<ProducerState> {
    let partition = world.shard.partitions().get(at(0)).unwrap();
    partition.producers().find(|known| known.producer_id == id).cloned()
}
