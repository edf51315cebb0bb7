//! Runs: batches are read as they were written, by offset and by time, and freed when no record refers to them.

use crate::common::{open, quiet, small};
use ottla_store::testing::FaultMedium;
use ottla_store::{
    Callbacks, DiskMedium, Log, Medium, Options, PartEnd, PartSlice, ReadRange, RunError, Runs,
};
use ottla_types::record::RunPart;
use ottla_types::{Millis, Offset, TopicId, TopicPartition};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

pub(crate) fn partition(number: i32) -> TopicPartition {
    TopicPartition { topic: TopicId([7; 16]), partition: number }
}

/// A batch with the fields that runs read, and a correct checksum.
pub(crate) fn record_batch(base: i64, count: i32, time: i64, size: usize) -> Vec<u8> {
    let mut bytes = vec![(base * 31) as u8; size.max(61)];
    let length = bytes.len() as i32 - 12;
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[16] = 2;
    bytes[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    bytes[35..43].copy_from_slice(&time.to_be_bytes());
    let checksum = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// Batches of a partition: base offset, records, largest timestamp, bytes.
pub(crate) type Sizes = Vec<(i64, i32, i64, usize)>;

/// Writes a run with these parts.
pub(crate) fn write(runs: &Runs, number: u64, parts: &[Sizes]) -> Result<Vec<RunPart>, RunError> {
    let mut writer = runs.writer(number)?;
    let mut found = Vec::new();
    for (index, sizes) in parts.iter().enumerate() {
        writer.begin_part(partition(index as i32), Offset(sizes.first().map_or(0, |first| first.0)))?;
        for (base, count, time, size) in sizes {
            writer.push(&record_batch(*base, *count, *time, *size), Millis(500 + base))?;
        }
        let last = sizes.last().map_or(0, |last| last.0 + i64::from(last.1) - 1);
        let end = PartEnd { last_offset: Offset(last), clean: false, horizon: Millis(-1) };
        found.extend(writer.end_part(end)?);
    }
    writer.finish()?;
    Ok(found)
}

/// `count` batches of 1 to 3 records, with gaps, of different sizes, times not in order.
pub(crate) fn mixed(count: i64, largest: usize) -> Sizes {
    let mut base = 10;
    let batch = |number: i64| {
        let records = (number % 3 + 1) as i32;
        let first = base;
        base += i64::from(records) + if number % 5 == 4 { 7 } else { 0 };
        let size = 61 + (number as usize * 7919) % largest;
        (first, records, if number % 11 == 10 { -1 } else { 1000 + (number * 37) % 101 + number }, size)
    };
    (0..count).map(batch).collect()
}

fn log(medium: &FaultMedium) -> Log {
    let Ok((opened, _)) = open(medium, quiet()) else {
        unreachable!("an undamaged folder");
    };
    opened.log
}

fn wanted(from: i64, to: i64, max_bytes: usize) -> ReadRange {
    ReadRange { from: Offset(from), to: Offset(to), max_bytes, first_whole: true }
}

/// The expected result of a read, computed from every batch.
fn expected(sizes: &Sizes, wanted: &ReadRange) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (base, count, time, size) in sizes {
        let last = base + i64::from(*count) - 1;
        if last >= wanted.from.0 && last < wanted.to.0 {
            bytes.extend(record_batch(*base, *count, *time, *size));
        }
    }
    bytes
}

/// Checks that `slice` is a prefix of the expected batches, as long as the limit allows, or nearly.
fn check(slice: &PartSlice, wanted: &ReadRange, sizes: &Sizes, what: &str) {
    let all = expected(sizes, wanted);
    assert!(all.starts_with(&slice.bytes), "{what}: other bytes");
    assert_eq!(slice.complete, all.len() == slice.bytes.len(), "{what}: complete");
    assert_eq!(slice.bytes.is_empty(), all.is_empty(), "{what}: nothing was read");
    if !slice.bytes.is_empty() {
        assert_eq!(Some(&slice.first.0.to_be_bytes()), all.first_chunk(), "{what}");
        let ends = sizes.iter().map(|(base, count, ..)| base + i64::from(*count) - 1);
        assert!(ends.into_iter().any(|last| last == slice.last.0), "{what}");
    }
}

#[test]
fn every_range_of_a_part_is_read() {
    let medium = FaultMedium::new(1);
    let log = log(&medium);
    let runs = log.runs();
    // A small part, one with many pages, one with batches larger than a read.
    let parts = [mixed(40, 1200), mixed(400, 6000), mixed(9, 200_000)];
    let found = write(&runs, 1, &parts).unwrap();
    assert_eq!(found.iter().map(|part| part.pages > 0).collect::<Vec<_>>(), [false, true, true]);
    for (part, sizes) in found.iter().zip(&parts) {
        let end = part.last_offset.0 + 1;
        let step = (end / 25).max(1) as usize;
        for from in (0..end + 3).step_by(step) {
            for to in [from, from + 1, from + 40, end, end + 100] {
                for max_bytes in [1, 5000, 100_000, 2_000_000] {
                    let wanted = wanted(from, to, max_bytes);
                    let slice = runs.read(part, wanted).unwrap();
                    check(&slice, &wanted, sizes, &format!("{wanted:?}"));
                }
            }
        }
    }
}

#[test]
fn a_batch_that_is_too_large_is_only_given_where_it_is_wanted_whole() {
    let medium = FaultMedium::new(1);
    let log = log(&medium);
    let part = write(&log.runs(), 1, &[mixed(9, 200_000)]).unwrap()[0];
    let wanted = ReadRange { first_whole: false, ..wanted(0, 1000, 60) };
    let slice = log.runs().read(&part, wanted).unwrap();
    assert!(slice.bytes.is_empty() && !slice.complete);
}

#[test]
fn a_reader_goes_through_a_part_without_a_gap() {
    let medium = FaultMedium::new(1);
    let log = log(&medium);
    let sizes = mixed(4000, 3000);
    let part = write(&log.runs(), 1, std::slice::from_ref(&sizes)).unwrap()[0];
    let mut from = part.base_offset;
    let mut bytes = Vec::new();
    loop {
        let slice = log.runs().read(&part, wanted(from.0, i64::MAX, 100_000)).unwrap();
        bytes.extend_from_slice(&slice.bytes);
        from = slice.last.plus(1);
        if slice.complete {
            break;
        }
        assert!(slice.bytes.len() > 80_000, "{}", slice.bytes.len());
    }
    assert_eq!(bytes, expected(&sizes, &wanted(0, i64::MAX, 0)));
    let mut scan = log.runs().scan(&part).unwrap();
    let mut scanned = Vec::new();
    while let Some(batch) = scan.next_batch().unwrap() {
        scanned.extend_from_slice(&batch.bytes);
    }
    assert_eq!(scanned, bytes);
}

#[test]
fn batches_are_found_by_time() {
    let medium = FaultMedium::new(1);
    let log = log(&medium);
    let runs = log.runs();
    let parts = [mixed(40, 1200), mixed(800, 3000)];
    for (part, sizes) in write(&runs, 1, &parts).unwrap().iter().zip(&parts) {
        let end = part.last_offset.0 + 1;
        let latest = sizes.iter().map(|(_, _, time, _)| *time).max().unwrap();
        assert_eq!(part.max_timestamp, Millis(latest));
        for (from, to) in [(0, end), (end / 2, end), (0, end / 2), (end / 3, end / 2), (end, end + 5)] {
            let within = |batch: &&(i64, i32, i64, usize)| {
                let last = batch.0 + i64::from(batch.1) - 1;
                last >= from && last < to
            };
            for time in (0..latest + 10).step_by((latest / 40) as usize) {
                let expected = sizes.iter().filter(within).find(|batch| batch.2 >= time);
                let found = runs.find_time(part, Millis(time), Offset(from), Offset(to)).unwrap();
                let found = found.map(|batch| (batch.base_offset.0, batch.max_timestamp.0));
                assert_eq!(found, expected.map(|batch| (batch.0, batch.2)), "{time} in {from}..{to}");
            }
        }
        for to in (0..end + 2).step_by((end / 30) as usize) {
            let before = |batch: &&(i64, i32, i64, usize)| batch.0 + i64::from(batch.1) <= to && batch.2 >= 0;
            let expected = sizes.iter().filter(before).rev().max_by_key(|batch| batch.2);
            let found = runs.latest_time(part, Offset(to)).unwrap();
            let found = found.map(|batch| (batch.base_offset.0, batch.max_timestamp.0));
            assert_eq!(found, expected.map(|batch| (batch.0, batch.2)), "before {to}");
        }
    }
}

#[test]
fn a_disk_gives_what_was_written_and_takes_freed_room_back() {
    let folder = tempfile::tempdir().unwrap();
    let medium = DiskMedium::open(folder.path()).unwrap();
    let options = Options { segment_size: 64 << 10, ..quiet() };
    let mut log = Log::open(Arc::new(medium), options, Callbacks::none(), &mut |_| {}).unwrap().log;
    let sizes = [mixed(400, 9000), mixed(40, 900)];
    let parts = write(&log.runs(), 1, &sizes).unwrap();
    let all = wanted(0, i64::MAX, 8 << 20);
    // The first reader bypasses the page cache, the second one does not.
    for round in 0..3 {
        for (part, sizes) in parts.iter().zip(&sizes) {
            check(&log.runs().read(part, all).unwrap(), &all, sizes, &format!("round {round}"));
        }
    }
    let report = log.runs().verify(log.runs().parts(1).unwrap()[0]);
    assert_eq!((report.batches, report.faults.len()), (400, 0));
    let blocks = || std::fs::metadata(folder.path().join("run-000000000001")).unwrap().blocks();
    let before = blocks();
    log.runs().punch(1, Runs::extent(&parts[0]));
    log.append(&small(1)).unwrap();
    log.flush().unwrap();
    // A file system that cannot do it keeps the space.
    assert!(blocks() <= before);
    assert!(matches!(log.runs().read(&parts[0], all), Err(RunError::Freed { .. })));
    check(&log.runs().read(&parts[1], all).unwrap(), &all, &sizes[1], "the part behind");
}

#[test]
fn a_file_that_went_behind_our_back_is_no_reason_to_plan_again() {
    let medium = FaultMedium::new(1);
    let log = log(&medium);
    let part = write(&log.runs(), 1, &[mixed(3, 900)]).unwrap()[0];
    medium.remove("run-000000000001").unwrap();
    let error = log.runs().read(&part, wanted(0, 100, 1000)).unwrap_err();
    assert!(
        !matches!(error, RunError::Freed { .. }) && error.to_string().contains("run-000000000001"),
        "{error}"
    );
}

#[test]
fn what_breaks_the_order_is_refused() {
    let medium = FaultMedium::new(1);
    let log = log(&medium);
    let runs = log.runs();
    let end = PartEnd { last_offset: Offset(9), clean: false, horizon: Millis(-1) };
    let mut writer = runs.writer(1).unwrap();
    assert!(matches!(runs.writer(1), Err(RunError::InvalidInput { .. })), "one writer for a number");
    let batch = record_batch(5, 2, 0, 100);
    assert!(writer.push(&batch, Millis(0)).is_err(), "no part");
    writer.begin_part(partition(1), Offset(5)).unwrap();
    writer.push(&batch, Millis(0)).unwrap();
    assert!(writer.push(&record_batch(6, 1, 0, 100), Millis(0)).is_err(), "an offset that is taken");
    assert!(writer.push(&[batch.clone(), batch.clone()].concat(), Millis(0)).is_err(), "two batches");
    assert!(writer.begin_part(partition(2), Offset(0)).is_err(), "a part in a part");
    writer.end_part(end).unwrap();
    assert!(writer.begin_part(partition(1), Offset(9)).is_err(), "an offset that was in the part before");
    assert!(writer.begin_part(partition(0), Offset(90)).is_err(), "another order");
    writer.begin_part(partition(1), Offset(10)).unwrap();
    let early = PartEnd { last_offset: Offset(10), ..end };
    writer.push(&record_batch(10, 2, 0, 100), Millis(0)).unwrap();
    assert!(writer.end_part(early).is_err(), "an end before the last batch");
    drop(writer);
    assert!(!medium.list().unwrap().iter().any(|name| name.starts_with("run-")));
    write(&runs, 1, &[mixed(3, 100)]).unwrap();
    assert!(runs.writer(1).is_err(), "a number that is there");
    assert_eq!((runs.list(), runs.next_number()), (vec![1], 2));
}

#[test]
fn a_run_goes_when_the_record_that_lets_it_go_is_durable() {
    let medium = FaultMedium::new(1);
    let mut log = log(&medium);
    let runs = log.runs();
    let part = write(&runs, 3, &[mixed(40, 9000)]).unwrap()[0];
    log.append(&small(1)).unwrap();
    runs.remove(&[3]);
    let all = wanted(0, i64::MAX, 1 << 20);
    assert!(runs.read(&part, all).is_ok());
    log.flush().unwrap();
    assert!(matches!(runs.read(&part, all), Err(RunError::Freed { .. })));
    assert!(runs.list().is_empty());
    assert!(!medium.list().unwrap().iter().any(|name| name.starts_with("run-")));
}

#[test]
fn a_freed_part_is_gone_and_its_neighbours_are_not() {
    let medium = FaultMedium::new(1);
    let mut log = log(&medium);
    let runs = log.runs();
    let parts = write(&runs, 3, &[mixed(400, 900), mixed(40, 900), mixed(400, 900)]).unwrap();
    let all = wanted(0, i64::MAX, 1 << 20);
    runs.read(&parts[0], all).unwrap();
    medium.set_spare(0);
    for gone in &parts[..2] {
        runs.punch(3, Runs::extent(gone));
    }
    log.append(&small(1)).unwrap();
    log.flush().unwrap();
    for gone in &parts[..2] {
        assert!(matches!(runs.read(gone, all), Err(RunError::Freed { .. })));
    }
    check(&runs.read(&parts[2], all).unwrap(), &all, &mixed(400, 900), "the part behind");
    assert!(medium.free_space().unwrap() > parts[0].bytes);
}

#[test]
fn after_a_start_what_is_referred_to_must_be_there_and_the_rest_goes() {
    let medium = FaultMedium::new(1);
    let log = log(&medium);
    for number in 1..4 {
        write(&log.runs(), number, &[mixed(40, 9000)]).unwrap();
    }
    drop(log);
    medium.create("run-000000000009.tmp").unwrap();
    let log = self::log(&medium.restart());
    assert_eq!(log.runs().settle(&BTreeSet::from([2])).unwrap(), [1, 3]);
    assert_eq!(log.runs().list(), [2]);
    assert_eq!(log.runs().next_number(), 4);
    let names = medium.restart().list().unwrap();
    assert!(
        names.contains(&"run-000000000002".to_owned()) && !names.iter().any(|name| name.ends_with(".tmp"))
    );
    let missing = log.runs().settle(&BTreeSet::from([2, 5])).unwrap_err().to_string();
    assert!(missing.contains("run-000000000005 is missing"), "{missing}");
}
