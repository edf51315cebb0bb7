//! Tests of a log without faults.

use crate::common::{bare, batch, free_before, open, open_on, open_with, quiet, small, stored};
use bytes::Bytes;
use ottla_store::testing::FaultMedium;
use ottla_store::{
    AppendError, Callbacks, DiskMedium, Durability, Log, MemoryMedium, OpenError, OpenLog, Options, ReadMode,
    ReplayItem, SnapshotFailure, SpaceLevel,
};
use ottla_types::LogPosition;
use ottla_types::record::{LogRecord, PartitionRecord};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

#[test]
fn records_come_back_in_order_with_their_places() {
    let medium = FaultMedium::new(1);
    let mut appended = Vec::new();
    for opening in 0..5u64 {
        let (mut opened, replay) = open(&medium, quiet()).unwrap();
        assert_eq!(replay.entries, appended);
        assert_eq!(u64::from(opened.recovery.epoch), opening + 1);
        for number in 0..40 {
            let record = if number % 3 == 0 { batch(number, 3000) } else { small(number) };
            let place = opened.log.append(&record).unwrap();
            appended.push((place, bare(&record)));
            if number % 7 == 0 {
                opened.log.kick();
                opened.log.drive();
            }
        }
        opened.log.close().unwrap();
    }
}

#[test]
fn batch_bytes_are_stored_patched_and_read_from_memory_or_medium() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, Options { recent: 20_000, ..quiet() }).unwrap();
    let reader = opened.log.reader();
    let mut batches = Vec::new();
    for number in 0..50 {
        let record = batch(number, 3000 + number as usize);
        let place = opened.log.append(&record).unwrap();
        batches.push((place.payload.unwrap(), stored(&record)));
        opened.log.flush().unwrap();
    }
    let recent = batches.iter().filter(|(at, bytes)| reader.recent(*at, bytes.len()).is_some()).count();
    assert!((1..10).contains(&recent), "{recent} are in memory");
    for (at, bytes) in &batches {
        assert_eq!(reader.read(*at, bytes.len()).unwrap(), bytes);
    }
    // All together, every second one, and some in reverse order.
    for order in [(0..50).collect(), (0..50).step_by(2).collect(), vec![3, 2, 1, 4, 9, 48]] {
        let order: Vec<usize> = order;
        let ranges: Vec<_> = order.iter().map(|one| (batches[*one].0, batches[*one].1.len())).collect();
        let expected: Vec<_> = order.iter().map(|one| batches[*one].1.clone()).collect();
        assert_eq!(reader.read_all(&ranges).unwrap(), expected, "{order:?}");
    }
}

/// Batches with their places.
type Batches = Vec<(LogPosition, Bytes)>;

/// A log of large batches in files in memory, none of them in the recent groups any more, and the batches with their
/// places.
fn large_batches(medium: &MemoryMedium) -> Result<(OpenLog, Batches), Box<dyn std::error::Error>> {
    let options = Options { recent: 0, segment_size: 8 << 20, ..quiet() };
    let (mut opened, _) = open_on(Arc::new(medium.clone()), options, Callbacks::none())?;
    let mut batches = Vec::new();
    for number in 0..30 {
        let record = batch(number, 300_000 + number as usize);
        let place = opened.log.append(&record)?;
        batches.push((place.payload.ok_or("no batch")?, stored(&record)));
        opened.log.flush()?;
    }
    Ok((opened, batches))
}

#[test]
fn who_goes_forward_finds_bytes_that_were_read_ahead() {
    let (opened, batches) = large_batches(&MemoryMedium::new()).unwrap();
    let reader = opened.log.reader();
    let mut at_once = 0;
    for (at, bytes) in &batches {
        let range = [(*at, bytes.len())];
        let found = match reader.read_all_with(&range, ReadMode::NonBlocking) {
            Ok(found) => {
                at_once += 1;
                found
            }
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                reader.read_all(&range).unwrap()
            }
        };
        assert_eq!(found.first(), Some(bytes));
    }
    assert!((20..30).contains(&at_once), "{at_once}");
}

#[test]
fn what_was_read_before_is_there_at_once() {
    let (opened, batches) = large_batches(&MemoryMedium::new()).unwrap();
    let reader = opened.log.reader();
    let (at, bytes) = &batches[7];
    let range = [(*at, bytes.len())];
    let error = reader.read_all_with(&range, ReadMode::NonBlocking).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(reader.read_all(&range).unwrap().first(), Some(bytes));
    assert_eq!(reader.read_all_with(&range, ReadMode::NonBlocking).unwrap().first(), Some(bytes));
}

#[test]
fn a_scan_shows_what_lies_between_two_positions() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    let reader = opened.log.reader();
    let mut batches = Vec::new();
    for number in 0..8 {
        let record = batch(number, 3000 + number as usize);
        let place = opened.log.append(&record).unwrap();
        batches.push((place.payload.unwrap(), stored(&record)));
        opened.log.flush().unwrap();
    }
    let (first, last) = (batches[1].0, &batches[6]);
    let end = LogPosition(last.0.0 + last.1.len() as u64);
    assert_eq!(reader.segment_of(first), reader.segment_of(end));
    let mut seen = Vec::new();
    let mut show = |at: LogPosition, bytes: &[u8]| {
        assert_eq!(at.0, first.0 + seen.len() as u64);
        seen.extend_from_slice(bytes);
        Ok(())
    };
    reader.scan(first, end, &mut show).unwrap();
    assert_eq!(seen.len() as u64, end.0 - first.0);
    for (at, bytes) in &batches[1..7] {
        let from = (at.0 - first.0) as usize;
        assert_eq!(seen[from..from + bytes.len()], bytes[..]);
    }
    let mut ends = |_: LogPosition, _: &[u8]| Err(std::io::ErrorKind::Interrupted.into());
    assert_eq!(reader.scan(first, end, &mut ends).unwrap_err().kind(), std::io::ErrorKind::Interrupted);
    let far = LogPosition(opened.log.durable().0 + 1);
    assert_eq!(reader.scan(first, far, &mut ends).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn positions_are_durable_only_after_a_kick() {
    let medium = FaultMedium::new(1);
    let told = Arc::new(AtomicU64::new(0));
    let listener = Arc::clone(&told);
    let callbacks = Callbacks {
        on_durable: Box::new(move |position| listener.store(position.0, Ordering::SeqCst)),
        on_failure: Box::new(|_| {}),
    };
    let (mut opened, _) = open_with(&medium, quiet(), callbacks).unwrap();
    assert_eq!(opened.log.end(), opened.log.durable(), "an idle log owes nothing");
    let place = opened.log.append(&small(1)).unwrap();
    opened.log.drive();
    assert_eq!(told.load(Ordering::SeqCst), 0);
    assert_eq!(opened.log.end(), place.end);
    opened.log.kick();
    opened.log.drive();
    assert!(told.load(Ordering::SeqCst) >= place.end.0);
    assert_eq!(opened.log.durable().0, told.load(Ordering::SeqCst));
    assert_eq!(opened.log.end(), opened.log.durable());
}

#[test]
fn a_record_beyond_half_a_segment_is_refused_and_one_of_half_a_segment_is_not() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    let error = opened.log.append(&batch(1, 40 << 10)).unwrap_err();
    assert!(matches!(error, AppendError::TooLarge { limit: 32_768, .. }), "{error}");
    for number in 0..6 {
        let record = batch(number, 32_600);
        let place = opened.log.append(&record).unwrap();
        opened.log.flush().unwrap();
        let found = opened.log.reader().read(place.payload.unwrap(), 32_600).unwrap();
        assert_eq!(found, stored(&record));
    }
    opened.log.close().unwrap();
    assert_eq!(open(&medium, quiet()).unwrap().1.entries.len(), 6);
}

#[test]
fn a_batch_that_lies_about_its_size_is_refused() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    let ottla_types::record::LogRecord::Partitions(PartitionRecord::BatchAppended(mut lying)) = batch(1, 100)
    else {
        unreachable!("a batch");
    };
    lying.summary.size = 99;
    let error = opened
        .log
        .append(&ottla_types::record::LogRecord::Partitions(PartitionRecord::BatchAppended(lying)))
        .unwrap_err();
    assert_eq!(error, AppendError::Inconsistent { summary: 99, batch: 100 });
}

#[test]
fn a_snapshot_replaces_the_records_before_it_and_lets_segments_go() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    for number in 0..40 {
        opened.log.append(&batch(number, 8000)).unwrap();
        opened.log.flush().unwrap();
    }
    assert!(opened.log.segments().len() >= 5);
    assert_eq!(free_before(&opened.log, opened.log.end()), [0; 0], "nothing is freed without a snapshot");
    let end = opened.log.end();
    opened.log.snapshotter().write(end, &mut (0..3).map(small)).unwrap();
    let tail = opened.log.append(&small(77)).unwrap();
    let freed = free_before(&opened.log, end);
    assert_eq!(freed.len() as u64, opened.log.segment_of(end));
    opened.log.drive();
    assert_eq!(opened.log.segments()[0], 0, "not before what made them free is durable");
    opened.log.flush().unwrap();
    assert_eq!(opened.log.segments()[0], opened.log.segment_of(end));
    let spares = medium.files().iter().filter(|(name, _)| name.starts_with("spare-")).count();
    assert_eq!(spares, 2);
    let gone = opened.log.reader().read(LogPosition(5000), 10).unwrap_err();
    assert_eq!(gone.kind(), std::io::ErrorKind::NotFound);
    opened.log.close().unwrap();

    let (opened, replay) = open(&medium, quiet()).unwrap();
    assert_eq!(opened.recovery.snapshot, Some(end));
    assert_eq!(replay.snapshot, (0..3).map(small).collect::<Vec<_>>());
    assert_eq!(replay.entries, [(tail, small(77))]);
}

#[test]
fn recycled_segments_do_not_bring_back_what_was_in_them() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    let mut kept = Vec::new();
    for number in 0..300 {
        let place = opened.log.append(&batch(number, 5000)).unwrap();
        kept.push((place, bare(&batch(number, 5000))));
        opened.log.flush().unwrap();
        if number % 20 == 19 {
            let end = opened.log.end();
            opened.log.snapshotter().write(end, &mut std::iter::empty()).unwrap();
            opened.log.snapshotter().write(end, &mut std::iter::empty()).unwrap();
            free_before(&opened.log, end);
            opened.log.flush().unwrap();
            kept.clear();
        }
        if number % 11 == 0 {
            drop(opened);
            let found = open(&medium, quiet()).unwrap();
            assert_eq!(found.1.entries, kept);
            opened = found.0;
        }
    }
    let files = medium.files().len();
    assert!(files < 12, "{files} files");
}

#[test]
fn t_256_two_snapshots_are_kept_and_a_damaged_one_is_passed_over() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    let mut positions = Vec::new();
    for number in 0..4 {
        opened.log.append(&small(number)).unwrap();
        opened.log.flush().unwrap();
        positions.push(opened.log.end());
        opened.log.snapshotter().write(positions[number as usize], &mut (0..=number).map(small)).unwrap();
    }
    drop(opened);
    let snapshots: Vec<String> = medium
        .files()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("snapshot-"))
        .collect();
    assert_eq!(snapshots.len(), 2);
    medium.damage(&snapshots[1], 60, &[0xff; 4]);
    let (mut opened, replay) = open(&medium, quiet()).unwrap();
    assert_eq!(opened.recovery.snapshot, Some(positions[2]));
    assert_eq!(opened.recovery.skipped.len(), 1);
    assert_eq!(opened.recovery.skipped[0].0, snapshots[1]);
    assert_eq!(replay.snapshot.len(), 3);
    assert_eq!(replay.records(), [small(3)]);

    opened.log.append(&small(4)).unwrap();
    opened.log.flush().unwrap();
    opened.log.snapshotter().write(opened.log.end(), &mut (0..=4).map(small)).unwrap();
    assert!(medium.contents(&snapshots[1]).is_empty(), "the damaged one goes when there is a new one");
    assert!(!medium.contents(&snapshots[0]).is_empty(), "the good one stays");
}

/// Everything that the inspection of a folder returns, in order.
fn order(medium: &FaultMedium) -> Result<Vec<LogRecord>, OpenError> {
    let mut order = Vec::new();
    Log::open(Arc::new(medium.clone()), quiet(), Callbacks::none(), &mut |one| match one {
        ReplayItem::Snapshot(row) => order.push(row),
        ReplayItem::Entry(_, record) => order.push(record),
    })?;
    Ok(order)
}

#[test]
fn the_pieces_of_a_snapshot_come_back_between_the_records_where_they_were_taken() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    opened.log.append(&small(0)).unwrap();
    let mut writer = opened.log.snapshotter().begin(opened.log.end()).unwrap();
    let (mut row, mut expected) = (100, Vec::new());
    for (records, rows) in [(0, 2), (2, 1), (0, 1), (1, 0), (3, 2)] {
        for number in 1..=records {
            opened.log.append(&small(number)).unwrap();
            expected.push(small(number));
        }
        if records == 2 {
            opened.log.flush().unwrap();
        }
        let rows: Vec<_> = (0..rows).map(|number| small(row + number)).collect();
        row += 10;
        writer.piece(opened.log.end(), &mut rows.iter().cloned()).unwrap();
        expected.extend(rows);
    }
    assert!(matches!(writer.finish(), Err(SnapshotFailure::NotDurable { .. })));
    assert!(!medium.files().iter().any(|(name, _)| name.starts_with("snapshot-") && !name.ends_with(".tmp")));
    opened.log.flush().unwrap();
    writer.finish().unwrap();
    opened.log.append(&small(9)).unwrap();
    expected.push(small(9));
    opened.log.close().unwrap();
    assert_eq!(order(&medium).unwrap(), expected);
}

#[test]
fn a_log_that_ends_before_the_last_piece_of_its_snapshot_is_refused() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    opened.log.append(&small(0)).unwrap();
    opened.log.flush().unwrap();
    let mut writer = opened.log.snapshotter().begin(opened.log.end()).unwrap();
    writer.piece(opened.log.end(), &mut std::iter::once(small(10))).unwrap();
    let lost = opened.log.append(&small(1)).unwrap();
    writer.piece(opened.log.end(), &mut std::iter::once(small(11))).unwrap();
    opened.log.flush().unwrap();
    writer.finish().unwrap();
    let copy = medium.fork(0);
    assert_eq!(order(&copy).unwrap(), [small(10), small(1), small(11)]);
    // The last group is lost, as if it had never been written.
    let group = lost.position.0 / 4096 * 4096;
    medium.damage("segment-000000000000", group as usize, &[0; 4096]);
    drop(opened);
    let error = order(&medium.restart()).unwrap_err().to_string();
    assert!(error.contains("a snapshot shows that the log went on"), "{error}");
}

#[test]
fn a_folder_without_its_beginning_is_refused() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    for number in 0..40 {
        opened.log.append(&batch(number, 8000)).unwrap();
        opened.log.flush().unwrap();
    }
    drop(opened);
    let lost = medium.fork(0);
    ottla_store::Medium::remove(&lost, "segment-000000000000").unwrap();
    let error = open(&lost, quiet()).unwrap_err();
    assert!(error.to_string().contains("segment-000000000000 is missing"), "{error}");

    let lost = medium.fork(0);
    ottla_store::Medium::remove(&lost, "segment-000000000002").unwrap();
    let error = open(&lost, quiet()).unwrap_err();
    assert!(
        matches!(&error, OpenError::Damaged { file, .. } if file == "segment-000000000001" || file == "segment-000000000002"),
        "{error}"
    );

    ottla_store::Medium::remove(&medium, "identity").unwrap();
    let error = open(&medium, quiet()).unwrap_err();
    assert!(error.to_string().contains("identity is missing"), "{error}");
}

#[test]
fn the_segment_size_is_that_of_the_folder() {
    let medium = FaultMedium::new(1);
    drop(open(&medium, quiet()).unwrap());
    let (opened, _) = open(&medium, Options { segment_size: 1 << 20, ..quiet() }).unwrap();
    assert_eq!(opened.log.segment_size(), 64 << 10);
    drop(opened);
    let error = open(&medium, Options { shard: 4, ..quiet() }).unwrap_err();
    assert!(matches!(error, OpenError::Shard { found: 0, wanted: 4, .. }));
    let fresh = FaultMedium::new(1);
    let error = open(&fresh, Options { segment_size: 100_000, ..quiet() }).unwrap_err();
    assert!(matches!(error, OpenError::SegmentSize(_)), "{error}");
}

#[test]
fn memory_runs_the_same_code() {
    let medium = MemoryMedium::new();
    let options = Options { segment_size: 64 << 10, ..Options::memory() };
    let shared = || Arc::new(medium.clone());
    let (mut opened, _) = open_on(shared(), options, Callbacks::none()).unwrap();
    let mut expected = Vec::new();
    for number in 0..100 {
        let record = batch(number, 4000);
        let place = opened.log.append(&record).unwrap();
        expected.push((place, stored(&record)));
        opened.log.kick();
    }
    opened.log.flush().unwrap();
    let reader = opened.log.reader();
    for (place, bytes) in &expected {
        assert_eq!(reader.read(place.payload.unwrap(), 4000).unwrap(), bytes);
    }
    opened.log.close().unwrap();
    assert_eq!(open_on(shared(), options, Callbacks::none()).unwrap().1.entries.len(), 100);
}

#[test]
fn on_disk_with_threads_everything_is_reported_durable_and_comes_back() {
    for durability in [Durability::Sync, Durability::Os] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { segment_size: 4 << 20, durability, ..Options::disk() };
        let mut expected = Vec::new();
        for opening in 0..3u64 {
            let (sender, receiver) = mpsc::channel();
            let callbacks = Callbacks {
                on_durable: Box::new(move |position| {
                    let _ = sender.send(position);
                }),
                on_failure: Box::new(|failure| panic!("{failure}")),
            };
            let medium = Arc::new(DiskMedium::open(folder.path()).unwrap());
            let (mut opened, replay) = open_on(medium, options, callbacks).unwrap();
            assert_eq!(replay.entries, expected);
            for number in 0..300 {
                let record = batch(number, 30_000 + (opening * 1000) as usize);
                let place = opened.log.append(&record).unwrap();
                opened.log.kick();
                expected.push((place, bare(&record)));
            }
            let end = opened.log.end();
            while receiver.recv().unwrap() < end {}
            assert_eq!(opened.log.space(), SpaceLevel::Plenty);
            let reader = opened.log.reader();
            let (place, _) = expected[expected.len() - 300];
            assert_eq!(reader.read(place.payload.unwrap(), 8).unwrap(), [0; 8].as_slice());
            opened.log.close().unwrap();
        }
    }
}
