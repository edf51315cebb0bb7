//! Which partitions are compacted when, and what a partition forgets when it was.

use crate::world::{World, at, plain};
use ottla_core::Input;
use ottla_core::compaction::Compactable;
use ottla_core::partitions::PartitionCommand;
use ottla_core::partitions::{Install, InstallParts};
use ottla_types::record::RunPart;
use ottla_types::{Millis, Offset, TopicPartition};
use std::collections::BTreeSet;

const COMPACT: (&str, &str) = ("cleanup.policy", "compact");

fn plan(world: &World) -> Vec<Compactable> {
    world.shard.plan_compaction(world.now, &BTreeSet::new())
}

fn places(world: &World) -> Vec<(TopicPartition, i64, i64)> {
    plan(world).iter().map(|one| (one.partition, one.dirty.0, one.to().0)).collect()
}

/// Puts a clean part in the place of what a plan has up to `to`, as if nothing but its first record had stayed.
fn compact(world: &mut World, one: &Compactable, run: u64, to: i64) {
    let part = RunPart {
        run,
        base_offset: one.first(),
        last_offset: one.first(),
        bytes: 70,
        max_timestamp: Millis(1_000_000),
        appended: Millis(0),
        data: 4096,
        directory: 4166,
        pages: 0,
        clean: true,
        horizon: Millis::NONE,
    };
    let installs: Vec<Install> = vec![one.install(Offset(to), vec![part])];
    world.step(Input::Partitions(PartitionCommand::InstallParts(InstallParts { installs })));
    world.sync();
}

#[test]
fn compacted_topics_are_due_when_their_end_is_old_enough() {
    let mut world = World::with(&[("log.retention.ms", "-1")]);
    world.create_topic(1, 1, &[]);
    world.create_topic(2, 1, &[COMPACT, ("segment.ms", "1000")]);
    world.create_topic(3, 1, &[COMPACT, ("segment.ms", "1000"), ("min.compaction.lag.ms", "5000")]);
    world.create_topic(4, 1, &[("cleanup.policy", "compact,delete")]);
    for topic in 1..=4 {
        world.write(at(topic, 0), plain(3)).unwrap();
    }
    assert_eq!(places(&world), []);
    world.pass(1000);
    assert_eq!(places(&world), [(at(2, 0), 0, 2)]);
    world.pass(4000);
    assert_eq!(places(&world), [(at(2, 0), 0, 2), (at(3, 0), 0, 2)]);
    assert_eq!(world.shard.plan_compaction(world.now, &BTreeSet::from([at(2, 0)])).len(), 1);
    world.pass(7 * 86_400_000);
    assert_eq!(places(&world).len(), 3);
    // The state of a new class comes first, and what is planned is there again after a restart.
    let before = plan(&world);
    assert!(before.is_sorted_by_key(|one| (one.class, one.partition)));
    world.restart_from_snapshot();
    assert_eq!(plan(&world), before);
}

#[test]
fn t_212_nothing_past_the_last_stable_offset_is_compacted() {
    let mut world = World::with(&[]);
    world.create_topic(1, 1, &[COMPACT, ("segment.ms", "1"), ("min.cleanable.dirty.ratio", "0")]);
    let me = world.init_with("t", None, 900_000).unwrap();
    world.write(at(1, 0), plain(2)).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    world.write(at(1, 0), plain(1)).unwrap();
    world.pass(10);
    assert_eq!(places(&world), [(at(1, 0), 0, 1)]);
    world.end("t", me, false, true).unwrap();
    world.pass(10);
    assert_eq!(places(&world), [(at(1, 0), 0, 4)]);
    let one = plan(&world).remove(0);
    assert_eq!((one.last, one.aborted.len(), one.producers.len()), (Offset(4), 1, 1));
    compact(&mut world, &one, 1, 4);
    assert_eq!(places(&world), []);
    world.write(at(1, 0), plain(1)).unwrap();
    world.pass(10);
    assert_eq!(places(&world), [(at(1, 0), 1, 5)]);
}

#[test]
fn b_66_an_aborted_transaction_is_remembered_until_all_of_its_data_is_gone() {
    let mut world = World::with(&[]);
    world.create_topic(1, 1, &[COMPACT, ("segment.ms", "1"), ("min.cleanable.dirty.ratio", "0")]);
    let me = world.init("t", None).unwrap();
    let mut me = me;
    for _ in 0..2 {
        for sequence in 0..5 {
            world.write_in("t", me, at(1, 0), sequence).unwrap();
        }
        me = world.end("t", me, false, true).unwrap();
    }
    world.pass(10);
    let aborted = |world: &World| {
        let all = world.shard.partitions().get(at(1, 0)).unwrap().aborted_between(Offset(0), Offset(100));
        all.iter().map(|one| (one.first_offset.0, one.marker_offset.0)).collect::<Vec<_>>()
    };
    assert_eq!(aborted(&world), [(0, 5), (6, 11)]);
    let one = plan(&world).remove(0);
    assert_eq!((one.first(), one.to()), (Offset(0), Offset(11)));
    compact(&mut world, &one, 1, 8);
    // Half of the second transaction is there, and so a reader of it must hear of it.
    assert_eq!(aborted(&world), [(6, 11)]);
    world.restart_from_snapshot();
    assert_eq!(aborted(&world), [(6, 11)]);
    world.pass(10);
    let one = plan(&world).remove(0);
    assert_eq!((one.first(), one.dirty, one.to()), (Offset(0), Offset(1), Offset(11)));
    assert_eq!(one.aborted.len(), 1);
    compact(&mut world, &one, 2, 11);
    assert_eq!(aborted(&world), []);
    assert_eq!(world.replayed().snapshot(), world.shard.snapshot());
}
