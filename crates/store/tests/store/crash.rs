//! Random histories with a fault at every step: acknowledged records are recovered in order, without a gap.

use crate::common::{Chance, Ledger, batch, free_before, open, open_with, quiet, row, small, stored};
use ottla_store::testing::{Fault, FaultMedium};
use ottla_store::{Callbacks, Durability, Log, Options};
use ottla_types::LogPosition;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The machine loses power.
    Power,
    /// The process is killed.
    Kill,
}

/// One run of a process: opens the log, checks the recovered records, and does random operations until the run is over
/// or fails.
fn live(medium: &FaultMedium, options: Options, chance: &mut Chance, ledger: &mut Ledger, what: &str) {
    let told = Arc::new(AtomicU64::new(0));
    let listener = Arc::clone(&told);
    let callbacks = Callbacks {
        on_durable: Box::new(move |position| listener.store(position.0, Ordering::SeqCst)),
        on_failure: Box::new(|_| {}),
    };
    let Ok((mut opened, replay)) = open_with(medium, options, callbacks) else {
        return;
    };
    ledger.check(&replay, what);
    // A record that was recovered once must never be lost later.
    ledger.durable = ledger.durable.max(opened.recovery.end);
    for _ in 0..chance.below(40) {
        act(&mut opened.log, chance, ledger);
        let durable = LogPosition(told.load(Ordering::SeqCst));
        if options.durability == Durability::Sync {
            ledger.durable = ledger.durable.max(durable);
        }
    }
    if chance.below(3) > 0 {
        // Killed: nothing is closed.
        std::mem::forget(opened);
    } else if opened.log.close().is_ok() {
        ledger.durable = ledger.appended.last().map_or(ledger.durable, |(place, _)| place.end);
    }
}

fn act(log: &mut Log, chance: &mut Chance, ledger: &mut Ledger) {
    let number = ledger.appended.len() as u64;
    let record = match chance.below(12) {
        0..4 => small(number),
        4..6 => batch(number, 100 + chance.below(25_000) as usize),
        6..9 => {
            log.kick();
            return log.drive();
        }
        9 => return log.drive(),
        10 => {
            log.kick();
            log.drive();
            let rows: Vec<_> = ledger.appended.iter().map(|(_, record)| row(record)).collect();
            let _ = log.snapshotter().write(log.end(), &mut rows.into_iter());
            return;
        }
        _ => {
            free_before(log, log.durable());
            return;
        }
    };
    if let Ok(place) = log.append(&record) {
        ledger.appended.push((place, record));
    }
}

/// Runs until one ends by the fault at `step`, then two more runs and a final check.
fn story(seed: u64, options: Options, step: u64, fault: Fault, end: End) -> bool {
    let medium = FaultMedium::new(seed);
    medium.fail_at(step, fault);
    let mut chance = Chance(seed);
    let mut ledger = Ledger::default();
    let what = format!("seed {seed}, {fault:?} at step {step}, then {end:?}");
    live(&medium, options, &mut chance, &mut ledger, &what);
    live(&medium, options, &mut chance, &mut ledger, &what);
    let struck = medium.steps() >= step;
    let mut medium = match end {
        End::Power => medium.crash(),
        End::Kill => medium.restart(),
    };
    for life in 0..3 {
        live(&medium, options, &mut chance, &mut ledger, &format!("{what}, life {life} after"));
        medium = if chance.below(2) == 0 { medium.crash() } else { medium.restart() };
    }
    let medium = medium.crash();
    let (_, replay) = open_with(&medium, options, Callbacks::none())
        .unwrap_or_else(|error| panic!("{what}: the last opening: {error}"));
    ledger.check(&replay, &what);
    struck
}

fn every_step(seeds: std::ops::Range<u64>, options: Options, fault: Fault, end: End) {
    for seed in seeds {
        let mut step = 1;
        while story(seed, options, step, fault, end) {
            step += 1;
        }
        assert!(step > 10, "seed {seed} did nothing");
    }
}

#[test]
fn power_lost_at_every_step() {
    every_step(0..4, quiet(), Fault::Crash, End::Power);
}

#[test]
fn power_lost_some_time_after_a_failed_call() {
    every_step(100..102, quiet(), Fault::Error, End::Power);
}

#[test]
fn t_258_killed_after_a_failed_call_and_power_lost_later() {
    every_step(200..202, quiet(), Fault::Error, End::Kill);
}

#[test]
fn without_syncs_a_prefix_comes_back() {
    let options = Options { durability: Durability::Os, ..quiet() };
    every_step(300..302, options, Fault::Crash, End::Power);
    every_step(306..307, options, Fault::Error, End::Kill);
}

#[test]
fn no_space_at_every_step() {
    every_step(400..402, quiet(), Fault::NoSpace, End::Power);
}

#[test]
fn without_syncs_a_snapshot_has_all_of_its_log_beside_it() {
    let options = Options { durability: Durability::Os, zero_fill: false, ..quiet() };
    // The log ends around the beginning of the second segment, also if the first was not synced yet.
    for count in 12..20 {
        for seed in 0..4 {
            let medium = FaultMedium::new(seed);
            let (mut opened, _) = open(&medium, options).unwrap();
            let mut places = Vec::new();
            for number in 0..count {
                places.push(opened.log.append(&batch(number, 3000)).unwrap().payload.unwrap());
                opened.log.kick();
                opened.log.drive();
            }
            let end = opened.log.end();
            opened.log.snapshotter().write(end, &mut std::iter::once(small(count))).unwrap();
            let after = medium.crash();
            drop(opened);
            let (again, replay) = open(&after, options).unwrap();
            assert!(again.log.end() >= end, "{count} batches, seed {seed}");
            assert_eq!(replay.snapshot.len(), 1, "{count} batches, seed {seed}");
            // What the snapshot refers to is there too.
            for (number, place) in places.into_iter().enumerate() {
                let bytes = again.log.reader().read(place, 3000).unwrap();
                assert_eq!(bytes, stored(&batch(number as u64, 3000)), "{count} batches, seed {seed}");
            }
        }
    }
}
