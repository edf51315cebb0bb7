//! Partitions whose older batches lie in runs: what readers find is what a plain list of batches would give.

use crate::support::input;
use crate::world::{Owner, World, at, plain};
use ottla_core::catalog::{AlterConfigs, ConfigChange, ConfigOp, ConfigTarget};
use ottla_core::partitions::{Isolation, ReadPlan, Source};
use ottla_types::record::{LogRecord, LogStartMoved, PartitionRecord, PartsInstalled, RunPart, StoredBatch};
use ottla_types::{LogPosition, Millis, Offset, TopicPartition};
use proptest::prelude::*;

fn p0() -> TopicPartition {
    at(1, 0)
}

/// What a rewrite takes together: parts and batches by offset, as (first, last, bytes, largest timestamp, time of
/// appending).
type Piece = (Offset, Offset, u64, Millis, Millis);

/// The parts and then the batches of a partition.
pub(crate) fn pieces(world: &World, at: TopicPartition) -> Vec<Piece> {
    let Some(partition) = world.shard.partitions().get(at) else { return Vec::new() };
    let part =
        |part: &RunPart| (part.base_offset, part.last_offset, part.bytes, part.max_timestamp, part.appended);
    let one = |batch: StoredBatch| {
        (batch.base_offset, batch.last_offset, bytes(&batch), batch.max_timestamp, batch.appended)
    };
    partition.parts().iter().map(part).chain(partition.tail().map(one)).collect()
}

fn bytes(batch: &StoredBatch) -> u64 {
    match batch.place {
        ottla_types::record::BatchPlace::Log { size, .. } => u64::from(size),
        ottla_types::record::BatchPlace::Marker(_) => 78,
    }
}

/// A record that puts pieces, `per_part` of them together, into run `run`; nothing is left of every `gone`-th part.
pub(crate) fn installing(
    partition: TopicPartition,
    pieces: &[Piece],
    run: u64,
    per_part: usize,
    gone: Option<usize>,
) -> PartsInstalled {
    let part = |group: &[Piece]| RunPart {
        run,
        base_offset: group[0].0,
        last_offset: group[group.len() - 1].1,
        bytes: group.iter().map(|piece| piece.2).sum(),
        max_timestamp: group.iter().map(|piece| piece.3).max().unwrap(),
        appended: group.iter().map(|piece| piece.4).max().unwrap(),
        data: 4096,
        directory: 8192,
        pages: 1,
        clean: gone.is_some(),
        horizon: Millis::NONE,
    };
    let groups = pieces.chunks(per_part.max(1)).enumerate();
    let stays = |number: usize| gone.is_none_or(|gone| number % (gone + 1) != gone);
    let parts = groups.filter(|(number, _)| stays(*number)).map(|(_, group)| part(group)).collect();
    PartsInstalled { partition, from: pieces[0].0, to: pieces[pieces.len() - 1].1, parts }
}

/// The pieces of a random range that a rewrite may take: batches only from the first one in the log on.
pub(crate) fn some_pieces(world: &World, at: TopicPartition, from: u8, count: u8) -> Vec<Piece> {
    let all = pieces(world, at);
    let parts = world.shard.partitions().get(at).map_or(0, |partition| partition.parts().len());
    let from = usize::from(from) % (parts + 1);
    all.into_iter().skip(from).take(usize::from(count)).collect()
}

/// A batch as the model has it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plain {
    base: Offset,
    last: Offset,
    bytes: u64,
    time: Millis,
}

/// The world, and beside it the batches as a list.
struct Model {
    world: World,
    batches: Vec<Plain>,
    run: u64,
    /// Of the transaction "t", with the next sequence number.
    owner: Option<Owner>,
    sequence: i32,
}

#[derive(Clone, Debug)]
enum Event {
    Write { count: u8, time: Option<u8>, bytes: u16 },
    Open,
    End { commit: bool },
    Rewrite { from: u8, count: u8, per_part: u8 },
    Delete { offset: u8 },
    Pass { millis: u8 },
    Read { from: u8, max: u16, whole: bool, committed: bool },
    Time { time: u8, from: u8, committed: bool },
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let write = (1..5_u8, proptest::option::weighted(0.9, any::<u8>()), 61..2000_u16);
    prop_oneof![
        8 => write.prop_map(|(count, time, bytes)| Event::Write { count, time, bytes }),
        1 => Just(Event::Open),
        1 => any::<bool>().prop_map(|commit| Event::End { commit }),
        3 => (any::<u8>(), 1..30_u8, 1..8_u8)
            .prop_map(|(from, count, per_part)| Event::Rewrite { from, count, per_part }),
        1 => any::<u8>().prop_map(|offset| Event::Delete { offset }),
        2 => (1..30_u8).prop_map(|millis| Event::Pass { millis }),
        6 => (any::<u8>(), 0..8000_u16, any::<bool>(), any::<bool>())
            .prop_map(|(from, max, whole, committed)| Event::Read { from, max, whole, committed }),
        6 => (any::<u8>(), any::<u8>(), any::<bool>())
            .prop_map(|(time, from, committed)| Event::Time { time, from, committed }),
        1 => Just(Event::Restart),
    ]
}

impl Model {
    fn new() -> Model {
        let mut world = World::with(&[("log.retention.check.interval.ms", "1")]);
        world.create_topic(1, 1, &[("retention.ms", "1000000"), ("retention.bytes", "15000")]);
        Model { world, batches: Vec::new(), run: 0, owner: None, sequence: 0 }
    }

    /// Takes over what was appended.
    fn grew(&mut self) {
        let known = self.batches.last().map_or(Offset(-1), |batch| batch.last);
        let state = self.world.shard.partitions().get(p0()).unwrap();
        let new = state.tail().filter(|batch| batch.base_offset > known);
        let plain = |batch: StoredBatch| Plain {
            base: batch.base_offset,
            last: batch.last_offset,
            bytes: bytes(&batch),
            time: batch.max_timestamp,
        };
        self.batches.extend(new.map(plain));
    }

    fn run(&mut self, event: &Event) {
        match *event {
            Event::Write { count, time, bytes } => {
                let mut summary = plain(i32::from(count));
                summary.size = u32::from(bytes);
                summary.max_timestamp = time.map_or(Millis::NONE, |time| Millis(i64::from(time)));
                self.world.write(p0(), summary).unwrap();
            }
            Event::Open => {
                let me = *self.owner.get_or_insert_with(|| self.world.init("t", None).unwrap());
                let sequence = self.sequence;
                self.sequence += 1;
                self.world.write_in("t", me, p0(), sequence).unwrap();
            }
            Event::End { commit } => {
                if let Some(me) = self.owner.filter(|_| self.sequence > 0) {
                    self.owner = Some(self.world.end("t", me, commit, true).unwrap());
                    self.sequence = 0;
                }
            }
            Event::Rewrite { from, count, per_part } => {
                let pieces = some_pieces(&self.world, p0(), from, count);
                if !pieces.is_empty() {
                    self.run += 1;
                    let record = installing(p0(), &pieces, self.run, usize::from(per_part), None);
                    assert!(self.world.shard.partitions().get(p0()).unwrap().takes(&record));
                    self.world.append(LogRecord::Partitions(PartitionRecord::PartsInstalled(record)));
                }
            }
            Event::Delete { offset } => {
                let _ = self.world.delete_before(p0(), i64::from(offset));
            }
            Event::Pass { millis } => {
                let before =
                    (self.world.shard.partitions().get(p0()).unwrap().log_start(), pieces(&self.world, p0()));
                self.world.pass(i64::from(millis));
                let start = self.world.shard.partitions().get(p0()).unwrap().log_start();
                assert_eq!(start, kept_from(before, self.world.now));
            }
            Event::Read { from, max, whole, committed } => {
                self.read(Offset(i64::from(from)), (u64::from(max), whole), isolation(committed));
            }
            Event::Time { time, from, committed } => {
                self.find(Millis(i64::from(time)), Offset(i64::from(from)), isolation(committed));
            }
            Event::Restart => self.world.restart_from_snapshot(),
        }
        self.grew();
    }

    /// The batches that a source stands for.
    fn resolve(&self, source: &Source) -> Vec<Plain> {
        let holds = |batch: &&Plain| match source {
            Source::Batch(stored) => batch.base == stored.base_offset,
            Source::Part { part, from, to } => {
                batch.base >= part.base_offset
                    && batch.last <= part.last_offset
                    && batch.last >= *from
                    && batch.last < *to
            }
        };
        self.batches.iter().filter(holds).copied().collect()
    }

    fn resolve_plan(&self, plan: &ReadPlan) -> Vec<Plain> {
        let mut left = plan.max_bytes;
        let mut read = Vec::new();
        for batch in plan.sources.iter().flat_map(|source| self.resolve(source)) {
            if batch.bytes > left && !(plan.first_whole && read.is_empty()) {
                break;
            }
            left = left.saturating_sub(batch.bytes);
            read.push(batch);
        }
        read
    }

    fn read(&self, from: Offset, (max, whole): (u64, bool), isolation: Isolation) {
        let partition = self.world.shard.partitions().get(p0()).unwrap();
        let Ok(plan) = partition.read(from, max, whole, isolation) else {
            assert!(from < partition.log_start() || from > partition.high_watermark());
            return;
        };
        let end = partition.end(isolation);
        let all: Vec<_> =
            self.batches.iter().filter(|batch| batch.last >= from && batch.last < end).copied().collect();
        let mut bytes = 0;
        let fits = |batch: &&Plain| {
            let first = whole && bytes == 0;
            bytes += batch.bytes;
            bytes <= max || first
        };
        let wanted: Vec<_> = all.iter().take_while(fits).copied().collect();
        let read = self.resolve_plan(&plan);
        // A plan may end early, at a part of which not all fits, but it leaves no gap and makes progress.
        assert!(wanted.starts_with(&read), "{wanted:?} {read:?}");
        assert_eq!(wanted.is_empty(), read.is_empty(), "{plan:?}");
        if plan.sources.iter().all(|source| matches!(source, Source::Batch(_))) {
            assert_eq!(wanted, read);
        }
        let got: u64 = read.iter().map(|batch| batch.bytes).sum();
        assert!(got <= plan.most.max(read.first().map_or(0, |first| first.bytes)), "{plan:?}");
        if isolation == Isolation::Committed
            && let Some(last) = read.last()
        {
            let mut plan = plan;
            plan.trim_aborted(last.last);
            assert_eq!(plan.aborted, partition.aborted_between(from, last.last));
        }
        let all: u64 = all.iter().map(|batch| batch.bytes).sum();
        assert_eq!(partition.readable_bytes(from, u64::MAX, isolation) > 0, all > 0);
    }

    fn find(&self, time: Millis, from: Offset, isolation: Isolation) {
        let partition = self.world.shard.partitions().get(p0()).unwrap();
        let (start, end) = (partition.log_start(), partition.end(isolation));
        let there = |batch: &&Plain| batch.last >= from.max(start) && batch.last < end;
        let wanted = self.batches.iter().filter(there).find(|batch| batch.time >= time);
        let mut next = from.max(start);
        let found = loop {
            let Some(source) = partition.find_time(time, next, isolation) else { break None };
            let found = self.resolve(&source).into_iter().find(|batch| batch.time >= time);
            if found.is_some() {
                break found;
            }
            next = source.last_offset().plus(1);
        };
        assert_eq!(found.as_ref(), wanted);
        // What lies below the log's start counts as long as the part or batch that holds it is there.
        let held = pieces(&self.world, p0()).first().map_or(end, |piece| piece.0);
        let there = self.batches.iter().filter(|batch| batch.base >= held);
        let latest = there.clone().map(|batch| batch.time).max();
        let wanted = there.clone().find(|batch| Some(batch.time) == latest);
        let found = partition.find_latest_time(Isolation::Uncommitted);
        let holds = |source: &Source| {
            let first = self.resolve(source).into_iter().find(|batch| Some(batch.time) == latest);
            assert_eq!(source.max_timestamp(), latest.unwrap());
            first.unwrap()
        };
        assert_eq!(found.as_ref().map(holds).as_ref(), wanted);
    }
}

/// Where the log starts after retention at `now`: each piece goes that is too old, or without which there are still
/// 15000 bytes, up to the first that stays.
fn kept_from((start, pieces): (Offset, Vec<Piece>), now: Millis) -> Offset {
    let bytes_from = |number: usize| pieces[number..].iter().map(|piece| piece.2).sum::<u64>();
    let stays = |(number, piece): &(usize, &Piece)| {
        let time = if piece.3 == Millis::NONE { piece.4 } else { piece.3 };
        now.0 - time.0 <= 1_000_000 && bytes_from(number + 1) < 15_000
    };
    let first = pieces.iter().enumerate().find(stays).map_or(pieces.len(), |(number, _)| number);
    let gone = pieces[..first].last().map_or(start, |piece| piece.1.plus(1));
    gone.max(start)
}

fn isolation(committed: bool) -> Isolation {
    if committed { Isolation::Committed } else { Isolation::Uncommitted }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn readers_of_parts_find_what_readers_of_batches_would(events in prop::collection::vec(event(), 1..80)) {
        let mut model = Model::new();
        events.iter().for_each(|event| model.run(event));
        for from in 0..200 {
            model.read(Offset(from), (4000, true), Isolation::Uncommitted);
            model.find(Millis(from), Offset(0), Isolation::Committed);
        }
    }
}

/// A world with six batches of two records and 100 bytes, timestamps 10, 20 ….
fn six() -> World {
    six_with(&[("retention.ms", "600000")])
}

fn six_with(configs: &[(&str, &str)]) -> World {
    let mut world = World::with(&[]);
    world.create_topic(1, 1, configs);
    for number in 1..7 {
        let mut summary = plain(2);
        (summary.size, summary.max_timestamp) = (100, Millis(1_000_000 + number * 10));
        world.write(p0(), summary).unwrap();
    }
    world
}

fn rewrite(world: &mut World, from: usize, count: usize, per_part: usize, run: u64) {
    let pieces: Vec<_> = pieces(world, p0()).into_iter().skip(from).take(count).collect();
    world.append(LogRecord::Partitions(PartitionRecord::PartsInstalled(installing(
        p0(),
        &pieces,
        run,
        per_part,
        None,
    ))));
    world.sync();
}

fn runs(world: &World) -> Vec<(u64, u64, u64)> {
    world.shard.partitions().runs().map(|(run, used)| (run, used.parts, used.bytes)).collect()
}

fn bounds(world: &World) -> Vec<(i64, i64)> {
    pieces(world, p0()).iter().map(|piece| (piece.0.0, piece.1.0)).collect()
}

#[test]
fn what_lies_in_runs_is_no_longer_in_the_log() {
    let mut world = six();
    let partitions = world.shard.partitions();
    assert_eq!((partitions.tail_entries(), partitions.runs().count()), (6, 0));
    rewrite(&mut world, 0, 4, 2, 1);
    assert_eq!(bounds(&world), [(0, 3), (4, 7), (8, 9), (10, 11)]);
    assert_eq!(runs(&world), [(1, 2, 400)]);
    assert_eq!(world.shard.partitions().tail_entries(), 2);
    // A merge of both parts, and of what followed.
    rewrite(&mut world, 1, 2, 2, 2);
    assert_eq!(bounds(&world), [(0, 3), (4, 9), (10, 11)]);
    assert_eq!(runs(&world), [(1, 1, 200), (2, 1, 300)]);
    rewrite(&mut world, 0, 3, 9, 3);
    assert_eq!(bounds(&world), [(0, 11)]);
    assert_eq!(runs(&world), [(3, 1, 600)]);
    assert_eq!(world.shard.partitions().oldest_live(), None, "no byte of the log is needed");
    assert_eq!(world.shard.partitions().get(p0()).unwrap().bytes(), 600);
}

#[test]
fn a_range_that_cuts_something_is_not_taken() {
    let mut world = six();
    rewrite(&mut world, 0, 2, 2, 1);
    let all = pieces(&world, p0());
    let fits = |from: i64, to: i64, parts: &[(i64, i64)]| {
        let template = installing(p0(), &all[..1], 9, 1, None).parts[0];
        let part = |(base, last): &(i64, i64)| RunPart {
            base_offset: Offset(*base),
            last_offset: Offset(*last),
            ..template
        };
        let parts = parts.iter().map(part).collect();
        let record = PartsInstalled { partition: p0(), from: Offset(from), to: Offset(to), parts };
        world.shard.partitions().get(p0()).unwrap().takes(&record)
    };
    assert!(fits(0, 3, &[(0, 3)]) && fits(0, 5, &[(0, 5)]) && fits(4, 7, &[(4, 7)]));
    assert!(fits(0, 3, &[]) && fits(0, 3, &[(1, 1), (3, 3)]), "compaction leaves less");
    assert!(!fits(0, 2, &[]) && !fits(1, 3, &[]), "half a part");
    assert!(!fits(0, 4, &[]) && !fits(5, 7, &[]), "half a batch");
    assert!(!fits(6, 7, &[]), "a batch in the log would come before a part");
    assert!(!fits(0, 3, &[(2, 3), (0, 1)]) && !fits(0, 3, &[(0, 4)]) && !fits(4, 5, &[(3, 5)]));
    let before = world.shard.snapshot();
    let record = installing(p0(), &all[2..4], 9, 1, None);
    world.append(LogRecord::Partitions(PartitionRecord::PartsInstalled(record)));
    assert_eq!((world.shard.snapshot(), runs(&world)), (before, vec![(1, 1, 200)]), "without effect");
}

#[test]
fn parts_that_nobody_can_read_are_not_taken_in() {
    let mut world = six();
    let late = installing(p0(), &pieces(&world, p0())[..4], 1, 1, None);
    let gone = installing(at(9, 0), &pieces(&world, p0())[..4], 2, 1, None);
    world.delete_before(p0(), 5).unwrap();
    world.append(LogRecord::Partitions(PartitionRecord::PartsInstalled(late)));
    world.append(LogRecord::Partitions(PartitionRecord::PartsInstalled(gone)));
    // The part that holds the log's start stays whole.
    assert_eq!((bounds(&world)[0], runs(&world)), ((4, 5), vec![(1, 2, 200)]));
    world.delete_topic(1);
    assert_eq!((runs(&world), world.shard.partitions().tail_entries()), (vec![], 0));
}

#[test]
fn retention_drops_whole_parts_as_kafka_drops_segments() {
    let mut world = six();
    rewrite(&mut world, 0, 4, 2, 1);
    // The second part's first batch is too old, its second is not: the part stays.
    world.pass(600_035);
    let start = |world: &World| world.shard.partitions().get(p0()).unwrap().log_start().0;
    assert_eq!((start(&world), runs(&world)), (4, vec![(1, 1, 200)]));
    world.pass(300_000);
    assert_eq!((start(&world), runs(&world)), (12, vec![]), "then batches in the log, too");
    let mut world = six_with(&[("retention.bytes", "350")]);
    rewrite(&mut world, 0, 4, 2, 1);
    world.pass(300_000);
    assert_eq!((start(&world), world.shard.partitions().get(p0()).unwrap().bytes()), (4, 400));
}

#[test]
fn retention_that_is_changed_counts_from_the_next_look() {
    let mut world = six_with(&[]);
    rewrite(&mut world, 0, 4, 2, 1);
    let start = |world: &World| world.shard.partitions().get(p0()).unwrap().log_start().0;
    let change = |world: &mut World, target: ConfigTarget, name: &str, value: Option<&str>| {
        let op = value.map_or(ConfigOp::Delete, |value| ConfigOp::Set(value.to_owned()));
        let changes = vec![ConfigChange { target, replace: false, ops: vec![(name.to_owned(), op)] }];
        world.ask(input(AlterConfigs { changes, validate_only: false }));
    };
    let topic = || ConfigTarget::Topic("topic-1".to_owned());
    world.pass(400_000);
    assert_eq!(start(&world), 0, "seven days");
    change(&mut world, ConfigTarget::Broker, "log.retention.bytes", Some("350"));
    assert_eq!(start(&world), 0);
    world.pass(300_000);
    assert_eq!(start(&world), 4, "the broker's default");
    change(&mut world, topic(), "retention.bytes", Some("-1"));
    change(&mut world, ConfigTarget::Broker, "log.retention.ms", Some("1000"));
    change(&mut world, topic(), "retention.ms", Some("900000000"));
    world.pass(300_000);
    assert_eq!(start(&world), 4, "the topic's own");
    change(&mut world, topic(), "cleanup.policy", Some("compact"));
    change(&mut world, topic(), "retention.ms", None);
    world.pass(300_000);
    assert_eq!(start(&world), 4, "compaction keeps the last of each key");
    change(&mut world, topic(), "cleanup.policy", Some("compact,delete"));
    world.pass(300_000);
    assert_eq!((start(&world), runs(&world)), (12, vec![]));
}

#[test]
fn deleted_records_inside_a_part_are_not_read() {
    let mut world = six();
    rewrite(&mut world, 0, 6, 6, 1);
    assert_eq!(world.delete_before(p0(), 5), Ok(5));
    assert!(world.read(p0(), 4, Isolation::Uncommitted).is_err());
    let plan = world.read(p0(), 5, Isolation::Uncommitted).unwrap();
    let [Source::Part { from, to, .. }] = plan.sources[..] else { panic!("{plan:?}") };
    assert_eq!((from, to, plan.most), (Offset(5), Offset(12), 600));
    world.append(LogRecord::Partitions(PartitionRecord::LogStartMoved(LogStartMoved {
        partition: p0(),
        log_start: Offset(12),
    })));
    assert_eq!(runs(&world), []);
    assert!(!world.shard.partitions().needs_log(LogPosition(0), LogPosition(u64::MAX)));
}
