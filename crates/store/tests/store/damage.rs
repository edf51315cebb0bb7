//! Damaged bytes: a start either recovers everything, or refuses and names file and offset. It never drops a group
//! silently.

use crate::common::{Replay, batch, open, quiet, small};
use ottla_store::OpenError;
use ottla_store::testing::FaultMedium;
use ottla_types::record::LogRecord;

/// A small folder with two snapshots, several segments and a clean end, and what it replays from the newest snapshot
/// and from the older one.
fn folder() -> FaultMedium {
    let medium = FaultMedium::new(1);
    for opening in 0..3u64 {
        let Ok((mut opened, _)) = open(&medium, quiet()) else {
            unreachable!("an undamaged folder");
        };
        for number in 0..9 {
            let size = if number % 3 == 0 { 9000 } else { 300 };
            let appended = opened.log.append(&batch(opening * 10 + number, size));
            assert!(appended.is_ok());
            if number % 2 == 0 {
                assert_eq!(opened.log.flush(), Ok(()));
            }
        }
        assert_eq!(opened.log.flush(), Ok(()));
        if opening > 0 {
            let Ok(mut writer) = opened.log.snapshotter().begin(opened.log.end()) else {
                unreachable!("an undamaged folder");
            };
            for rows in [0..3, 3..5] {
                let rows = &mut rows.map(|row| small(opening * 10 + row));
                assert!(writer.piece(opened.log.end(), rows).is_ok());
                assert!(opened.log.append(&small(opening)).is_ok());
                assert_eq!(opened.log.flush(), Ok(()));
            }
            assert!(writer.finish().is_ok());
        }
        assert!(opened.log.append(&small(opening)).is_ok());
        assert_eq!(opened.log.close(), Ok(()));
    }
    medium
}

/// The numbers of the records of the log, oldest first.
fn entries(replay: &Replay) -> Vec<LogRecord> {
    replay.records()
}

/// Opens a damaged copy and checks the outcome against the undamaged one. Returns whether it was refused.
fn check(damaged: &FaultMedium, name: &str, whole: &Replay, what: &str) -> bool {
    match open(damaged, quiet()) {
        Ok((_, replay)) => {
            let found = entries(&replay);
            let expected = entries(whole);
            // An older snapshot replays more of the log; the end must be the same.
            assert!(found.ends_with(&expected), "{what}: records are missing");
            assert!(replay.snapshot == whole.snapshot || name.starts_with("snapshot-"), "{what}: other rows");
            false
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("offset") || matches!(error, OpenError::Missing { .. }), "{what}: {text}");
            assert!(text.contains(name) || text.contains("segment-"), "{what}: {text}");
            true
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_harmless_or_named() {
    let medium = folder();
    let whole = open(&medium.fork(0), quiet()).unwrap().1;
    assert!(!whole.snapshot.is_empty() && !whole.entries.is_empty());
    let mut refused = 0;
    for (name, size) in medium.files() {
        let bytes = medium.contents(&name);
        for at in 0..size {
            // Of long runs of the same byte, every 97th is enough.
            let dull = at > 0 && at + 1 < size && bytes[at - 1] == bytes[at] && bytes[at + 1] == bytes[at];
            if dull && at % 97 != 0 {
                continue;
            }
            let copy = medium.fork(at as u64);
            copy.damage(&name, at, &[bytes[at] ^ (1 << (at % 8))]);
            refused += usize::from(check(&copy, &name, &whole, &format!("{name} byte {at}")));
        }
    }
    assert!(refused > 100, "{refused} damaged folders were refused");
}

#[test]
fn a_lost_or_misplaced_block_is_harmless_or_named() {
    let medium = folder();
    let whole = open(&medium.fork(0), quiet()).unwrap().1;
    let mut refused = 0;
    for (name, size) in medium.files() {
        let bytes = medium.contents(&name);
        for at in (0..size).step_by(512) {
            let copy = medium.fork(at as u64);
            copy.damage(&name, at, &[0; 512]);
            refused += usize::from(check(&copy, &name, &whole, &format!("{name} zeros at {at}")));
        }
        for at in (0..size).step_by(4096) {
            let copy = medium.fork(at as u64);
            let elsewhere = &bytes[(at + 8192) % size..];
            copy.damage(&name, at, &elsewhere[..elsewhere.len().min(4096)]);
            refused += usize::from(check(&copy, &name, &whole, &format!("{name} misplaced at {at}")));
        }
    }
    assert!(refused > 10, "{refused} damaged folders were refused");
}

#[test]
fn damage_in_the_middle_names_the_place_and_the_proof() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    for number in 0..4 {
        opened.log.append(&small(number)).unwrap();
        opened.log.flush().unwrap();
    }
    std::mem::forget(opened);
    let medium = medium.restart();
    // Groups: opening at 4096, records at 8192, 12288, 16384, 20480.
    let middle = medium.fork(0);
    middle.damage("segment-000000000000", 12_288 + 70, &[0xff]);
    let error = open(&middle, quiet()).unwrap_err().to_string();
    assert!(error.starts_with("segment-000000000000 is damaged at offset 12288: the checksum"), "{error}");
    assert!(error.contains("group 4 at offset 16384 of segment-000000000000 shows"), "{error}");

    let last = medium.fork(0);
    last.damage("segment-000000000000", 20_480 + 70, &[0xff]);
    let (opened, replay) = open(&last, quiet()).unwrap();
    assert_eq!(replay.records(), (0..3).map(small).collect::<Vec<_>>());
    let cut = opened.recovery.torn.unwrap();
    assert_eq!((cut.file.as_str(), cut.offset), ("segment-000000000000", 20_480));
}

#[test]
fn after_a_clean_end_damage_to_the_last_record_is_refused_too() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    opened.log.append(&small(1)).unwrap();
    opened.log.close().unwrap();
    medium.damage("segment-000000000000", 8192 + 70, &[0xff]);
    let error = open(&medium, quiet()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { offset: 8192, .. }), "{error}");
}

#[test]
fn t_256_when_every_snapshot_is_damaged_the_log_is_replayed_from_its_beginning_if_it_is_there() {
    let medium = folder();
    let expected = open(&medium.fork(0), quiet()).unwrap().1;
    let snapshots = || medium.files().into_iter().filter(|(name, _)| name.starts_with("snapshot-"));
    assert_eq!(snapshots().count(), 2);
    for (name, _) in snapshots() {
        medium.damage(&name, 50, &[0xff; 3]);
    }
    let (opened, replay) = open(&medium.fork(0), quiet()).unwrap();
    assert_eq!(opened.recovery.snapshot, None);
    assert_eq!(replay.entries.len(), 34);
    assert!(replay.records().ends_with(&expected.records()));

    let newest = snapshots().next_back().unwrap().0;
    ottla_store::Medium::remove(&medium, "segment-000000000000").unwrap();
    let error = open(&medium, quiet()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{newest} is damaged: offset 40: chunk 0")), "{error}");
}

#[test]
fn t_255_a_record_of_an_unknown_kind_is_refused_with_its_place() {
    let medium = FaultMedium::new(1);
    let (mut opened, _) = open(&medium, quiet()).unwrap();
    opened.log.append(&small(1)).unwrap();
    opened.log.close().unwrap();
    let name = "segment-000000000000";
    let mut group = medium.contents(name)[8192..12_288].to_vec();
    let header = ottla_layout::peek_group(&group).unwrap();
    group[68] = 250;
    ottla_layout::seal_group(&header, &mut group[..header.len() as usize]);
    medium.damage(name, 8192, &group);
    let error = open(&medium, quiet()).unwrap_err().to_string();
    assert_eq!(
        error,
        "segment-000000000000, entry at offset 8256: record kind 250 version 0 is not known: \
         use the version of the program that wrote it"
    );
}
