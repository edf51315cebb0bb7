//! Runs and faults: a crash at every step of writing and of removing, a full medium, and damaged bytes.

use crate::common::{open, quiet, small};
use crate::runs::{Sizes, mixed, partition, record_batch, write};
use ottla_store::inspect::Folder;
use ottla_store::testing::{Fault, FaultMedium};
use ottla_store::{Durability, Log, Medium, Options, PartEnd, ReadRange, RunError, Runs};
use ottla_types::record::RunPart;
use ottla_types::{Millis, Offset};
use std::collections::BTreeSet;
use std::sync::Arc;

const RUN: u64 = 7;
const NAME: &str = "run-000000000007";

fn log_with(medium: &FaultMedium, options: Options) -> Log {
    let Ok((opened, _)) = open(medium, options) else {
        unreachable!("an undamaged folder");
    };
    opened.log
}

fn bytes_of(sizes: &Sizes) -> Vec<u8> {
    sizes.iter().flat_map(|(base, count, time, size)| record_batch(*base, *count, *time, *size)).collect()
}

fn all() -> ReadRange {
    ReadRange { from: Offset(0), to: Offset(i64::MAX), max_bytes: usize::MAX, first_whole: true }
}

/// Enough parts for several writes.
fn parts() -> Vec<Sizes> {
    vec![mixed(30, 900), mixed(60, 90_000), mixed(2, 100)]
}

fn run_names(medium: &FaultMedium) -> Vec<String> {
    medium.files().into_iter().map(|(name, _)| name).filter(|name| name.starts_with("run-")).collect()
}

#[test]
fn a_run_is_written_whole_or_not_at_all() {
    let mut ended = [0; 2];
    for fault in [Fault::Crash, Fault::Error, Fault::NoSpace] {
        for step in 1.. {
            let medium = FaultMedium::new(step);
            let log = log_with(&medium, quiet());
            let begin = medium.steps();
            medium.fail_at(begin + step, fault);
            let written = write(&log.runs(), RUN, &parts());
            ended[usize::from(written.is_ok())] += 1;
            let what = format!("{fault:?} at step {step}: {written:?}");
            if written.is_ok() && medium.steps() < begin + step {
                assert!(step > 7, "{what}");
                break;
            }
            if written.is_err() && fault != Fault::Crash {
                assert!(run_names(&medium).is_empty(), "{what}");
                assert!(write(&log.runs(), RUN, &parts()).is_ok(), "{what}");
            }
            drop(log);
            let after = medium.crash();
            let log = log_with(&after, quiet());
            let must = written.is_ok() || fault != Fault::Crash;
            assert!(!must || log.runs().list() == [RUN], "{what}");
            assert_eq!(run_names(&after).len(), log.runs().list().len(), "{what}");
            check_if_there(&log.runs(), &what);
        }
    }
    assert!(ended.iter().all(|count| *count > 0), "{ended:?}");
}

fn check_if_there(runs: &Runs, what: &str) {
    if runs.list().is_empty() {
        return;
    }
    assert!(runs.settle(&BTreeSet::from([RUN])).is_ok(), "{what}");
    let Ok(rows) = runs.parts(RUN) else {
        unreachable!("the table can be read");
    };
    assert_eq!(rows.len(), parts().len());
    for (row, sizes) in rows.iter().zip(parts()) {
        let read = runs.read(&row.part, all()).map(|slice| slice.bytes.to_vec());
        assert_eq!(read.unwrap_or_default(), bytes_of(&sizes), "{what}");
        assert!(runs.verify(*row).faults.is_empty(), "{what}");
    }
}

#[test]
fn a_run_never_goes_before_the_record_that_lets_it_go_is_durable() {
    let mut gone = 0;
    for durability in [Durability::Sync, Durability::Os] {
        for step in 1.. {
            let medium = FaultMedium::new(step);
            let options = Options { durability, ..quiet() };
            let mut log = log_with(&medium, options);
            let part = write(&log.runs(), RUN, &parts()).unwrap()[1];
            let begin = medium.steps();
            medium.fail_at(begin + step, Fault::Crash);
            let _ = log.append(&small(1));
            log.runs().punch(RUN, Runs::extent(&part));
            log.runs().remove(&[RUN]);
            let _ = log.flush();
            log.drive();
            let over = medium.steps() < begin + step;
            std::mem::forget(log);
            let (opened, replay) = open(&medium.crash(), options).unwrap();
            let there = opened.log.runs().list() == [RUN];
            let whole = || opened.log.runs().read(&part, all()).is_ok_and(|slice| slice.complete);
            let lets_go = replay.records().contains(&small(1));
            assert!(lets_go || (there && whole()), "{durability:?}, step {step}");
            gone += usize::from(!there);
            if over {
                break;
            }
        }
    }
    assert!(gone > 0);
}

#[test]
fn a_full_medium_is_a_clean_error() {
    let medium = FaultMedium::new(1);
    let log = log_with(&medium, quiet());
    let before = medium.free_space().unwrap();
    for spare in [0, 1 << 20, 2 << 20] {
        medium.set_spare(spare);
        let error = write(&log.runs(), RUN, &parts()).unwrap_err();
        assert!(error.is_shortage(), "{error}");
        assert!(run_names(&medium).is_empty());
        assert_eq!(medium.free_space().unwrap(), spare);
    }
    medium.set_capacity(u64::MAX);
    assert!(medium.free_space().unwrap() >= before);
    write(&log.runs(), RUN, &parts()).unwrap();
}

#[test]
fn handles_are_bounded_and_a_run_that_was_closed_is_opened_again() {
    let medium = FaultMedium::new(1);
    let log = log_with(&medium, quiet());
    let sizes = mixed(5, 300);
    let parts: Vec<RunPart> = (1..=150)
        .map(|number| write(&log.runs(), number, std::slice::from_ref(&sizes)).unwrap()[0])
        .collect();
    for _ in 0..2 {
        for part in &parts {
            assert_eq!(log.runs().read(part, all()).unwrap().bytes, bytes_of(&sizes));
        }
    }
    // Every run was opened again: its header and footer are read, then the part.
    let before = medium.steps();
    log.runs().read(&parts[0], all()).unwrap();
    assert_eq!(medium.steps() - before, 5);
    let before = medium.steps();
    log.runs().read(&parts[0], all()).unwrap();
    assert_eq!(medium.steps() - before, 1);
}

/// A folder with one run: a small part, and one with pages; and the bytes of their batches.
fn folder() -> (FaultMedium, Vec<RunPart>, Vec<Sizes>, Vec<Vec<u8>>) {
    let medium = FaultMedium::new(1);
    let sizes = vec![mixed(12, 900), mixed(110, 1300)];
    let log = log_with(&medium, quiet());
    let Ok(parts) = write(&log.runs(), RUN, &sizes) else {
        unreachable!("a medium without faults");
    };
    assert!(parts[0].pages == 0 && parts[1].pages == 1);
    drop(log);
    let wholes = sizes.iter().map(bytes_of).collect();
    (medium.restart(), parts, sizes, wholes)
}

/// The outcome of one kind of read of a damaged run.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Right,
    /// Correct, except for batches whose own checksum shows the damage to the client.
    GivenAway,
    Refused,
}

fn judge(read: Result<Vec<u8>, RunError>, whole: &[u8], what: &str) -> Outcome {
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(NAME) && text.contains("offset"), "{what}: {text}");
            return Outcome::Refused;
        }
    };
    assert_eq!(bytes.len(), whole.len(), "{what}: bytes are missing");
    if bytes == whole {
        return Outcome::Right;
    }
    let mut at = 0;
    while at < whole.len() {
        let head = ottla_layout::run::BatchHead::read(&whole[at..]);
        let Ok(head) = head else {
            unreachable!("a batch of the undamaged part");
        };
        let batch = &bytes[at..at + head.size];
        assert!(batch == &whole[at..at + head.size] || !head.matches(batch), "{what}: another batch");
        assert_eq!(batch[..61], whole[at..at + 61], "{what}: another head");
        at += head.size;
    }
    Outcome::GivenAway
}

/// Base offset of the first batch with the largest timestamp.
fn latest_of(whole: &[u8]) -> Offset {
    let heads = ottla_layout::run::Batches::of(whole).filter_map(Result::ok).map(|(_, head, _)| head);
    let latest = heads.reduce(|best, head| if head.max_timestamp > best.max_timestamp { head } else { best });
    latest.map_or(Offset(-1), |head| head.base_offset)
}

/// Reads everything with every kind of read; returns how many reads failed.
fn check_damaged(damaged: &FaultMedium, parts: &[RunPart], wholes: &[Vec<u8>], what: &str) -> usize {
    let Ok(folder) = Folder::open(Arc::new(damaged.clone())) else {
        unreachable!("a folder with an identity");
    };
    let runs = folder.runs();
    let mut refused = 0;
    for (part, whole) in parts.iter().zip(wholes) {
        let read = judge(runs.read(part, all()).map(|slice| slice.bytes.to_vec()), whole, what);
        let scan = || {
            let mut scan = runs.scan(part)?;
            let mut bytes = Vec::new();
            while let Some(batch) = scan.next_batch()? {
                bytes.extend_from_slice(&batch.bytes);
            }
            Ok(bytes)
        };
        let scanned = judge(scan(), whole, what);
        assert_ne!(scanned, Outcome::GivenAway, "{what}: a scan checks all");
        assert!(read != Outcome::GivenAway || scanned == Outcome::Refused, "{what}");
        let time = part.max_timestamp;
        let latest = latest_of(whole);
        let ends = (part.base_offset, part.last_offset.plus(1));
        let found = [runs.find_time(part, time, ends.0, ends.1), runs.latest_time(part, ends.1)];
        for found in found {
            match found {
                Ok(found) => assert_eq!(found.map(|batch| batch.base_offset), Some(latest), "{what}"),
                Err(error) => assert!(error.to_string().contains(NAME), "{what}: {error}"),
            }
        }
        refused += usize::from(scanned == Outcome::Refused);
    }
    match runs.settle(&BTreeSet::from([RUN])) {
        Ok(_) => {}
        Err(error) => assert!(error.to_string().contains(NAME), "{what}: {error}"),
    }
    refused + usize::from(runs.parts(RUN).is_err())
}

/// Whether the byte is tested: of the records in batches, a sample suffices.
fn is_telling(at: usize, parts: &[RunPart], sizes: &[Sizes], bytes: &[u8]) -> bool {
    for (part, sizes) in parts.iter().zip(sizes) {
        let mut place = part.data as usize;
        for (index, batch) in sizes.iter().enumerate() {
            if (place..place + batch.3).contains(&at) {
                let whole_head = index < 5 || index + 2 > sizes.len();
                return at.is_multiple_of(211) || (whole_head && at < place + 61);
            }
            place += batch.3;
        }
    }
    let dull = at > 0 && bytes.get(at - 1..at + 2).is_some_and(|bytes| bytes == [0; 3]);
    !dull || at.is_multiple_of(97)
}

#[test]
fn a_flipped_bit_of_a_run_gives_right_data_or_is_named() {
    let (medium, parts, sizes, wholes) = folder();
    assert_eq!(check_damaged(&medium.fork(0), &parts, &wholes, "undamaged"), 0);
    let bytes = medium.contents(NAME);
    let mut refused = 0;
    let mut tried = 0;
    for at in (0..bytes.len()).filter(|at| is_telling(*at, &parts, &sizes, &bytes)) {
        medium.damage(NAME, at, &[bytes[at] ^ (1 << (at % 8))]);
        refused += usize::from(check_damaged(&medium, &parts, &wholes, &format!("byte {at}")) > 0);
        medium.damage(NAME, at, &[bytes[at]]);
        tried += 1;
    }
    assert!(tried > 1000 && refused > tried * 4 / 5, "{refused} of {tried} were refused");
}

#[test]
fn a_lost_or_misplaced_block_of_a_run_gives_right_data_or_is_named() {
    let (medium, parts, _, wholes) = folder();
    let bytes = medium.contents(NAME);
    let mut refused = 0;
    for at in (0..bytes.len()).step_by(512) {
        let copy = medium.fork(at as u64);
        copy.damage(NAME, at, &[0; 512]);
        refused += check_damaged(&copy, &parts, &wholes, &format!("zeros at {at}"));
        let elsewhere = (at + 8192) % bytes.len();
        let copy = medium.fork(at as u64);
        copy.damage(NAME, at, &bytes[elsewhere..(elsewhere + 4096).min(bytes.len())]);
        refused += check_damaged(&copy, &parts, &wholes, &format!("misplaced at {at}"));
    }
    assert!(refused > 100, "{refused}");
}

/// Offsets of the batches that a scan returns, and the number of its errors.
fn scan_past_damage(runs: &Runs, part: &RunPart) -> (Vec<i64>, usize) {
    let Ok(mut scan) = runs.scan(part) else {
        unreachable!("the ends of the run are whole");
    };
    let (mut found, mut errors) = (Vec::new(), 0);
    loop {
        match scan.next_batch() {
            Ok(Some(batch)) => found.push(batch.base_offset.0),
            Ok(None) => return (found, errors),
            Err(_) => errors += 1,
        }
    }
}

#[test]
fn a_scan_continues_after_damage() {
    let medium = FaultMedium::new(1);
    let sizes = mixed(600, 9000);
    let part = write(&log_with(&medium, quiet()).runs(), RUN, std::slice::from_ref(&sizes)).unwrap()[0];
    assert_eq!(part.pages, 3);
    let all: Vec<i64> = sizes.iter().map(|batch| batch.0).collect();
    let place = |index: usize| part.data as usize + sizes[..index].iter().map(|batch| batch.3).sum::<usize>();
    // Records of a batch; the head of one; the second page; the first and the last page.
    let pages = part.directory as usize;
    let cases: [(&[usize], usize, usize); 4] = [
        (&[place(100) + 70], 1, 1),
        (&[place(7) + 3, place(300) + 13], 2, 2),
        (&[pages + 5000], 130, 1),
        (&[pages + 100, pages + 8292], 100, 2),
    ];
    for (places, least, errors) in cases {
        let copy = medium.fork(1);
        for at in places {
            copy.damage(NAME, *at, &[medium.contents(NAME)[*at] ^ 1]);
        }
        let log = log_with(&copy, quiet());
        let (found, seen) = scan_past_damage(&log.runs(), &part);
        assert_eq!(seen, errors, "{places:?}");
        let lost = all.len() - found.len();
        assert!(lost >= least && lost < all.len(), "{places:?}: {lost} are lost");
        assert!(found.is_sorted() && found.iter().all(|base| all.contains(base)));
        let report = log.runs().verify(log.runs().parts(RUN).unwrap()[0]);
        assert_eq!((report.faults.len(), report.batches as usize), (errors, found.len()));
        assert!(!report.freed);
    }
}

#[test]
fn a_freed_part_is_told_from_a_damaged_one() {
    let (medium, parts, ..) = folder();
    let mut log = log_with(&medium, quiet());
    log.runs().punch(RUN, Runs::extent(&parts[1]));
    log.append(&small(1)).unwrap();
    log.flush().unwrap();
    drop(log);
    let folder = Folder::open(Arc::new(medium.restart())).unwrap();
    let rows = folder.runs().parts(RUN).unwrap();
    let freed: Vec<bool> = rows.iter().map(|row| folder.runs().verify(*row).freed).collect();
    assert_eq!(freed, [false, true]);
}

#[test]
fn the_run_of_another_number_or_folder_is_not_taken_for_it() {
    let (medium, parts, ..) = folder();
    medium.rename(NAME, "run-000000000008").unwrap();
    let log = log_with(&medium, quiet());
    let moved = RunPart { run: 8, ..parts[0] };
    let error = log.runs().read(&moved, all()).unwrap_err().to_string();
    assert!(error.contains("run-000000000008 is damaged at offset 0: it is run 7 of log"), "{error}");
    assert!(log.runs().settle(&BTreeSet::from([8])).unwrap_err().to_string().contains("run-000000000008"));
}

#[test]
fn a_part_that_the_run_does_not_have_is_an_error() {
    let (medium, parts, ..) = folder();
    let log = log_with(&medium, quiet());
    let part = parts[1];
    let lies = [
        RunPart { data: 0, ..part },
        RunPart { data: u64::MAX, ..part },
        RunPart { bytes: u64::MAX, ..part },
        RunPart { bytes: part.bytes / 2, ..part },
        RunPart { directory: part.directory + 8, ..part },
        RunPart { pages: 2, ..part },
        RunPart { pages: u32::MAX, ..part },
        RunPart { pages: 0, ..part },
        RunPart { data: part.data + 61, ..part },
    ];
    for lie in lies {
        let error = log.runs().scan(&lie).and_then(|mut scan| {
            while scan.next_batch()?.is_some() {}
            Ok(())
        });
        assert!(matches!(error, Err(RunError::Damaged { .. })), "{lie:?}: {error:?}");
    }
}

#[test]
fn a_part_without_batches_is_none() {
    let medium = FaultMedium::new(1);
    let log = log_with(&medium, quiet());
    let mut writer = log.runs().writer(RUN).unwrap();
    let end = PartEnd { last_offset: Offset(9), clean: true, horizon: Millis(-1) };
    writer.begin_part(partition(0), Offset(0)).unwrap();
    assert_eq!(writer.end_part(end).unwrap(), None);
    writer.begin_part(partition(0), Offset(10)).unwrap();
    writer.push(&record_batch(12, 1, 5, 100), Millis(3)).unwrap();
    let part = writer.end_part(PartEnd { last_offset: Offset(20), ..end }).unwrap().unwrap();
    writer.finish().unwrap();
    assert_eq!((part.base_offset, part.last_offset, part.clean), (Offset(10), Offset(20), true));
    let slice = log.runs().read(&part, all()).unwrap();
    assert_eq!((slice.first, slice.last, slice.complete), (Offset(12), Offset(12), true));
}
