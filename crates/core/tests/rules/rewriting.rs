//! Plans of what goes into runs, and what of it is taken in.

use crate::world::{World, at, plain};
use ottla_core::Input;
use ottla_core::partitions::PartitionCommand;
use ottla_core::partitions::{Hole, Install, InstallParts, RetentionClass, RunBounds, RunEnds, TailPlan};
use ottla_types::record::{LogRecord, RunPart};
use ottla_types::{LogPosition, Millis, Offset, TopicPartition};

const MIB: u64 = 1 << 20;
const ALL: LogPosition = LogPosition(u64::MAX);
const BOUNDS: RunBounds = RunBounds { runs: 2, parts: 1000, scarce: false };

/// A part as a writer would leave it.
fn part(run: u64, from: i64, to: i64, bytes: u64) -> RunPart {
    RunPart {
        run,
        base_offset: Offset(from),
        last_offset: Offset(to),
        bytes,
        max_timestamp: Millis(0),
        appended: Millis(0),
        data: 4096,
        directory: 4096 + bytes,
        pages: 1,
        clean: false,
        horizon: Millis::NONE,
    }
}

fn plan(world: &World, below: LogPosition) -> TailPlan {
    let mut plan = TailPlan::new(below, usize::MAX);
    while !world.shard.plan_tail(&mut plan, 1) {}
    plan
}

/// Writes what is planned into one part for each partition, all in run `run`.
fn written(plan: &TailPlan, run: u64) -> Vec<Install> {
    let one = |mut install: Install| {
        install.parts = vec![part(run, install.from.0, install.to.0, install.bytes)];
        install
    };
    plan.ranges.iter().map(|range| one(range.install())).collect()
}

fn install(world: &mut World, installs: Vec<Install>) -> Vec<LogRecord> {
    let before = world.log.len();
    assert_eq!(world.step(Input::Partitions(PartitionCommand::InstallParts(InstallParts { installs }))), []);
    world.sync();
    world.log[before..].iter().map(|(_, record)| record.clone()).collect()
}

fn rewrite(world: &mut World, run: u64) {
    let installs = written(&plan(world, ALL), run);
    install(world, installs);
}

fn offsets(world: &World, partition: TopicPartition) -> (Vec<(i64, i64)>, usize) {
    let state = world.shard.partitions().get(partition).unwrap();
    let parts = state.parts().iter().map(|part| (part.base_offset.0, part.last_offset.0)).collect();
    (parts, state.tail_entries())
}

#[test]
fn a_plan_takes_what_ends_below_by_class_topic_and_partition() {
    let mut world = World::with(&[]);
    world.create_topic(3, 1, &[]);
    world.create_topic(1, 2, &[("retention.ms", "-1")]);
    world.create_topic(2, 1, &[("cleanup.policy", "compact,delete")]);
    for _ in 0..2 {
        world.write(at(3, 0), plain(2)).unwrap();
        world.write(at(1, 1), plain(1)).unwrap();
        world.write(at(1, 0), plain(1)).unwrap();
    }
    let last = world.log.len() - 1;
    let plan = plan(&world, world.log[last].0.position);
    let found: Vec<_> = plan
        .ranges
        .iter()
        .map(|range| (range.class.lifetime, range.partition, range.install().from.0, range.install().to.0))
        .collect();
    let week = 29;
    let ever = RetentionClass::FOR_EVER;
    // The last batch of partition 1-0 is not below.
    assert_eq!(found, [(week, at(3, 0), 0, 3), (ever, at(1, 0), 0, 0), (ever, at(1, 1), 0, 1)]);
    assert_eq!(plan.batches, 5);
}

#[test]
fn a_plan_is_bounded_and_the_next_one_takes_the_rest() {
    let mut world = World::new();
    for partition in 0..3 {
        world.write(at(1, partition), plain(1)).unwrap();
    }
    let mut first = TailPlan::new(ALL, 2);
    while !world.shard.plan_tail(&mut first, 1) {}
    assert_eq!(first.ranges.len(), 2);
    let installs = written(&first, 1);
    install(&mut world, installs);
    assert_eq!(plan(&world, ALL).ranges.iter().map(|range| range.partition).collect::<Vec<_>>(), [at(1, 2)]);
}

#[test]
fn markers_go_with_the_batches_before_them() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    world.end("t", me, true, true).unwrap();
    let range = plan(&world, ALL).ranges.remove(0);
    assert_eq!((range.batches.len(), range.install().to), (2, Offset(1)));
}

#[test]
fn what_was_written_takes_the_place_of_the_batches() {
    let mut world = World::new();
    world.write(at(1, 0), plain(3)).unwrap();
    world.write(at(1, 0), plain(2)).unwrap();
    assert!(world.shard.partitions().oldest_live().is_some());
    rewrite(&mut world, 7);
    assert_eq!(offsets(&world, at(1, 0)), (vec![(0, 4)], 0));
    assert_eq!(world.shard.partitions().oldest_live(), None);
    assert_eq!(world.replayed().snapshot(), world.shard.snapshot());
}

#[test]
fn parts_below_a_log_start_that_moved_meanwhile_are_left_out() {
    let mut world = World::new();
    for _ in 0..3 {
        world.write(at(1, 0), plain(2)).unwrap();
    }
    let mut installs = written(&plan(&world, ALL), 7);
    installs[0].parts = vec![part(7, 0, 1, 80), part(7, 2, 3, 80), part(7, 4, 5, 80)];
    world.delete_before(at(1, 0), 3).unwrap();
    let records = install(&mut world, installs);
    assert_eq!(records.len(), 1);
    assert_eq!(offsets(&world, at(1, 0)), (vec![(2, 3), (4, 5)], 0));
}

#[test]
fn nothing_is_taken_in_that_does_not_fit_any_more() {
    let installs = written(&plan(&world_of_two(), ALL), 7);
    // All of it was deleted; the topic was deleted; another job has rewritten it; it holds other data than was planned.
    let mut deleted = world_of_two();
    deleted.delete_before(at(1, 0), 4).unwrap();
    assert_eq!(install(&mut deleted, installs.clone()), []);
    let mut gone = world_of_two();
    gone.delete_topic(1);
    assert_eq!(install(&mut gone, installs.clone()), []);
    let mut other = world_of_two();
    let wrong = vec![Install { bytes: installs[0].bytes - 1, ..installs[0].clone() }];
    assert_eq!(install(&mut other, wrong), []);
    let cut = vec![Install { to: Offset(2), ..installs[0].clone() }];
    assert_eq!(install(&mut other, cut), []);
    assert_eq!(install(&mut other, installs).len(), 1);
}

/// Two batches of two records.
fn world_of_two() -> World {
    let mut world = World::new();
    world.write(at(1, 0), plain(2)).unwrap();
    world.write(at(1, 0), plain(2)).unwrap();
    world
}

#[test]
fn small_runs_of_the_largest_class_are_merged_when_there_are_too_many() {
    let mut world = World::new();
    for run in 1..=4 {
        world.write(at(1, 0), plain(1)).unwrap();
        world.write(at(1, 1), plain(1)).unwrap();
        rewrite(&mut world, run);
    }
    let files: RunEnds = (1..=4).map(|run| (run, 8192)).collect();
    let few = RunBounds { runs: 4, ..BOUNDS };
    assert_eq!(world.shard.plan_runs(&files, few).ranges, []);
    let scarce = RunBounds { scarce: true, ..BOUNDS };
    assert_eq!(world.shard.plan_runs(&files, scarce).ranges, []);
    let plan = world.shard.plan_runs(&files, BOUNDS);
    assert_eq!(plan.inputs.len(), 4);
    let whole: Vec<_> = plan.ranges.iter().map(|range| (range.partition, range.parts.len())).collect();
    assert_eq!(whole, [(at(1, 0), 4), (at(1, 1), 4)]);
    let installs = plan.ranges.iter().map(|range| {
        let install = range.install();
        let parts = vec![part(9, install.from.0, install.to.0, install.bytes)];
        Install { parts, ..install }
    });
    let installs = installs.collect();
    install(&mut world, installs);
    assert_eq!(world.shard.partitions().runs().map(|(run, _)| run).collect::<Vec<_>>(), [9]);
    assert_eq!(world.replayed().snapshot(), world.shard.snapshot());
}

#[test]
fn a_run_that_is_half_dead_is_written_again_and_what_lies_between_is_left() {
    let mut world = World::new();
    for run in 1..=3 {
        world.write(at(1, 0), plain(1)).unwrap();
        rewrite(&mut world, run);
    }
    let files: RunEnds = [(1, 20_000), (2, 8192), (3, 20_000)].into();
    let plan = world.shard.plan_runs(&files, RunBounds { runs: 100, scarce: true, ..BOUNDS });
    assert_eq!(plan.inputs.into_iter().collect::<Vec<_>>(), [1, 3]);
    // Run 2 lies between them, so they are two ranges.
    let froms: Vec<_> = plan.ranges.iter().map(|range| range.install().from.0).collect();
    assert_eq!(froms, [0, 2]);
}

#[test]
fn dead_ranges_of_a_mebibyte_are_punched() {
    let mut world = World::new();
    for partition in 0..3 {
        world.write(at(1, partition), plain(1)).unwrap();
    }
    let mut installs = written(&plan(&world, ALL), 1);
    for (number, install) in installs.iter_mut().enumerate() {
        let bytes = install.bytes;
        let data = 4096 + number as u64 * 2 * MIB;
        install.parts[0] = RunPart { data, directory: data + 2 * MIB - 4096, ..install.parts[0] };
        assert!(bytes < MIB);
    }
    install(&mut world, installs);
    let files: RunEnds = [(1, 4096 + 6 * MIB)].into();
    let holes = |world: &World| world.shard.plan_runs(&files, BOUNDS).holes;
    let hole = |from: u64, bytes: u64| Hole { run: 1, from, bytes };
    assert_eq!(holes(&world), []);
    world.delete_before(at(1, 0), 1).unwrap();
    assert_eq!(holes(&world), [hole(4096, 2 * MIB)]);
    world.delete_before(at(1, 2), 1).unwrap();
    assert_eq!(holes(&world), [hole(4096, 2 * MIB), hole(4096 + 4 * MIB, 2 * MIB)]);
}
