//! What can happen to a transactional id, and who can ask for it.

use super::reach::{GROUP, ID, OTHER_GROUP, Scene, staged};
use super::said::{Said, send_sequence};
use crate::support::input;
use crate::world::{World, at};
use bytes::Bytes;
use ottla_core::catalog::TopicRef;
use ottla_core::groups::MemberRef;
use ottla_core::offsets::{NewOffset, StageOffsets, TopicOffsets};
use ottla_core::partitions::{Produce, ProduceBatch};
use ottla_core::transactions::{
    AbortTransaction, AddOffsetsToTxn, AddPartitionsToTxn, EndTxn, InitProducerId,
};
use ottla_core::transactions::{Transaction, TransactionCheck, TransactionClaim};
use ottla_core::{Input, offsets_partition};
use ottla_types::{BatchSummary, Millis, Offset, ProducerEpoch, ProducerId, TimestampType};

pub(crate) type Pair = (ProducerId, ProducerEpoch);

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A request, and who sends it.
    Ask(Ask, Who),
    /// The transaction's timeout passes.
    Timeout,
    /// Seven days pass.
    Expiry,
    /// An administrator aborts exactly the transaction that is open.
    ForcedAbort,
    /// The process starts again.
    Restart,
}

/// A request, with the version of its rules: 0 (and 1) or 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Init,
    Add(Place),
    Verify(Place),
    Group(Place),
    Stage(Version, Place),
    Send(Version, Place),
    End(Version, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Old,
    New,
}

/// Whether an open transaction has the partition already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    In,
    Out,
}

/// The asker's pair, seen from the owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    None,
    Current,
    Before,
    Older,
    Ahead,
    Other,
}

const VERSIONS: [Version; 2] = [Version::Old, Version::New];
const PLACES: [Place; 2] = [Place::In, Place::Out];
const ASKERS: [Who; 5] = [Who::Current, Who::Before, Who::Older, Who::Ahead, Who::Other];

/// Every event.
pub(crate) fn events() -> Vec<Event> {
    let mut asks = vec![Ask::Init];
    for place in PLACES {
        asks.extend([Ask::Add(place), Ask::Verify(place), Ask::Group(place)]);
        asks.extend(
            VERSIONS.into_iter().flat_map(|version| [Ask::Stage(version, place), Ask::Send(version, place)]),
        );
    }
    asks.extend(VERSIONS.into_iter().flat_map(|version| [Ask::End(version, true), Ask::End(version, false)]));
    let mut events = vec![Event::Ask(Ask::Init, Who::None)];
    events.extend(asks.into_iter().flat_map(|ask| ASKERS.map(|who| Event::Ask(ask, who))));
    events.extend([Event::Timeout, Event::Expiry, Event::ForcedAbort, Event::Restart]);
    events
}

impl Ask {
    pub(crate) fn is_init(self) -> bool {
        self == Ask::Init
    }

    pub(crate) fn commits(self) -> bool {
        matches!(self, Ask::End(_, true))
    }

    fn words(self) -> String {
        match self {
            Ask::Init => "init".to_owned(),
            Ask::Add(place) => format!("add {}", place.word()),
            Ask::Verify(place) => format!("verify {}", place.word()),
            Ask::Group(place) => format!("group {}", place.word()),
            Ask::Stage(version, place) => format!("stage {} {}", version.word(), place.word()),
            Ask::Send(version, place) => format!("send {} {}", version.word(), place.word()),
            Ask::End(version, true) => format!("commit {}", version.word()),
            Ask::End(version, false) => format!("abort {}", version.word()),
        }
    }
}

impl Version {
    fn word(self) -> &'static str {
        match self {
            Version::Old => "0",
            Version::New => "2",
        }
    }

    fn check(self) -> TransactionCheck {
        match self {
            Version::Old => TransactionCheck::Verify,
            Version::New => TransactionCheck::Add,
        }
    }
}

impl Place {
    fn word(self) -> &'static str {
        match self {
            Place::In => "in",
            Place::Out => "out",
        }
    }

    pub(crate) fn partition(self) -> i32 {
        match self {
            Place::In => 0,
            Place::Out => 1,
        }
    }

    fn group(self) -> &'static str {
        match self {
            Place::In => GROUP,
            Place::Out => OTHER_GROUP,
        }
    }
}

impl Who {
    fn word(self) -> &'static str {
        match self {
            Who::None => "none",
            Who::Current => "current",
            Who::Before => "before",
            Who::Older => "older",
            Who::Ahead => "ahead",
            Who::Other => "other",
        }
    }
}

impl Event {
    /// The words of its row.
    pub(crate) fn words(self) -> String {
        match self {
            Event::Ask(ask, who) => format!("{} {}", ask.words(), who.word()),
            Event::Timeout => "timeout".to_owned(),
            Event::Expiry => "expiry".to_owned(),
            Event::ForcedAbort => "forced abort".to_owned(),
            Event::Restart => "restart".to_owned(),
        }
    }

    /// The asker's pair.
    pub(crate) fn pair(self, scene: &Scene) -> Pair {
        match self {
            Event::Ask(_, Who::Before) => scene.before,
            Event::Ask(_, Who::Older) => scene.older,
            Event::Ask(_, Who::Ahead) => (scene.current.0, scene.current.1.bumped()),
            Event::Ask(_, Who::Other) => (ProducerId(999), scene.current.1),
            _ => scene.current,
        }
    }

    /// The partition that a batch is sent to.
    pub(crate) fn partition(self) -> Option<i32> {
        match self {
            Event::Ask(Ask::Send(_, place), _) => Some(place.partition()),
            _ => None,
        }
    }

    /// Lets it happen in a world that is the scene, or what came of it.
    pub(crate) fn happen(self, world: &mut World, scene: &Scene) -> Said {
        match self {
            Event::Ask(Ask::Init, Who::None) => Said::from(world.ask(init(None))),
            Event::Ask(ask, _) => Said::from(world.ask(ask.input(self.pair(scene), &scene.world))),
            Event::Timeout => {
                world.pass(60_001);
                Said::Nothing
            }
            Event::Expiry => {
                world.pass(7 * 86_400_000);
                Said::Nothing
            }
            Event::ForcedAbort => Event::force(scene.current, scene.started, world),
            Event::Restart => {
                *world = world.crashed(world.log.len());
                Said::Nothing
            }
        }
    }

    /// An administrator aborts the transaction that a pair began at this time.
    pub(crate) fn force(pair: Pair, started: Millis, world: &mut World) -> Said {
        let (producer_id, producer_epoch) = pair;
        let transactional_id = ID.to_owned();
        let ask = AbortTransaction { transactional_id, producer_id, producer_epoch, started };
        Said::from(world.ask(input(ask)))
    }

    /// What was asked to be in the transaction is in it.
    pub(crate) fn check_joined(self, known: &Transaction, name: &str) {
        let joined = match self {
            Event::Ask(Ask::Add(place) | Ask::Verify(place) | Ask::Send(_, place), _) => {
                known.partitions().contains(&at(place.partition()))
            }
            Event::Ask(Ask::Group(place) | Ask::Stage(_, place), _) => {
                known.offset_partitions().contains(&offsets_partition(place.group(), 50))
            }
            _ => true,
        };
        assert!(joined, "{name}");
    }
}

impl Ask {
    /// The request of a pair. A batch takes the sequence number that its partition expects of the pair in this world.
    pub(crate) fn input(self, pair: Pair, world: &World) -> Input {
        let claim = |check| TransactionClaim {
            transactional_id: ID.to_owned(),
            producer_id: pair.0,
            producer_epoch: pair.1,
            check,
        };
        let partitions = |place: Place| vec![at(place.partition())];
        match self {
            Ask::Init => init(Some(pair)),
            Ask::Add(place) => {
                let claim = claim(TransactionCheck::Add);
                input(AddPartitionsToTxn { claim, partitions: partitions(place) })
            }
            Ask::Verify(place) => {
                let claim = claim(TransactionCheck::Verify);
                input(AddPartitionsToTxn { claim, partitions: partitions(place) })
            }
            Ask::Group(place) => {
                let claim = claim(TransactionCheck::Add);
                input(AddOffsetsToTxn { claim, group_id: place.group().to_owned() })
            }
            Ask::Stage(version, place) => stage(pair, version, place, staged(pair)),
            Ask::Send(version, place) => {
                let partition = place.partition();
                send(pair, version, partition, send_sequence(world, pair, at(partition)).1)
            }
            Ask::End(version, commit) => {
                let bump = version == Version::New;
                input(EndTxn {
                    transactional_id: ID.to_owned(),
                    producer_id: pair.0,
                    producer_epoch: pair.1,
                    commit,
                    bump,
                })
            }
        }
    }
}

pub(crate) fn init(given: Option<Pair>) -> Input {
    input(InitProducerId { transactional_id: Some(ID.to_owned()), timeout: Millis(60_000), given })
}

pub(crate) fn stage(pair: Pair, version: Version, place: Place, offset: i64) -> Input {
    let new = NewOffset { partition: 0, offset: Offset(offset), leader_epoch: -1, metadata: String::new() };
    let member = MemberRef {
        group_id: place.group().to_owned(),
        generation: -1,
        member_id: String::new(),
        instance_id: None,
    };
    input(StageOffsets {
        transactional_id: ID.to_owned(),
        producer_id: pair.0,
        producer_epoch: pair.1,
        verify_only: version == Version::Old,
        member,
        topics: vec![TopicOffsets { topic: TopicRef::Name("topic".to_owned()), offsets: vec![new] }],
    })
}

pub(crate) fn send(pair: Pair, version: Version, partition: i32, first: i32) -> Input {
    let summary = BatchSummary {
        size: 70,
        last_offset_delta: 0,
        record_count: 1,
        base_timestamp: Millis(1_000_000),
        max_timestamp: Millis(1_000_000),
        timestamp_type: TimestampType::CreateTime,
        producer_id: pair.0,
        producer_epoch: pair.1,
        base_sequence: first,
        transactional: true,
        control: false,
    };
    let batch = ProduceBatch {
        topic: TopicRef::Name("topic".to_owned()),
        partition,
        keyless: false,
        earliest: ottla_types::Millis::NONE,
        stamped: false,
        summary,
        payload: Bytes::new(),
    };
    input(Produce { transactional_id: Some(ID.to_owned()), check: version.check(), batches: vec![batch] })
}
