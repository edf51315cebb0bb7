//! A transactional id: every state, every event, every relation of the asker to the owner, around both ends of the
//! epochs.

pub(crate) mod events;
pub(crate) mod reach;
pub(crate) mod said;

use crate::table::{Row, Table};
use crate::transaction::events::{Event, Who, events};
use crate::transaction::reach::{GROUP, ID, STATES, Scene, State, reach};
use crate::transaction::said::{Said, known, send_sequence};
use crate::world::{STARTS, Start, World, at};
use ottla_core::offsets::OffsetLookup;
use ottla_types::record::{LogRecord, TransactionRecord, TransactionState, TransactionStatus};
use ottla_types::{Offset, ProducerEpoch, ProducerId};

/// The epochs of the owner before the event: both ends, and an ordinary one that is the last but one.
const EPOCHS: [i16; 3] = [0, 32765, 32766];

fn table() -> Table {
    Table::parse(include_str!("transaction.txt"))
}

#[test]
fn t_090_t_092_no_pair_of_state_and_event_is_missing() {
    let table = table();
    let columns: Vec<_> = STATES.iter().map(|state| state.column()).collect();
    assert_eq!(table.columns, columns, "the states and their order");
    let events = events();
    for event in &events {
        table.row(&event.words());
    }
    assert_eq!(table.rows.len(), events.len(), "a row for an event that does not exist");
}

/// Plays one cell at one epoch, from a world that lives or was started again.
fn play(table: &Table, state: State, event: Event, epoch: i16, start: Start) {
    let row = table.row(&event.words());
    let cell = table.cell(row, state.column());
    let scene = reach(state, epoch, start);
    Play { row, state, event, cell, scene: &scene, name: format!("{state:?} {event:?} {epoch} {start:?}") }
        .run();
}

/// Splits the table so that its parts run beside one another.
fn play_all(states: &[State]) {
    let table = table();
    for state in states {
        for event in events() {
            for epoch in EPOCHS {
                STARTS.iter().for_each(|start| play(&table, *state, event, epoch, *start));
            }
        }
    }
}

#[test]
fn t_026_t_083_t_100_t_143_unknown_and_expired_ids() {
    play_all(&[State::Unknown, State::Expired]);
}

#[test]
fn t_030_t_031_t_109_empty_ids() {
    play_all(&[State::Empty, State::EmptyOwn]);
}

#[test]
fn t_033_t_064_t_101_t_102_open_transactions() {
    play_all(&[State::Open, State::OpenNew]);
}

#[test]
fn t_101_t_102_committed_transactions() {
    play_all(&[State::Committed, State::CommittedNew]);
}

#[test]
fn t_101_t_102_aborted_transactions() {
    play_all(&[State::Aborted, State::AbortedNew]);
}

#[test]
fn t_039_t_103_t_141_transactions_that_the_broker_aborted() {
    play_all(&[State::TimedOut, State::Fenced, State::Forced]);
}

/// One cell, about to be played.
struct Play<'a> {
    row: &'a Row,
    state: State,
    event: Event,
    cell: &'static str,
    scene: &'a Scene,
    /// Which one it is, for the message of a failure.
    name: String,
}

impl Play<'_> {
    fn run(self) {
        let mut world = self.scene.world.copy();
        let (from, before) = (world.log.len(), known(&world));
        let rows = world.shard.snapshot();
        let ends: Vec<_> =
            (0..3).map(|n| world.shard.partitions().get(at(n)).unwrap().next_offset()).collect();
        let said = self.event.happen(&mut world, self.scene);
        self.check_said(&said, &before, &world);
        self.check_next(&said, before.as_ref(), &world);
        if self.is_refused() {
            assert_eq!(world.log.len(), from, "{}: a refusal left a record", self.name);
            assert_eq!(world.shard.snapshot(), rows, "{}: a refusal changed something", self.name);
        }
        self.check_effects(&said, &ends, &world);
        world.check_law(from);
        self.crash_and_ask_again(&said, &world, from);
    }

    fn answer(&self) -> &'static str {
        let answer = self.cell.split('>').next().unwrap_or_default();
        answer.trim_end_matches('+')
    }

    fn bumps(&self) -> bool {
        self.cell.contains('+')
    }

    fn next(&self) -> Option<&'static str> {
        self.cell.split_once('>').map(|(_, next)| next)
    }

    fn is_refused(&self) -> bool {
        !matches!(self.answer(), "ok" | "new" | "again" | "none")
    }

    /// The answer is the cell's, and a refusal cites a rule of the row.
    fn check_said(&self, said: &Said, before: &Option<TransactionState>, world: &World) {
        let expected = match self.answer() {
            "stale" if self.stale_is_fenced(before.as_ref()) => "fenced",
            "stale" => "owner",
            other => other,
        };
        let fresh = said.pair().is_some_and(|pair| is_fresh(pair.0, before.as_ref()));
        let expected = if expected == "new" && fresh { "ok" } else { expected };
        assert_eq!(said.word(), expected, "{}: {said:?}", self.name);
        if let Some(rule) = said.rule() {
            assert!(self.row.rules.contains(&rule), "{}: {rule} is not a rule of the row", self.name);
        } else {
            assert!(!self.is_refused(), "{}: a refusal without a rule", self.name);
        }
        if let (Some(pair), Some(state)) = (said.pair(), known(world)) {
            assert_eq!(pair, (state.producer_id, state.epoch), "{}: the answer is the owner", self.name);
        }
    }

    /// A stale pair is that of the owner's own producer id, or the partition knows better.
    fn stale_is_fenced(&self, before: Option<&TransactionState>) -> bool {
        let given = self.event.pair(self.scene);
        let partition_knows = self.event.partition().is_some_and(|partition| {
            let known = send_sequence(&self.scene.world, given, at(partition)).0;
            known.is_some_and(|epoch| epoch > given.1)
        });
        partition_knows || before.is_some_and(|state| state.producer_id == given.0)
    }

    /// The id is where the cell says, field by field.
    fn check_next(&self, said: &Said, before: Option<&TransactionState>, world: &World) {
        let now = known(world);
        let Some(next) = self.next() else {
            let updated = |state: &TransactionState| TransactionState { updated: world.now, ..state.clone() };
            assert_eq!(now.as_ref().map(updated), before.map(updated), "{}: the id changed", self.name);
            return;
        };
        if next == "X" {
            assert_eq!(now, None, "{}", self.name);
            return;
        }
        let now = now.unwrap();
        let kept = next.ends_with('*');
        assert_eq!(now.status, status(next), "{}", self.name);
        let Some(before) = before else {
            assert!(said.pair().is_some_and(|pair| pair.1.0 == 0 && is_fresh(pair.0, None)), "{}", self.name);
            assert_eq!((now.last_epoch, now.previous_producer_id), (ProducerEpoch::NONE, ProducerId::NONE));
            return;
        };
        let rotates = self.bumps() && before.epoch.0 == 32766;
        let epoch = if self.bumps() { before.epoch.bumped() } else { before.epoch };
        if rotates {
            assert!(is_fresh(now.producer_id, Some(before)), "{}: {now:?}", self.name);
            assert_eq!((now.epoch.0, now.previous_producer_id), (0, before.producer_id), "{}", self.name);
        } else {
            let same = (before.producer_id, epoch, before.previous_producer_id);
            assert_eq!((now.producer_id, now.epoch, now.previous_producer_id), same, "{}", self.name);
        }
        let last = match (kept, self.bumps()) {
            (false, _) => ProducerEpoch::NONE,
            (true, true) => before.epoch,
            (true, false) => before.last_epoch,
        };
        assert_eq!(now.last_epoch, last, "{}", self.name);
        assert_eq!(kept, last != ProducerEpoch::NONE, "{}", self.name);
    }

    /// Partitions, data, markers and offsets: what the event does beside the id.
    fn check_effects(&self, said: &Said, ends: &[Offset], world: &World) {
        let known = world.shard.transactions().get(ID);
        let open = known.is_some_and(|known| known.state().status == TransactionStatus::Ongoing);
        if said.word() == "ok" && open {
            self.event.check_joined(known.unwrap(), &self.name);
        }
        if let Some(known) = known.filter(|_| !open) {
            assert!(known.partitions().is_empty() && known.offset_partitions().is_empty(), "{}", self.name);
        }
        let was_open = matches!(self.state, State::Open | State::OpenNew);
        let ended = was_open && !open;
        let sent = self.event.partition().filter(|_| said.word() == "ok");
        for (number, end) in (0..).zip(ends) {
            let grown = world.shard.partitions().get(at(number)).unwrap().next_offset().0 - end.0;
            let expected = i64::from(sent == Some(number)) + i64::from(ended && number == 0);
            assert_eq!(grown, expected, "{}: partition {number}", self.name);
        }
        let LogRecord::Transactions(TransactionRecord::TransactionEnded(end)) = &world.log.last().unwrap().1
        else {
            return;
        };
        if ended {
            let commit = matches!(self.event, Event::Ask(ask, _) if ask.commits());
            let state = known.unwrap().state();
            assert_eq!(end.marker.commit, commit, "{}", self.name);
            assert_eq!(state.status == TransactionStatus::CompleteCommit, commit, "{}", self.name);
            let marked = if self.bumps() { self.scene.current.1.bumped() } else { self.scene.current.1 };
            let marker = (end.marker.producer_id, end.marker.producer_epoch);
            assert_eq!(marker, (self.scene.current.0, marked), "{}", self.name);
            let offset = match world.shard.offsets().fetch(GROUP, at(0), true) {
                OffsetLookup::Offset(committed) => Some(committed.offset.0),
                OffsetLookup::None => None,
                OffsetLookup::Unstable => panic!("{}: an offset is left staged", self.name),
            };
            assert_eq!(offset, self.scene.offset(commit), "{}", self.name);
        }
    }

    /// The answer got lost: the process died with any part of the event's records, or lived on. The client asks again.
    fn crash_and_ask_again(&self, said: &Said, world: &World, from: usize) {
        for length in from..world.log.len() {
            let mut left = world.crashed(length);
            left.now = self.scene.world.now;
            let again = self.event.happen(&mut left, self.scene);
            assert!(
                said.is_like(&again),
                "{}: {length} of {} records: {again:?}",
                self.name,
                world.log.len()
            );
            self.check_next(&again, known(&self.scene.world).as_ref(), &left);
            left.check_law(length);
        }
        let Event::Ask(..) = self.event else { return };
        for mut left in
            [world.crashed(world.log.len()), world.crashed(world.log.len()).started(Start::Restored)]
        {
            let before = known(&left);
            let again = self.event.happen(&mut left, self.scene);
            self.check_again(said, &again, before.as_ref(), &left);
            left.check_law(world.log.len());
        }
    }

    /// What the second of two equal requests is answered, the first one having been carried out.
    fn check_again(&self, said: &Said, again: &Said, before: Option<&TransactionState>, world: &World) {
        let now = known(world);
        let unchanged = now.as_ref().map(|state| (state.epoch, state.status, state.last_epoch))
            == before.map(|state| (state.epoch, state.status, state.last_epoch));
        match (self.event, self.cell) {
            // T-30: a client without a pair takes over from the previous one, even from itself.
            (Event::Ask(ask, Who::None), _) if ask.is_init() => {
                let state = before.unwrap();
                let rotates = state.epoch.0 == 32766;
                let epoch = if rotates { ProducerEpoch(0) } else { state.epoch.bumped() };
                assert_eq!(again.pair().map(|pair| pair.1), Some(epoch), "{}", self.name);
            }
            // T-39: the pair that was fenced is the last one now; its owner gets the epoch after the abort.
            (Event::Ask(_, Who::Current), "again+>A*") => {
                let state = before.unwrap();
                assert_eq!(again.pair(), Some((state.producer_id, state.epoch)), "{}", self.name);
            }
            // T-28, T-31: the pair of an id that has expired is worth a new one once; so is one that aborts what is
            // open.
            (Event::Ask(_, _), "new>E" | "again+>A*") => {
                assert_eq!((again.word(), unchanged), ("fenced", true), "{}: {again:?}", self.name);
            }
            _ => {
                assert_eq!((again, unchanged), (said, true), "{}", self.name);
            }
        }
    }
}

/// A producer id that the broker gave out, and not the one before.
fn is_fresh(id: ProducerId, before: Option<&TransactionState>) -> bool {
    id.0 >= 1000 && before.is_none_or(|state| state.producer_id != id)
}

fn status(code: &str) -> TransactionStatus {
    match code.trim_end_matches('*') {
        "E" => TransactionStatus::Empty,
        "O" => TransactionStatus::Ongoing,
        "C" => TransactionStatus::CompleteCommit,
        "A" => TransactionStatus::CompleteAbort,
        other => panic!("no state {other}"),
    }
}
