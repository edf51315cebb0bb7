//! A producer at a partition: every relation of sequence numbers and epochs to what the partition knows, low and around
//! the wrap.

mod scene;

use crate::producer::scene::{BATCHES, COUNT, Kind, Scene, Step, knowledge, reach, sequence_after};
use crate::support::{Answer, input};
use crate::table::{Row, Table};
use crate::world::{STARTS, World, at};
use ottla_core::partitions::{AppendResult, MarkerError, ProduceError, TxnMarker, WriteTxnMarkers};
use ottla_core::{Input, Rejection};
use ottla_types::ProducerEpoch;
use ottla_types::record::{LogRecord, PartitionRecord, ProducerState};

/// How the epoch of a batch or marker relates to the partition's, or to the owner's if the partition knows none.
const EPOCHS: [(&str, i16); 3] = [("older", -1), ("same", 0), ("newer", 1)];
/// The relations of sequence numbers.
const SEQUENCES: [&str; 7] = ["next", "again", "old", "part", "gap", "zero", "minus"];
const KINDS: [(&str, Kind); 3] = [("plain", Kind::Plain), ("txn 0", Kind::Old), ("txn 2", Kind::New)];
/// The first sequence number that the partition ever saw: low, and such that the wrap is at each place of what it
/// remembers.
const FIRST: [i32; 7] = [0, 1000, i32::MAX - 13, i32::MAX - 12, i32::MAX - 10, i32::MAX - 5, i32::MAX];
/// The epoch of the owner: an ordinary one, and one whose next but one is the last for clients.
const OWNERS: [i16; 2] = [5, 32764];

fn table() -> Table {
    Table::parse(include_str!("producer.txt"))
}

/// The sequence numbers and counts of a relation.
fn batches(relation: &str, first: i32) -> Vec<(i32, i32)> {
    let nth = |n: i32| sequence_after(first, n * COUNT);
    let last = BATCHES;
    match relation {
        "next" => vec![(nth(last), COUNT), (nth(last), 1), (nth(last), 40)],
        "again" => (last - 5..last).map(|n| (nth(n), COUNT)).collect(),
        "old" => (0..last - 5).map(|n| (nth(n), COUNT)).collect(),
        "part" => {
            let middle = nth(last - 3);
            vec![
                (nth(last - 1), 1),
                (sequence_after(nth(last - 1), 1), 1),
                (nth(last - 1), 3),
                (middle, 1),
                (middle, 4),
            ]
        }
        "gap" => vec![(sequence_after(nth(last), 1), COUNT), (sequence_after(nth(last), 1000), COUNT)],
        "zero" => vec![(0, COUNT)],
        "minus" => vec![(-1, COUNT)],
        other => panic!("no relation {other}"),
    }
}

/// Zero is also the number after the largest, and one that may be known already: the relation that decides.
fn decisive(relation: &str, batch: (i32, i32), first: i32, remembers: bool) -> &str {
    if batch.0 != 0 {
        return relation;
    }
    let is = |relation: &str| batches(relation, first).contains(&batch);
    match remembers {
        true if is("next") => "next",
        true if is("again") => "again",
        _ => "zero",
    }
}

#[test]
fn t_040_no_relation_is_missing() {
    let table = table();
    assert_eq!(table.columns, Step::ALL.map(Step::column), "what a partition may know, and its order");
    for (epoch, _) in EPOCHS {
        for (kind, _) in KINDS {
            SEQUENCES.iter().for_each(|sequence| _ = table.row(&format!("{kind} {epoch} {sequence}")));
        }
        table.row(&format!("marker 0 {epoch}"));
        table.row(&format!("marker 2 {epoch}"));
    }
    let count = EPOCHS.len() * (KINDS.len() * SEQUENCES.len() + 2);
    assert_eq!(table.rows.len(), count, "a row for a relation that does not exist");
}

fn play_all(kind: (&str, Kind)) {
    let table = table();
    for step in Step::ALL {
        for first in FIRST {
            for owner in OWNERS {
                let scene = reach(step, owner, first);
                for (epoch, by) in EPOCHS {
                    for relation in SEQUENCES {
                        for batch in batches(relation, first) {
                            let remembers = step.remembers() && by == 0;
                            let relation = decisive(relation, batch, first, remembers);
                            let row = table.row(&format!("{} {epoch} {relation}", kind.0));
                            let name =
                                format!("{step:?} {} {epoch} {relation} {batch:?} {first} {owner}", kind.0);
                            let cell = table.cell(row, step.column());
                            Play { row, cell, scene: &scene, kind: kind.1, by, batch, name }.run();
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn t_041_t_047_batches_outside_a_transaction() {
    play_all(KINDS[0]);
}

#[test]
fn t_046_t_047_t_064_batches_in_a_transaction_at_versions_0_and_1() {
    play_all(KINDS[1]);
}

#[test]
fn t_046_t_047_t_065_batches_in_a_transaction_at_version_2() {
    play_all(KINDS[2]);
}

struct Play<'a> {
    row: &'a Row,
    cell: &'static str,
    scene: &'a Scene,
    kind: Kind,
    by: i16,
    batch: (i32, i32),
    name: String,
}

impl Play<'_> {
    fn run(self) {
        let starts = if self.scene.first == 0 { &STARTS[1..] } else { &STARTS[2..] };
        for start in starts {
            let mut world = self.scene.world.copy().started(*start);
            let pair = self.scene.pair(self.by);
            if self.by == 1 {
                self.scene.raise(self.kind, &mut world);
            }
            let (from, known) = (world.log.len(), knowledge(&world, pair.0));
            let end = world.shard.partitions().get(at(0)).unwrap().next_offset();
            let ask = self.kind.batch(pair, self.batch);
            let result = produced(world.ask(ask.clone()));
            self.check(result);
            let now = knowledge(&world, pair.0);
            let grown = world.shard.partitions().get(at(0)).unwrap().next_offset().0 - end.0;
            match result {
                Ok(appended) if self.cell == "ok" => {
                    assert_eq!(
                        (appended.base_offset, grown),
                        (end, i64::from(self.batch.1)),
                        "{}",
                        self.name
                    );
                    self.check_known(known, now.unwrap(), pair.1);
                }
                _ => assert_eq!((now, grown), (known, 0), "{}: the partition changed", self.name),
            }
            world.check_law(from);
            self.send_again(result, &world, &ask, from);
        }
    }

    fn check(&self, result: Result<AppendResult, Rejection<ProduceError>>) {
        let word = match result {
            Ok(appended) if self.cell == "dup" => {
                let original = self.scene.offset_of(self.batch);
                assert_eq!(Some(appended.base_offset.0), original, "{}: the original's offset", self.name);
                "dup"
            }
            Ok(_) => "ok",
            Err(refused) => {
                let rule = refused.rule.unwrap();
                assert!(self.row.rules.contains(&rule), "{}: {rule} is not a rule of the row", self.name);
                match refused.error {
                    ProduceError::StaleEpoch => "fenced",
                    ProduceError::OutOfOrder => "order",
                    ProduceError::OutsideTransaction => "mixed",
                    ProduceError::NotInTransaction => "out",
                    ProduceError::Invalid(_) => "invalid",
                    other => panic!("{}: {other:?}", self.name),
                }
            }
        };
        assert_eq!(word, self.cell, "{}", self.name);
    }

    /// What the partition remembers after an append: the batch last, before it what was there at the same epoch, five
    /// in all.
    fn check_known(&self, before: Option<ProducerState>, now: ProducerState, epoch: ProducerEpoch) {
        let kept =
            before.as_ref().filter(|known| known.epoch == epoch).map_or(0, |known| known.batches.len());
        assert_eq!(now.epoch, epoch, "{}", self.name);
        assert_eq!(now.batches.len(), 5.min(kept + 1), "{}", self.name);
        let last = now.batches.last().unwrap();
        let sequences = (self.batch.0, sequence_after(self.batch.0, self.batch.1 - 1));
        assert_eq!((last.first_sequence, last.last_sequence), sequences, "{}", self.name);
        let was_open = before.is_some_and(|known| known.transaction_start.is_some());
        let opens = self.kind != Kind::Plain;
        assert_eq!(now.transaction_start.is_some(), was_open || opens, "{}", self.name);
    }

    /// The answer got lost, and the records after any one of them with it: the same batch again is answered the same.
    fn send_again(
        &self,
        result: Result<AppendResult, Rejection<ProduceError>>,
        world: &World,
        ask: &Input,
        from: usize,
    ) {
        let kind = |result: Result<AppendResult, Rejection<ProduceError>>| {
            result.map(|appended| appended.base_offset).map_err(|refused| refused.error)
        };
        for length in from..=world.log.len() {
            let mut left = world.crashed(length);
            let again = produced(left.ask(ask.clone()));
            assert_eq!(kind(again), kind(result), "{}: after {length} records", self.name);
            left.check_law(length);
        }
    }
}

fn produced(answer: Answer) -> Result<AppendResult, Rejection<ProduceError>> {
    match answer {
        Answer::Produce(mut results) => results.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn t_125_t_127_t_128_markers() {
    let table = table();
    for step in Step::ALL {
        for owner in OWNERS {
            let scene = reach(step, owner, 0);
            for (epoch, by) in EPOCHS {
                for bumped in [false, true] {
                    let row = table.row(&format!("marker {} {epoch}", if bumped { 2 } else { 0 }));
                    let name = format!("{step:?} {epoch} {bumped} {owner}");
                    play_marker(&scene, row, table.cell(row, step.column()), (by, bumped), &name);
                }
            }
        }
    }
}

fn play_marker(scene: &Scene, row: &Row, cell: &str, (by, bumped): (i16, bool), name: &str) {
    let mut world = scene.world.copy();
    let (producer_id, producer_epoch) = scene.pair(by);
    let known = knowledge(&world, producer_id);
    let from = world.log.len();
    let partitions = vec![at(0)];
    let marker =
        TxnMarker { producer_id, producer_epoch, coordinator_epoch: 0, commit: false, bumped, partitions };
    let ask = input(WriteTxnMarkers { markers: vec![marker] });
    let Answer::WriteTxnMarkers(mut results) = world.ask(ask.clone()) else { panic!("{name}") };
    let result = results.remove(0).remove(0);
    match cell {
        "fenced" => {
            let refused = result.unwrap_err();
            assert_eq!(refused.error, MarkerError::StaleEpoch, "{name}");
            assert!(row.rules.contains(&refused.rule.unwrap()), "{name}");
        }
        _ => assert_eq!(result, Ok(()), "{name}"),
    }
    let written =
        matches!(world.log.last().unwrap().1, LogRecord::Partitions(PartitionRecord::MarkerAppended(_)));
    assert_eq!(written, cell == "ok", "{name}");
    let now = knowledge(&world, producer_id);
    if written {
        let now = now.unwrap();
        assert_eq!((now.epoch, now.transaction_start), (producer_epoch, None), "{name}");
        let kept = known.filter(|known| known.epoch == producer_epoch).map_or(0, |known| known.batches.len());
        assert_eq!(now.batches.len(), kept, "{name}");
    } else {
        assert_eq!((now, world.log.len()), (known, from), "{name}");
    }
    world.check_law(from);
    let Answer::WriteTxnMarkers(again) = world.ask(ask) else { panic!("{name}") };
    assert_eq!(again[0][0].is_ok(), cell != "fenced", "{name}: T-236, the same marker again");
}
