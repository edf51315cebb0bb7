//! Wall time may be set while the broker runs: timestamps and retention follow it, waits do not.

use crate::world::{World, at, batch, owner, plain};
use ottla_core::partitions::ProduceError;
use ottla_core::transactions::TransactionCheck;
use ottla_types::record::TransactionStatus;
use ottla_types::{BatchSummary, Millis};

const DAY: i64 = 86_400_000;
const YEAR: i64 = 365 * DAY;

fn stamped(time: i64) -> BatchSummary {
    BatchSummary { base_timestamp: Millis(time), max_timestamp: Millis(time), ..plain(1) }
}

fn set(world: &mut World, offset: i64) {
    world.shard.set_wall_offset(world.now, Millis(offset));
}

#[test]
fn timestamps_are_judged_by_the_wall_clock() {
    let mut world = World::new();
    let now = world.now.0;
    let refused = |result| matches!(result, Err(ProduceError::BadTimestamp { .. }));
    assert!(refused(world.write(at(1, 0), stamped(now + YEAR))));
    set(&mut world, YEAR);
    assert_eq!(world.write(at(1, 0), stamped(now + YEAR)), Ok(0));
    set(&mut world, 0);
    assert!(refused(world.write(at(1, 0), stamped(now + YEAR))), "and goes back with it");
    world.create_topic(2, 1, &[("message.timestamp.type", "LogAppendTime")]);
    for offset in [YEAR, -5000] {
        set(&mut world, offset);
        let appended = world.produce(None, TransactionCheck::Add, &[(at(2, 0), plain(1))]).remove(0).unwrap();
        assert_eq!(appended.log_append_time, Millis(now + offset));
    }
}

#[test]
fn retention_counts_from_the_wall_clock() {
    let mut world = World::new();
    world.write(at(1, 0), plain(1)).unwrap();
    world.write(at(1, 0), stamped(world.now.0 + 3_000_000)).unwrap();
    let start = |world: &World| world.shard.partitions().get(at(1, 0)).unwrap().log_start().0;
    world.pass(DAY);
    assert_eq!(start(&world), 0);
    set(&mut world, 7 * DAY);
    world.pass(300_000);
    assert!(start(&world) > 0);
}

#[test]
fn transactions_do_not_end_by_the_wall_clock_and_their_markers_carry_it() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    let status = |world: &World| world.shard.transactions().get("t").unwrap().state().status;
    for offset in [YEAR, -YEAR, 0, YEAR] {
        set(&mut world, offset);
        world.pass(1000);
        assert_eq!(status(&world), TransactionStatus::Ongoing);
    }
    world.end("t", me, true, true).unwrap();
    let marker = world.log.iter().rev().find_map(|(_, record)| crate::world::marker(record)).unwrap();
    assert_eq!(marker.at, world.now.after(Millis(YEAR)));
    let me = world.init("t", None).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    world.pass(61_000);
    assert_ne!(status(&world), TransactionStatus::Ongoing, "its own time runs as ever");
}

#[test]
fn a_resent_batch_is_known_after_the_wall_clock_was_set() {
    let mut world = World::new();
    let first = batch(owner(7, 0), 0, 1, false);
    assert_eq!(world.write(at(1, 0), first), Ok(0));
    set(&mut world, YEAR);
    world.pass(3_600_000);
    assert_eq!(world.write(at(1, 0), first), Ok(0), "the original's offset");
    world.pass(2 * DAY);
    assert_eq!(world.write(at(1, 0), first), Ok(1), "it is forgotten in time");
}
