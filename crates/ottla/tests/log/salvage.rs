//! `ottla log salvage`: the offsets that it reports as lost are missing, and all others are served unchanged.

use super::folder::{
    CommandResult, LETTERS, ORDERS, contents, copy, extents, flip, make, make_without_runs, ottla_log,
    partition, value,
};
use ottla::Broker;
use ottla_client::{Client, Consumer, Isolation, Producer, ProducerOptions, Record};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

const ROUNDS: u32 = 8;
/// Topic and partition.
type Place = (&'static str, i32);

/// Every offset that has a record.
fn made() -> BTreeMap<Place, Vec<i64>> {
    let rounds = i64::from(ROUNDS);
    let orders = (0..rounds).map(|round| 2 * round);
    BTreeMap::from([
        (("letters", 0), (0..3 * rounds).collect()),
        (("letters", 1), (0..2 * rounds).collect()),
        (("orders", 0), orders.collect()),
    ])
}

/// The offsets that a broker on the folder serves, by partition. Each record must be the one written at its offset.
async fn served(folder: &Path) -> BTreeMap<Place, Vec<i64>> {
    let broker = Broker::on_folder(folder).start().unwrap();
    let client = Client::connect(&broker.address().to_string()).await.unwrap();
    let mut found = BTreeMap::new();
    for (place @ (topic, number), _) in made() {
        let mut consumer = Consumer::new(&client, Isolation::ReadUncommitted);
        consumer.assign(topic, number, 0);
        let mut offsets = Vec::new();
        loop {
            let records = consumer.poll(Duration::from_millis(20)).await.unwrap();
            if records.is_empty() {
                break;
            }
            for record in records {
                let id = if topic == "letters" { LETTERS } else { ORDERS };
                let expected = value(partition(id, number), record.offset);
                assert_eq!(record.value.as_deref(), Some(expected.as_bytes()));
                offsets.push(record.offset);
            }
        }
        found.insert(place, offsets);
    }
    // The next record takes an offset that no record had.
    let mut producer = Producer::start(client, ProducerOptions::default()).await.unwrap();
    for ((topic, number), offsets) in made() {
        let record = Record { value: Some("new".into()), ..Default::default() };
        let placed = producer.send(topic, Some(number), vec![record]).await.unwrap();
        let last = offsets.last().unwrap() + i64::from(topic == "orders");
        assert!(placed[0].offset > last, "{topic}-{number}: {} after {last}", placed[0].offset);
    }
    broker.stop().unwrap();
    found
}

/// The offsets reported as lost, by partition.
fn lost(report: &Value) -> BTreeMap<(String, i64), BTreeSet<i64>> {
    let mut found = BTreeMap::new();
    for one in report["lost"].as_array().unwrap() {
        let place = (one["topic"].as_str().unwrap().to_owned(), one["partition"].as_i64().unwrap());
        let ranges = one["offsets"].as_array().unwrap();
        let offsets =
            ranges.iter().flat_map(|range| range["from"].as_i64().unwrap()..=range["to"].as_i64().unwrap());
        found.insert(place, offsets.collect());
    }
    found
}

/// Salvages a folder and compares the report with what the new folder serves.
async fn check(folder: &Path, what: &str) -> (CommandResult, BTreeMap<(String, i64), BTreeSet<i64>>) {
    let before = contents(folder);
    let new = tempfile::tempdir().unwrap();
    let to = new.path().join("new");
    let ended = ottla_log(&["salvage", "--to", to.to_str().unwrap(), "--skip-damaged", "--json"], folder);
    assert!(ended.status < 2, "{what}: {ended:?}");
    assert_eq!(contents(folder), before, "{what}: the old folder was changed");
    let verified = ottla_log(&["verify"], &to);
    assert_eq!(verified.status, 0, "{what}: {verified:?}");
    let lost = lost(&serde_json::from_str(&ended.out).unwrap());
    let served = served(&to).await;
    for (place, offsets) in made() {
        let key = (place.0.to_owned(), i64::from(place.1));
        let gone = lost.get(&key).cloned().unwrap_or_default();
        let there: BTreeSet<i64> = served[&place].iter().copied().collect();
        for offset in offsets {
            assert!(
                there.contains(&offset) != gone.contains(&offset),
                "{what}: {place:?} offset {offset}: served {there:?}, lost {gone:?}: {ended:?}"
            );
        }
    }
    (ended, lost)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_folder_is_copied_whole() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), ROUNDS);
    let (ended, lost) = check(folder.path(), "whole").await;
    assert_eq!((ended.status, lost.len()), (0, 0), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_salvaged_folder_is_copied_whole() {
    let (folder, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make(folder.path(), ROUNDS);
    let to = new.path().join("new");
    let ended = ottla_log(&["salvage", "--to", to.to_str().unwrap()], folder.path());
    assert_eq!(ended.status, 0, "{ended:?}");
    let (ended, lost) = check(&to, "salvaged before").await;
    assert_eq!((ended.status, lost.len()), (0, 0), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_is_what_is_missing_whichever_group_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    make_without_runs(folder.path(), ROUNDS);
    let groups: Vec<_> = extents(folder.path()).into_iter().filter(|extent| extent.entries > 0).collect();
    let mut lossy = 0;
    // The first group has the topics, which a snapshot has too. What the last round wrote nothing later tells of,
    // unless its bytes themselves do.
    let traced = groups.len() - 3;
    for (number, group) in groups.iter().enumerate().skip(1) {
        // Where the bytes of the group's first batch are.
        let batch = if group.entries == 3 { 300 } else { 170 };
        for (what, from, len) in [("a batch", batch, 1), ("a topic id", 70, 1), ("all", 0, 4096)] {
            let other = ["a batch", "a topic id", "all"][number % 3] != what;
            if other || (number >= traced && what != "a batch") {
                continue;
            }
            let damaged = tempfile::tempdir().unwrap();
            copy(folder.path(), damaged.path());
            if len == 1 {
                flip(damaged.path(), &group.file, group.offset + from);
            } else {
                use std::os::unix::fs::FileExt;
                let file = fs::OpenOptions::new().write(true).open(damaged.path().join(&group.file)).unwrap();
                file.write_all_at(&[0xa5; 4096], group.offset).unwrap();
            }
            let (_, lost) = check(damaged.path(), &format!("{what} of {group:?}")).await;
            lossy += usize::from(!lost.is_empty());
        }
    }
    assert!(lossy >= 5, "only {lossy} damages lost something");
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_snapshots_and_identity_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), ROUNDS);
    let names: Vec<String> = contents(folder.path()).into_keys().collect();
    for name in names.iter().filter(|name| name.starts_with("snapshot-") || *name == "identity") {
        flip(folder.path(), name, 30);
    }
    let (ended, lost) = check(folder.path(), "no snapshots").await;
    assert_eq!((ended.status, lost.len()), (0, 0), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_of_a_run_is_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), ROUNDS);
    let name = "run-000000000001";
    let bytes = contents(folder.path()).remove(name).unwrap();
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let mut lossy = 0;
    for at in used.iter().step_by(used.len() / 15).chain(used.last()) {
        let damaged = tempfile::tempdir().unwrap();
        copy(folder.path(), damaged.path());
        flip(damaged.path(), name, *at as u64);
        let (_, lost) = check(damaged.path(), &format!("byte {at} of the run")).await;
        lossy += usize::from(!lost.is_empty());
    }
    assert!(lossy >= 5, "only {lossy} damages lost something");
    fs::remove_file(folder.path().join(name)).unwrap();
    let (ended, lost) = check(folder.path(), "a missing run").await;
    assert!(ended.status == 1 && lost.len() == 3, "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_segment_is_told_in_offsets() {
    let folder = tempfile::tempdir().unwrap();
    make_without_runs(folder.path(), ROUNDS);
    fs::remove_file(folder.path().join("segment-000000000000")).unwrap();
    let (ended, lost) = check(folder.path(), "a missing segment").await;
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(lost.contains_key(&("letters".to_owned(), 0)), "{lost:?}");
}

#[test]
fn nothing_is_left_out_unless_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), ROUNDS);
    let new = tempfile::tempdir().unwrap();
    let to = new.path().join("new");
    let groups = extents(folder.path());
    let group = groups.iter().rfind(|extent| extent.entries == 2).unwrap();
    flip(folder.path(), &group.file, group.offset + 170);
    let ended = ottla_log(&["salvage", "--to", to.to_str().unwrap()], folder.path());
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.out.contains("lost: letters-0 offsets"), "{ended:?}");
    assert!(ended.err.contains("nothing was written") && ended.err.contains("--skip-damaged"), "{ended:?}");
    assert!(!to.exists());
    let ended =
        ottla_log(&["salvage", "--to", new.path().to_str().unwrap(), "--skip-damaged"], folder.path());
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.err.contains("everything else and can be served"), "{ended:?}");
    let again =
        ottla_log(&["salvage", "--to", new.path().to_str().unwrap(), "--skip-damaged"], folder.path());
    assert!(again.status == 2 && again.err.contains("is not empty"), "{again:?}");
}
