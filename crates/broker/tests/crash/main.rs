//! The law of replay on a disk: after a crash at any instant, a restart finds the state after some prefix of the
//! records, and that prefix covers every reply that was released.
#![expect(clippy::unwrap_used, reason = "a step that fails ends its test")]

mod history;
mod life;

use history::{Chance, History};
use life::{Ledger, Life};
use ottla_store::testing::{Fault, FaultMedium};
use std::collections::BTreeSet;

/// Events before the fault, and after each restart.
const EVENTS: (usize, usize) = (100, 25);

/// Runs a history until it ends or the medium fails.
fn live(medium: &FaultMedium, ledger: &mut Ledger, chance: &mut Chance, events: usize) {
    let Some(mut life) = Life::open(medium, ledger) else { return };
    let mut history = History::resume(&life.shard, chance);
    for _ in 0..events {
        history.event(&mut life, ledger, chance);
        if life.log.failure().is_some() {
            break;
        }
    }
    ledger.told(life.durable());
    // Killed: the dropped log writes nothing more.
    medium.fail_at(medium.steps() + 1, Fault::Crash);
}

/// Runs the history of a seed with a fault at the call number `step`. Returns false if it ended before that call.
fn story(seed: u64, step: u64, fault: Fault) -> bool {
    let medium = FaultMedium::new(seed.wrapping_mul(1000) + step);
    medium.fail_at(step, fault);
    let mut ledger = Ledger::new(format!("seed {seed}, {fault:?} at call {step}"));
    live(&medium, &mut ledger, &mut Chance(seed), EVENTS.0);
    let struck = medium.steps() >= step;
    // The events after the fault differ from step to step; a second crash may occur during the restart.
    let mut chance = Chance(seed ^ (step << 20));
    let second = medium.crash();
    second.fail_at(second.steps() + 1 + chance.below(60), Fault::Crash);
    live(&second, &mut ledger, &mut chance, EVENTS.1);
    let last = second.crash();
    live(&last, &mut ledger, &mut chance, EVENTS.1);
    assert!(Life::open(&last.crash(), &mut ledger).is_some(), "{}: the last restart", ledger.what);
    struck
}

fn every_call(seeds: std::ops::RangeInclusive<u64>, fault: Fault) {
    for seed in seeds {
        let mut step = 1;
        while story(seed, step, fault) {
            step += 1;
        }
        assert!(step > 40, "seed {seed} did only {step} calls");
    }
}

#[test]
fn t_259_t_260_a_crash_at_every_call_leaves_a_prefix_with_all_that_was_told() {
    every_call(1..=8, Fault::Crash);
}

#[test]
fn so_does_a_crash_some_time_after_a_failed_call() {
    every_call(11..=12, Fault::Error);
}

#[test]
fn so_does_a_crash_some_time_after_a_call_found_no_space() {
    every_call(21..=23, Fault::NoSpace);
}

#[test]
fn without_a_crash_everything_is_there() {
    let mut kinds = BTreeSet::new();
    let (mut pieces, mut snapshots) = (0, 0);
    for seed in 100..110 {
        let medium = FaultMedium::new(seed);
        let mut ledger = Ledger::new(format!("seed {seed}, no crash"));
        live(&medium, &mut ledger, &mut Chance(seed), 200);
        kinds.append(&mut ledger.kinds());
        pieces += ledger.pieces;
        snapshots += ledger.snapshots;
        assert!(Life::open(&medium.restart(), &mut ledger).is_some());
    }
    // The histories reach enough kinds of records.
    let wanted = [
        "BatchAppended",
        "TransactionEnded",
        "OffsetsCommitted",
        "OffsetsStaged",
        "TopicDeleted",
        "LogStartMoved",
    ];
    wanted.iter().for_each(|kind| assert!(kinds.contains(*kind), "no {kind}: {kinds:?}"));
    assert!(snapshots >= 10 && pieces >= 3 * snapshots, "{snapshots} snapshots of {pieces} pieces");
}
