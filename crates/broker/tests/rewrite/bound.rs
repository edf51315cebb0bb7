//! The bound on the tail of the log: it is never exceeded, producers are slowed down before it, and no other request
//! waits.

use crate::world::{BOUND, World, poll};
use ottla_broker::host::NoRoom;
use ottla_store::testing::Fault;
use ottla_types::Millis;

/// Lets the log write but runs no job, as with the slowest possible rewriter.
fn turn(world: &mut World) {
    world.now = world.now.after(Millis(10));
    world.driven.turn(world.now);
    world.driven.write_log();
    world.driven.turn(world.now);
}

#[test]
fn producers_are_muted_above_three_quarters_and_wait_at_the_bound() {
    let mut world = World::new(&[]);
    world.create(1, &[]);
    let mut waiting = None;
    for _ in 0..200 {
        let before = world.tail();
        let mut offer = world.offer(1, 4000, None);
        let _ = poll(&mut offer);
        turn(&mut world);
        assert!(world.tail() <= BOUND, "the tail has {} bytes", world.tail());
        let Some(answer) = poll(&mut offer) else {
            waiting = Some(offer);
            break;
        };
        let mute = world.answered(1, 4000, answer).unwrap();
        assert_eq!(mute > Millis(0), before > BOUND * 3 / 4 && mute > Millis(0), "at {before} bytes");
    }
    let mut waiting = waiting.unwrap();
    assert!(world.tail() > BOUND * 3 / 4);
    // Commands without data are answered all the same, and later data does not overtake.
    let mut later = world.offer(1, 1, None);
    let _ = poll(&mut later);
    let host = world.driven.host().clone();
    let mut look = Box::pin(async move { host.settled().await });
    let _ = poll(&mut look);
    turn(&mut world);
    assert!(poll(&mut look).is_some());
    assert!(poll(&mut waiting).is_none() && poll(&mut later).is_none());
    assert!(world.driven.host().metrics().waited.get() >= 2);
    world.run(20);
    let (waiting, later) = (poll(&mut waiting).unwrap(), poll(&mut later).unwrap());
    world.answered(1, 4000, waiting).unwrap();
    world.answered(1, 1, later).unwrap();
    world.check();
}

#[test]
fn mutes_add_up_to_what_the_rewriter_manages() {
    let mut world = World::new(&[]);
    world.create(1, &[]);
    let mut muted = 0;
    for _ in 0..200 {
        let mut offer = world.offer(1, 4000, None);
        let _ = poll(&mut offer);
        world.driven.turn(world.now);
        world.driven.write_log();
        world.driven.turn(world.now);
        let Some(answer) = poll(&mut offer) else { break };
        muted = world.answered(1, 4000, answer).unwrap().0;
    }
    // Twelve batches or so above three quarters, at a hundred mebibytes a second and less.
    assert!((0..5).contains(&muted), "{muted} ms");
    assert!(world.tail() > BOUND * 3 / 4);
}

#[test]
fn a_bound_in_batches_holds_too() {
    let mut world = World::new(&[("ottla.tail.max.batches", "40")]);
    world.create(1, &[]);
    for _ in 0..300 {
        world.produce(1, 10).unwrap();
        let entries = world.driven.shard().partitions().tail_entries();
        assert!(entries <= 40, "{entries} batches");
    }
    world.check();
}

#[test]
fn a_rewriter_that_fails_leaves_nothing_behind_and_is_tried_again() {
    let mut world = World::new(&[]);
    world.create(1, &[]);
    let mut failed = 0;
    let mut refused = false;
    for _ in 0..400 {
        let mut offer = world.offer(1, 4000, None);
        let _ = poll(&mut offer);
        world.now = world.now.after(Millis(100));
        world.driven.turn(world.now);
        world.driven.write_log();
        if failed < 30 && world.driven.has_work() {
            // One of the first calls of a job fails: another one each time.
            failed += 1;
            world.medium.fail_at(world.medium.steps() + failed, Fault::Error);
            let before = world.medium.steps();
            world.driven.work();
            if world.medium.steps() < before + failed {
                break;
            }
        }
        world.driven.work();
        world.driven.turn(world.now);
        assert!(world.tail() <= BOUND);
        match poll(&mut offer) {
            None => {}
            Some(answer) => match world.answered(1, 4000, answer) {
                Ok(_) => {}
                Err(NoRoom) => refused = true,
            },
        }
    }
    assert!(failed > 5 && refused, "{failed} failures");
    world.restart(false);
    world.check();
    assert!(world.files("run-").iter().all(|(name, _)| !name.ends_with(".tmp")));
}
