//! Failed calls and full media.

use crate::common::{batch, free_before, open, open_with, quiet, small};
use ottla_store::testing::{Fault, FaultMedium};
use ottla_store::{AppendError, Callbacks, LogFailure, Options, SnapshotFailure, SpaceLevel};
use std::sync::{Arc, Mutex, mpsc};

/// Callbacks that collect failures.
fn listening() -> (Callbacks, Arc<Mutex<Vec<LogFailure>>>) {
    let failures = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&failures);
    let on_failure = move |failure: &LogFailure| {
        if let Ok(mut failures) = listener.lock() {
            failures.push(failure.clone());
        }
    };
    (Callbacks { on_durable: Box::new(|_| {}), on_failure: Box::new(on_failure) }, failures)
}

#[test]
fn a_failed_write_or_sync_ends_the_log_and_is_never_tried_again() {
    // The writer's calls for one group: a write, a sync.
    for (call, doing) in [(1, "writing"), (2, "syncing")] {
        let medium = FaultMedium::new(1);
        let (callbacks, failures) = listening();
        let (mut opened, _) = open_with(&medium, quiet(), callbacks).unwrap();
        opened.log.append(&small(1)).unwrap();
        opened.log.flush().unwrap();
        let durable = opened.log.durable();
        medium.fail_at(medium.steps() + call, Fault::Error);
        opened.log.append(&small(2)).unwrap();
        let failure = opened.log.flush().unwrap_err();
        assert_eq!((failure.doing, failure.file.as_str()), (doing, "segment-000000000000"));
        assert_eq!(*failures.lock().unwrap(), std::slice::from_ref(&failure));
        let steps = medium.steps();
        assert_eq!(opened.log.append(&small(3)).unwrap_err(), AppendError::Ended(failure.clone()));
        opened.log.kick();
        opened.log.drive();
        let refused = opened.log.snapshotter().write(durable, &mut std::iter::empty());
        assert!(matches!(refused, Err(SnapshotFailure::Ended(_))));
        assert_eq!(opened.log.close(), Err(failure));
        assert_eq!(medium.steps(), steps, "nothing more may touch the medium");
        assert_eq!(failures.lock().unwrap().len(), 1);
    }
}

#[test]
fn with_threads_a_failure_is_told_and_ends_everything() {
    let medium = FaultMedium::new(1);
    let (sender, receiver) = mpsc::channel();
    let callbacks = Callbacks {
        on_durable: Box::new(|_| {}),
        on_failure: Box::new(move |failure| {
            let _ = sender.send(failure.clone());
        }),
    };
    let options = Options { threads: true, zero_fill: false, ..quiet() };
    let (mut opened, _) = open_with(&medium, options, callbacks).unwrap();
    medium.fail_at(medium.steps() + 2, Fault::Error);
    opened.log.append(&small(1)).unwrap();
    opened.log.kick();
    assert_eq!(receiver.recv().unwrap().doing, "syncing");
    assert!(matches!(opened.log.append(&small(2)), Err(AppendError::Ended(_))));
    assert!(opened.log.flush().is_err());
}

/// Appends batches as a host does, until there is no space for data.
fn fill_up(log: &mut ottla_store::Log) -> u64 {
    let mut number = 0;
    while log.space() != SpaceLevel::Full {
        assert!(log.append(&batch(number, 9000)).is_ok());
        assert_eq!(log.flush(), Ok(()));
        number += 1;
        assert!(number < 1000, "the medium never filled up");
    }
    number
}

#[test]
fn a_full_medium_refuses_data_keeps_small_records_and_recovers_when_segments_are_freed() {
    let medium = FaultMedium::new(1);
    medium.set_capacity(6 * (64 << 10));
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    assert_eq!(opened.log.space(), SpaceLevel::Plenty);
    let batches = fill_up(&mut opened.log);
    assert!(batches >= 15, "{batches} batches fit");
    for number in 0..3 {
        opened.log.append(&small(number)).unwrap();
        opened.log.flush().unwrap();
    }
    // Segments leave space for snapshots, because without a snapshot no segment can be freed.
    assert!(ottla_store::Medium::free_space(&medium).unwrap() >= 64 << 10);
    let end = opened.log.end();
    opened.log.snapshotter().write(end, &mut (0..6).map(small)).unwrap();
    opened.log.append(&small(7)).unwrap();
    assert!(!free_before(&opened.log, end).is_empty());
    opened.log.flush().unwrap();
    assert_ne!(opened.log.space(), SpaceLevel::Full);
    opened.log.append(&batch(99, 9000)).unwrap();
    opened.log.close().unwrap();
    let (_, replay) = open(&medium, quiet()).unwrap();
    assert_eq!(replay.snapshot.len(), 6);
    assert_eq!(replay.entries.len(), 2);
}

#[test]
fn when_even_the_reserve_is_used_up_an_append_is_refused_and_the_log_goes_on() {
    let medium = FaultMedium::new(1);
    medium.set_capacity(3 * (64 << 10));
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    let mut kept = fill_up(&mut opened.log);
    let error = loop {
        match opened.log.append(&small(kept)) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        opened.log.flush().unwrap();
    };
    assert_eq!(error, AppendError::Full);
    assert_eq!(opened.log.failure(), None);
    medium.set_capacity(u64::MAX);
    opened.log.drive();
    assert_eq!(opened.log.space(), SpaceLevel::Plenty);
    opened.log.append(&small(kept)).unwrap();
    opened.log.close().unwrap();
    assert_eq!(open(&medium, quiet()).unwrap().1.entries.len() as u64, kept + 1);
}

#[test]
fn with_threads_the_log_finds_out_by_itself_that_there_is_room_again() {
    let medium = FaultMedium::new(1);
    medium.set_capacity(3 * (64 << 10));
    let options = Options { threads: true, ..quiet() };
    let (mut opened, _) = open(&medium, options).unwrap();
    fill_up(&mut opened.log);
    medium.set_capacity(u64::MAX);
    while opened.log.space() != SpaceLevel::Plenty {
        std::thread::yield_now();
    }
    opened.log.append(&batch(1, 9000)).unwrap();
    opened.log.flush().unwrap();
}

#[test]
fn a_snapshot_that_cannot_be_written_leaves_log_and_older_snapshots_alone() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    opened.log.append(&small(1)).unwrap();
    opened.log.flush().unwrap();
    let first = opened.log.end();
    opened.log.snapshotter().write(first, &mut std::iter::once(small(1))).unwrap();
    opened.log.append(&small(2)).unwrap();
    let end = opened.log.end();
    let early = opened.log.snapshotter().write(end, &mut std::iter::empty());
    assert!(matches!(early, Err(SnapshotFailure::NotDurable { .. })));
    opened.log.flush().unwrap();
    // The calls: create, two writes, sync, six reads, a size, rename, names.
    for call in 1..=4 {
        medium.fail_at(medium.steps() + call, Fault::NoSpace);
        let failed = opened.log.snapshotter().write(opened.log.end(), &mut std::iter::empty());
        assert!(matches!(failed, Err(SnapshotFailure::Medium { .. })), "call {call}");
    }
    assert_eq!(opened.log.failure(), None);
    opened.log.append(&small(3)).unwrap();
    opened.log.close().unwrap();
    let (opened, replay) = open(&medium, quiet()).unwrap();
    assert_eq!(opened.recovery.snapshot, Some(first));
    assert_eq!(replay.records(), [small(2), small(3)]);
    assert!(medium.files().iter().all(|(name, _)| !name.ends_with(".tmp")));
}
