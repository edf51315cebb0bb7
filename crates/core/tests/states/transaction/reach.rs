//! The states of a transactional id, each reached by real requests from an id that was used before.

use super::events::{Ask, Event, Pair, Place, Version, init};
use super::said::{Said, known};
use crate::world::{Start, World};
use ottla_core::offsets_partition;
use ottla_types::record::{
    LogRecord, ProducerIdsReserved, TransactionRecord, TransactionState, TransactionStatus,
    TransactionUpdated,
};
use ottla_types::{Millis, ProducerEpoch, ProducerId};

pub(crate) const ID: &str = "t";
/// The group that an open transaction has.
pub(crate) const GROUP: &str = "g";
/// One whose offsets are in another partition of the offsets topic.
pub(crate) const OTHER_GROUP: &str = "h";

/// The offset that a pair stages: another one in each transaction.
pub(crate) fn staged(pair: Pair) -> i64 {
    100_000 + i64::from(pair.1.0)
}

/// A state of a transactional id, as the table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Unknown,
    Empty,
    EmptyOwn,
    Open,
    OpenNew,
    Committed,
    CommittedNew,
    Aborted,
    AbortedNew,
    TimedOut,
    Fenced,
    Forced,
    Expired,
}

/// All of them, in the order of the columns.
pub(crate) const STATES: [State; 13] = [
    State::Unknown,
    State::Empty,
    State::EmptyOwn,
    State::Open,
    State::OpenNew,
    State::Committed,
    State::CommittedNew,
    State::Aborted,
    State::AbortedNew,
    State::TimedOut,
    State::Fenced,
    State::Forced,
    State::Expired,
];

impl State {
    pub(crate) fn column(self) -> &'static str {
        match self {
            State::Unknown => "-",
            State::Empty => "E",
            State::EmptyOwn => "E*",
            State::Open => "O",
            State::OpenNew => "O*",
            State::Committed => "C",
            State::CommittedNew => "C*",
            State::Aborted => "A",
            State::AbortedNew => "A*",
            State::TimedOut => "T",
            State::Fenced => "F",
            State::Forced => "M",
            State::Expired => "X",
        }
    }
}

/// A world in a state.
pub(crate) struct Scene {
    pub(crate) world: World,
    /// The owner.
    pub(crate) current: Pair,
    /// Who owned the id before the last bump.
    pub(crate) before: Pair,
    /// And before that.
    pub(crate) older: Pair,
    /// When the last transaction started.
    pub(crate) started: Millis,
    /// The offset that is committed; what is staged is another.
    committed: Option<i64>,
}

impl Scene {
    /// The offset that is committed once an open transaction has ended.
    pub(crate) fn offset(&self, commit: bool) -> Option<i64> {
        if commit { Some(staged(self.current)) } else { self.committed }
    }
}

/// The pair before the one whose epoch is given: an epoch of 0 comes of a producer id whose epochs are used up.
fn earlier(epoch: i16) -> Pair {
    match epoch {
        0 => (ProducerId(6), ProducerEpoch(32766)),
        _ => (ProducerId(7), ProducerEpoch(epoch - 1)),
    }
}

/// A world in which the id has the state and its owner the epoch.
pub(crate) fn reach(state: State, epoch: i16, start: Start) -> Scene {
    assert_ne!(offsets_partition(GROUP, 50), offsets_partition(OTHER_GROUP, 50));
    let mut world = World::new();
    let before = earlier(epoch);
    world.append(LogRecord::Transactions(TransactionRecord::ProducerIdsReserved(ProducerIdsReserved {
        next: ProducerId(1000),
    })));
    if state != State::Unknown {
        world.append(LogRecord::Transactions(TransactionRecord::TransactionUpdated(used(before))));
    }
    bump(state, before, &mut world);
    let current = match known(&world) {
        Some(state) => (state.producer_id, state.epoch),
        None => (ProducerId(7), ProducerEpoch(epoch)),
    };
    assert_eq!(current.1.0, epoch);
    go_on(state, current, &mut world);
    let started = known(&world).map_or(Millis::NONE, |state| state.started);
    let committed = match state {
        State::OpenNew => Some(staged(before)),
        _ => None,
    };
    if state == State::Expired {
        world.pass(7 * 86_400_000);
        assert_eq!(known(&world), None);
    }
    let older = if before.1.0 == 0 { earlier(0) } else { (before.0, ProducerEpoch(before.1.0 - 1)) };
    Scene { world: world.started(start), current, before, older, started, committed }
}

/// From the pair before to the current one.
fn bump(state: State, before: Pair, world: &mut World) {
    match state {
        State::Unknown => {}
        State::Empty | State::Open | State::Committed | State::Aborted => ok(world.ask(init(None)).into()),
        State::EmptyOwn => ok(world.ask(init(Some(before))).into()),
        State::OpenNew | State::CommittedNew | State::Expired => {
            begin(Version::New, before, world);
            ask(Ask::End(Version::New, true), before, world);
        }
        State::AbortedNew => {
            begin(Version::New, before, world);
            ask(Ask::End(Version::New, false), before, world);
        }
        State::TimedOut => {
            begin(Version::New, before, world);
            world.pass(60_001);
        }
        State::Fenced => {
            begin(Version::New, before, world);
            assert_eq!(Said::from(world.ask(init(None))).word(), "again");
        }
        State::Forced => {
            begin(Version::New, before, world);
            ok(Event::force(before, known(world).unwrap().started, world));
        }
    }
}

/// What the current pair does.
fn go_on(state: State, current: Pair, world: &mut World) {
    match state {
        State::Open => begin(Version::Old, current, world),
        State::OpenNew => begin(Version::New, current, world),
        State::Committed => {
            begin(Version::Old, current, world);
            ask(Ask::End(Version::Old, true), current, world);
        }
        State::Aborted => {
            begin(Version::Old, current, world);
            ask(Ask::End(Version::Old, false), current, world);
        }
        _ => {}
    }
}

/// A transaction with a partition and a group.
fn begin(version: Version, pair: Pair, world: &mut World) {
    if version == Version::Old {
        ask(Ask::Add(Place::In), pair, world);
        ask(Ask::Group(Place::In), pair, world);
    }
    ask(Ask::Send(version, Place::In), pair, world);
    ask(Ask::Stage(version, Place::In), pair, world);
}

fn ask(ask: Ask, pair: Pair, world: &mut World) {
    let input = ask.input(pair, world);
    ok(world.ask(input).into());
}

fn ok(said: Said) {
    assert_eq!(said.word(), "ok", "{said:?}");
}

/// An id that this pair was the last to initialise.
pub(crate) fn used((producer_id, epoch): Pair) -> TransactionUpdated {
    let state = TransactionState {
        transactional_id: ID.to_owned(),
        producer_id,
        previous_producer_id: if producer_id.0 == 7 { ProducerId(6) } else { ProducerId::NONE },
        epoch,
        last_epoch: ProducerEpoch::NONE,
        timeout: Millis(60_000),
        status: TransactionStatus::Empty,
        started: Millis::NONE,
        updated: Millis(1_000_000),
    };
    TransactionUpdated { state, partitions: vec![], offset_partitions: vec![] }
}
