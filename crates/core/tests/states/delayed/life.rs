//! A producer's life of three transactions, with one request that arrives late or twice.

use crate::transaction::events::{Ask, Pair, Place, Version, init, send, stage};
use crate::transaction::reach::{GROUP, used};
use crate::transaction::said::Said;
use crate::world::{World, at};
use ottla_core::Input;
use ottla_core::offsets::OffsetLookup;
use ottla_core::partitions::Isolation;
use ottla_types::record::{LogRecord, PartitionRecord, ProducerIdsReserved, TransactionRecord};
use ottla_types::{Offset, ProducerEpoch, ProducerId};
use std::collections::{BTreeMap, BTreeSet};

/// What the client does in each transaction, in this order.
const TRANSACTION: [What; 8] = [
    What::Add(Place::In),
    What::Send(Place::In),
    What::Group,
    What::Stage,
    What::Add(Place::Out),
    What::Send(Place::Out),
    What::Send(Place::In),
    What::End,
];
pub(crate) const PER_TRANSACTION: usize = TRANSACTION.len();
pub(crate) const STEPS: usize = 3 * PER_TRANSACTION;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Add(Place),
    Group,
    Send(Place),
    Stage,
    End,
}

/// The transaction of a step, and what it does.
pub(crate) fn step(number: usize) -> (usize, What) {
    (number / PER_TRANSACTION, TRANSACTION[number % PER_TRANSACTION])
}

/// The request of one step is delivered after another step: for the second time, or for the first, the client having
/// given it up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) of: usize,
    pub(crate) after: usize,
    pub(crate) twice: bool,
}

impl Fault {
    /// It is delivered when its own transaction has ended.
    pub(crate) fn is_past_its_transaction(self) -> bool {
        step(self.after).0 > step(self.of).0 || step(self.after).1 == What::End
    }

    /// The transaction in which it is delivered has added its partition or group by then, and has not ended.
    pub(crate) fn finds_its_place_added(self) -> bool {
        let added = match step(self.of).1 {
            What::Send(place) => What::Add(place),
            What::Stage => What::Group,
            _ => return false,
        };
        let done = &TRANSACTION[..=self.after % PER_TRANSACTION];
        done.contains(&added) && !done.contains(&What::End)
    }
}

/// A client and what it wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub(crate) version_2: bool,
    /// It names partitions and the group before it uses them.
    pub(crate) adds: bool,
    /// Which transactions it wants to commit.
    pub(crate) commits: [bool; 3],
    pub(crate) epoch: i16,
    /// After a transaction in which it gave something up it asks for its next epoch.
    pub(crate) renews: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// What a reader must not see, or misses.
    pub(crate) torn: Vec<String>,
    /// The request of the client's own that was refused.
    pub(crate) refused: Option<(usize, Said)>,
    /// What the late request was answered.
    pub(crate) delivered: Option<Said>,
    /// Records that it left in the log.
    pub(crate) records: usize,
    /// Transactions whose batches a reader of committed data sees, with how many.
    pub(crate) visible: BTreeMap<usize, usize>,
    /// Transactions that are still open when the timeout has passed.
    pub(crate) open_after_timeout: usize,
}

/// How far a transaction came, as the client knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    #[default]
    NotAsked,
    Committed,
    Aborted,
}

struct Client {
    life: Life,
    world: World,
    pair: Pair,
    next: BTreeMap<i32, i32>,
    inputs: BTreeMap<usize, Input>,
    /// Acknowledged batches: partition and offset, and their transaction.
    sent: BTreeMap<(i32, Offset), usize>,
    staged: BTreeSet<usize>,
    known: [Known; 3],
    gave_up: BTreeSet<usize>,
    /// Requests that count in the transaction under way.
    acknowledged: usize,
    /// Records of late batches, which no client expects.
    ghosts: BTreeSet<(i32, Offset)>,
}

impl Life {
    /// The transactions that are to be seen, with their batches.
    pub(crate) fn wanted(&self) -> BTreeMap<usize, usize> {
        (0..3).filter(|number| self.commits[*number]).map(|number| (number, 3)).collect()
    }

    pub(crate) fn play(self, fault: Option<Fault>) -> Verdict {
        let mut client = Client::new(self);
        let (mut refused, mut delivered, mut records) = (None, None, 0);
        for number in 0..STEPS {
            let late = fault.is_some_and(|fault| fault.of == number && !fault.twice);
            if let Some(said) = client.act(number, late) {
                refused = Some((number, said));
                break;
            }
            if let Some(fault) = fault.filter(|fault| fault.after == number)
                && let Some(input) = client.inputs.get(&fault.of).cloned()
            {
                let before = client.world.log.len();
                let said = client.deliver(input);
                records = client.world.log.len() - before;
                client.haunt(fault, said);
                delivered = Some(said);
            }
        }
        let world = &client.world;
        assert_eq!(world.copy().shard.snapshot(), world.shard.snapshot(), "replay is not what lives");
        client.world.pass(60_001);
        let open_after_timeout = client.world.shard.transactions().open_count();
        let visible = client.visible();
        let torn = client.torn(&visible);
        let mut counts = BTreeMap::new();
        for txn in visible.iter().filter_map(|at| client.sent.get(at)) {
            *counts.entry(*txn).or_default() += 1;
        }
        Verdict { torn, refused, delivered, records, visible: counts, open_after_timeout }
    }
}

impl Client {
    fn new(life: Life) -> Client {
        let mut world = World::new();
        let pair = (ProducerId(7), ProducerEpoch(life.epoch));
        world.append(LogRecord::Transactions(TransactionRecord::ProducerIdsReserved(ProducerIdsReserved {
            next: ProducerId(1000),
        })));
        world.append(LogRecord::Transactions(TransactionRecord::TransactionUpdated(used(pair))));
        Client {
            life,
            world,
            pair,
            next: BTreeMap::new(),
            inputs: BTreeMap::new(),
            sent: BTreeMap::new(),
            staged: BTreeSet::new(),
            known: [Known::NotAsked; 3],
            gave_up: BTreeSet::new(),
            acknowledged: 0,
            ghosts: BTreeSet::new(),
        }
    }

    fn deliver(&mut self, input: Input) -> Said {
        Said::from(self.world.ask(input))
    }

    /// One step; what it was refused with. A request that is late does not arrive now, and the client gives its
    /// transaction up.
    fn act(&mut self, number: usize, late: bool) -> Option<Said> {
        let (txn, what) = step(number);
        let gave_up = self.gave_up.contains(&txn);
        let unused = matches!(what, What::Add(_) | What::Group) && !self.life.adds;
        if unused || (gave_up && what != What::End) {
            return None;
        }
        // Version 2 may end what never began (T-108), and does, since it cannot know; versions 0 and 1 may not (T-101).
        if what == What::End && self.acknowledged == 0 && !self.life.version_2 {
            self.known[txn] = Known::Aborted;
            return self.renew();
        }
        let commit = self.life.commits[txn] && !gave_up;
        let input = self.input(txn, what, commit);
        self.inputs.insert(number, input.clone());
        if late {
            self.gave_up.insert(txn);
            return None;
        }
        let said = self.deliver(input);
        if said.word() != "ok" {
            return Some(said);
        }
        self.acknowledged += 1;
        match (what, said) {
            (What::Send(place), Said::At(offset)) => {
                self.sent.insert((place.partition(), offset), txn);
                *self.next.entry(place.partition()).or_default() += 1;
            }
            (What::Stage, _) => _ = self.staged.insert(txn),
            (What::End, said) => return self.ended(txn, commit, said),
            _ => {}
        }
        None
    }

    fn ended(&mut self, txn: usize, commit: bool, said: Said) -> Option<Said> {
        self.known[txn] = if commit { Known::Committed } else { Known::Aborted };
        self.acknowledged = 0;
        if self.life.version_2 {
            self.pair = said.pair().unwrap();
            self.next.clear();
        }
        if self.gave_up.contains(&txn) { self.renew() } else { None }
    }

    fn renew(&mut self) -> Option<Said> {
        if !self.life.renews {
            return None;
        }
        let mut said = self.deliver(init(Some(self.pair)));
        if said.word() == "again" {
            said = self.deliver(init(Some(self.pair)));
        }
        let Some(pair) = said.pair() else { return Some(said) };
        self.pair = pair;
        self.next.clear();
        None
    }

    fn input(&self, txn: usize, what: What, commit: bool) -> Input {
        let version = if self.life.version_2 { Version::New } else { Version::Old };
        match what {
            What::Add(place) => Ask::Add(place).input(self.pair, &self.world),
            What::Group => Ask::Group(Place::In).input(self.pair, &self.world),
            What::Send(place) => {
                let first = self.next.get(&place.partition()).copied().unwrap_or_default();
                send(self.pair, version, place.partition(), first)
            }
            What::Stage => stage(self.pair, version, Place::In, offset_of(txn)),
            What::End => Ask::End(version, commit).input(self.pair, &self.world),
        }
    }

    /// A late batch that was appended is expected by no client, unless the client has acknowledged it.
    fn haunt(&mut self, fault: Fault, said: Said) {
        if let (What::Send(place), Said::At(offset)) = (step(fault.of).1, said) {
            let at = (place.partition(), offset);
            if !self.sent.contains_key(&at) {
                self.ghosts.insert(at);
            }
        }
    }

    /// Partition and offset of each batch that a reader of committed data sees.
    fn visible(&self) -> BTreeSet<(i32, Offset)> {
        let mut visible = BTreeSet::new();
        for number in 0..2 {
            let partition = self.world.shard.partitions().get(at(number)).unwrap();
            let read = partition.read(Offset(0), 1 << 20, true, Isolation::Committed).unwrap();
            assert_eq!(read.last_stable, partition.next_offset(), "partition {number} hangs");
            for (_, record) in &self.world.log {
                let LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) = record else { continue };
                let offset = batch.base_offset;
                let aborted = read.aborted.iter().any(|aborted| {
                    aborted.producer_id == batch.summary.producer_id
                        && (aborted.first_offset..aborted.marker_offset).contains(&offset)
                });
                if batch.partition == at(number) && !aborted {
                    visible.insert((number, offset));
                }
            }
        }
        visible
    }

    /// What differs from what the client knows.
    fn torn(&self, visible: &BTreeSet<(i32, Offset)>) -> Vec<String> {
        let mut torn = Vec::new();
        for (batch, txn) in &self.sent {
            let seen = visible.contains(batch);
            let right = match self.known[*txn] {
                Known::Committed => seen,
                Known::Aborted | Known::NotAsked => !seen,
            };
            if !right {
                torn.push(format!("batch {batch:?} of transaction {txn}, {:?}", self.known[*txn]));
            }
        }
        torn.extend(self.ghosts.intersection(visible).map(|ghost| format!("{ghost:?} was given up")));
        let wanted =
            (0..3).rev().find(|txn| self.known[*txn] == Known::Committed && self.staged.contains(txn));
        let committed = match self.world.shard.offsets().fetch(GROUP, at(0), true) {
            OffsetLookup::None => None,
            OffsetLookup::Offset(committed) => Some(committed.offset.0),
            OffsetLookup::Unstable => Some(-1),
        };
        if committed != wanted.map(offset_of) {
            torn.push(format!("offset {committed:?}, expected that of transaction {wanted:?}"));
        }
        torn
    }
}

/// The offset that a transaction stages.
fn offset_of(txn: usize) -> i64 {
    1000 + txn as i64
}
