//! Space is freed: deleted topics and records free their runs.

use crate::world::{SEGMENT, World, at};
use ottla_broker::host::NoRoom;

fn bytes(world: &World) -> u64 {
    world.files("run-").iter().map(|(_, size)| size).sum()
}

/// A world with two topics, in runs of their own or in one run, and no pending job.
fn filled() -> World {
    let mut world = World::new(&[]);
    world.create(1, &[]);
    world.create(2, &[]);
    for _ in 0..200 {
        world.produce(1, 8000).unwrap();
        world.produce(2, 5000).unwrap();
    }
    world.run(10);
    world
}

#[test]
fn runs_go_with_the_topics_that_they_hold() {
    let mut world = filled();
    let before = bytes(&world);
    world.delete(1);
    world.run(20);
    // Runs with half of their data deleted were rewritten.
    assert!(bytes(&world) < before * 6 / 10, "{} of {before}", bytes(&world));
    world.check();
    world.delete(2);
    world.run(20);
    assert_eq!(world.files("run-"), []);
}

#[test]
fn deleted_records_give_their_space_back() {
    let mut world = filled();
    let before = bytes(&world);
    for topic in [1, 2] {
        let end = world.driven.shard().partitions().get(at(topic)).unwrap().high_watermark();
        world.delete_before(topic, end.0 - 20);
    }
    world.run(20);
    assert!(bytes(&world) < before / 5, "{} of {before}", bytes(&world));
    world.check();
    world.restart(true);
    world.run(3);
    world.check();
}

#[test]
fn below_a_twentieth_of_free_space_only_data_is_refused_and_it_passes() {
    let mut world = World::new(&[]);
    world.create(1, &[]);
    let owner = world.init();
    for _ in 0..400 {
        world.produce(1, 20_000).unwrap();
    }
    world.produce_in(1, 10, owner, 0);
    world.run(10);
    // The log has space for four segments, which is little of eight mebibytes.
    world.medium.set_spare(4 * SEGMENT);
    world.run(2);
    assert_eq!(world.produce(1, 1000), Err(NoRoom));
    world.end(owner, true);
    let end = world.driven.shard().partitions().get(at(1)).unwrap().high_watermark();
    world.check();
    // Deletion frees space.
    world.delete_before(1, end.0 - 100);
    world.run(20);
    world.produce(1, 1000).unwrap();
    world.check();
}
