//! Whatever is moved, every acknowledged batch can be read, once and in order.

use crate::world::{BOUND, SEGMENT, World, at};
use ottla_store::testing::Fault;

/// Fills the topics in turn until the log has this many segments.
fn fill(world: &mut World, topics: &[u8], segments: u64) {
    let until = world.driven.ends().0.0 + segments * SEGMENT;
    let mut size = 500;
    while world.driven.ends().0.0 < until {
        for topic in topics {
            size = (size * 7 + 311) % 9000;
            world.produce(*topic, size).unwrap();
            assert!(world.tail() <= BOUND, "the tail has {} bytes", world.tail());
        }
    }
}

#[test]
fn what_goes_into_runs_is_what_was_produced() {
    let mut world = World::new(&[]);
    for topic in 1..=3 {
        world.create(topic, &[("segment.bytes", "1048576")]);
    }
    fill(&mut world, &[1, 2, 1, 3], 20);
    let owner = world.init();
    world.produce_in(2, 3000, owner, 0);
    let owner = world.end(owner, false);
    world.produce_in(2, 3000, owner, 0);
    world.end(owner, true);
    fill(&mut world, &[1, 3], 10);
    world.check();
    let parts = |topic| world.driven.shard().partitions().get(at(topic)).unwrap().parts().to_vec();
    assert!((1..=3).all(|topic| parts(topic).len() > 3));
    // Both markers were moved with it, as batches of their own.
    let markers = world.batches(at(2)).iter().filter(|batch| batch[22] & 0x20 != 0).count();
    assert_eq!(markers, 2);
    world.restart(false);
    world.run(3);
    world.check();
    world.restart(true);
    world.run(3);
    world.check();
}

#[test]
fn segments_are_freed_behind_the_rewriter() {
    let mut world = World::new(&[]);
    world.create(1, &[]);
    fill(&mut world, &[1], 40);
    // Old snapshots pin some, and two are kept as spares.
    assert!(world.files("segment-").len() < 14, "{:?}", world.files("segment-"));
    assert!(world.files("run-").len() > 5);
}

#[test]
fn an_old_batch_in_every_segment_pins_none_of_them() {
    let mut world = World::new(&[]);
    world.create(1, &[]);
    world.create(2, &[]);
    // The batches between those of topic 1 are deleted at once.
    for _ in 0..40 {
        world.produce(1, 100).unwrap();
        for _ in 0..2 {
            world.produce(2, 20_000).unwrap();
        }
        let end = world.driven.shard().partitions().get(at(2)).unwrap().high_watermark();
        world.delete_before(2, end.0);
    }
    world.run(10);
    assert!(world.tail() <= BOUND);
    assert!(world.files("segment-").len() < 14, "{:?}", world.files("segment-"));
    world.check();
}

#[test]
fn small_runs_are_merged_and_nothing_is_lost_by_it() {
    let mut world = World::new(&[("ottla.runs.max", "4")]);
    for topic in 1..=3 {
        world.create(topic, &[("retention.ms", if topic == 3 { "-1" } else { "86400000" })]);
    }
    for round in 0..12 {
        fill(&mut world, &[1, 2, 3], 4);
        world.run(5);
        assert!(world.files("run-").len() <= 8, "round {round}: {:?}", world.files("run-"));
        world.check();
    }
    // Merging has put parts together too.
    let parts = world.driven.shard().partitions().get(at(1)).unwrap().parts().len();
    assert!(parts < 12, "{parts} parts");
    world.restart(true);
    world.run(3);
    world.check();
}

#[test]
fn a_crash_at_any_call_of_a_job_loses_nothing() {
    for step in 1..30 {
        let mut world = World::new(&[("ottla.runs.max", "2")]);
        world.create(1, &[]);
        world.create(2, &[("retention.ms", "-1")]);
        fill(&mut world, &[1, 2], 6);
        // A job is due with the next segments. Replies before the crash count.
        world.medium.fail_at(world.medium.steps() + step * 5, Fault::Crash);
        for _ in 0..60 {
            if !world.medium.is_alive() {
                break;
            }
            world.now = world.now.after(ottla_types::Millis(1000));
            let mut offer = world.offer(1, 2000, None);
            let _ = crate::world::poll(&mut offer);
            world.driven.turn(world.now);
            world.driven.write();
            world.driven.turn(world.now);
            if let Some(done) = crate::world::poll(&mut offer)
                && world.medium.is_alive()
            {
                world.answered(1, 2000, done).unwrap();
            }
        }
        world.restart(true);
        let all = world.driven.shard().partitions().runs().count();
        assert_eq!(world.files("run-").len(), all, "step {step}: a file that nothing refers to");
        world.run(3);
        let reached: Vec<i64> = world.expected[&at(1)].iter().map(|(base, _)| *base).collect();
        let found: Vec<i64> = world
            .batches(at(1))
            .iter()
            .map(|batch| i64::from_be_bytes(batch[..8].try_into().unwrap()))
            .collect();
        // One more batch may be there: its reply was lost.
        assert!(found.starts_with(&reached) && found.len() <= reached.len() + 1, "step {step}");
    }
}
