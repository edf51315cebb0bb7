//! A folder with a damaged group: visited, verified, and salvaged into a new folder.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

use ottla_salvage::{Damage, Item, OpenError, Remaining, SalvageError, open, verify, visit, write_folder};
use ottla_store::{Callbacks, DiskMedium, Log, Options};
use ottla_types::record::{CatalogRecord, LogRecord, TopicCreated};
use ottla_types::{Millis, TopicId};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a block, which each of the groups below fills.
const BLOCK: u64 = 4096;

/// Writes one group for each topic.
fn write_topics(folder: &Path, names: &[&str]) {
    let options = Options { segment_size: 64 << 10, threads: false, ..Options::disk() };
    let medium = Arc::new(DiskMedium::open(folder).unwrap());
    let mut log = Log::open(medium, options, Callbacks::none(), &mut |_| {}).unwrap().log;
    for (number, name) in (1..).zip(names) {
        let created = TopicCreated {
            id: TopicId([number; 16]),
            name: (*name).to_owned(),
            partitions: 1,
            configs: Vec::new(),
            at: Millis(0),
        };
        log.append(&LogRecord::Catalog(CatalogRecord::TopicCreated(created))).unwrap();
        log.flush().unwrap();
    }
    log.close().unwrap();
}

fn damages(folder: &Path) -> Vec<Damage> {
    let mut found = Vec::new();
    visit::<OpenError>(&open(folder).unwrap(), &mut |item| {
        if let Item::Damage(damage) = item {
            found.push(damage);
        }
        Ok(())
    })
    .unwrap();
    found
}

#[test]
fn an_undamaged_folder_has_no_faults() {
    let folder = tempfile::tempdir().unwrap();
    write_topics(folder.path(), &["a", "b", "c"]);
    let report = verify(&open(folder.path()).unwrap()).unwrap();
    assert_eq!((report.faults, report.start.is_ok()), (vec![], true));
    assert!(report.checked.groups >= 3 && report.checked.entries >= 3, "{:?}", report.checked);
    assert_eq!(damages(folder.path()), []);
    assert!(!Remaining::of(&open(folder.path()).unwrap()).unwrap().is_damaged());
}

#[test]
fn a_damaged_group_is_located_counted_and_left_out_of_the_new_folder() {
    let folder = tempfile::tempdir().unwrap();
    write_topics(folder.path(), &["a", "b", "c"]);
    let segment = folder.path().join("segment-000000000000");
    let mut bytes = fs::read(&segment).unwrap();
    // The first block is the header of the segment, the third the group of topic b.
    bytes[2 * BLOCK as usize + 70] ^= 0x10;
    fs::write(&segment, bytes).unwrap();

    let report = verify(&open(folder.path()).unwrap()).unwrap();
    let [fault] = &report.faults[..] else { panic!("{:?}", report.faults) };
    assert_eq!(fault.location.to_string(), "segment-000000000000:0x00002000");
    assert_eq!(fault.resumes.as_ref().map(|location| location.offset), Some(3 * BLOCK));
    assert_eq!(fault.missing_groups, Some(1));
    assert!(report.start.is_err());
    assert_eq!(damages(folder.path()), report.faults);

    let old = open(folder.path()).unwrap();
    let remaining = Remaining::of(&old).unwrap();
    assert!(remaining.is_damaged());
    assert_eq!(remaining.dropped.get("TopicCreated"), Some(&1));
    let to = tempfile::tempdir().unwrap();
    write_folder(&old, &remaining, to.path()).unwrap();
    let report = verify(&open(to.path()).unwrap()).unwrap();
    assert_eq!((report.faults, report.start.is_ok()), (vec![], true));
    let again = write_folder(&old, &remaining, to.path());
    assert!(matches!(again, Err(SalvageError::NotEmpty { .. })), "{again:?}");
}
