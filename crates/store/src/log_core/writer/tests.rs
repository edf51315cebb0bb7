//! Tests of the writer with a store that keeps several groups in flight and finishes them in the order that the test
//! chooses.

use super::*;
use crate::MemoryMedium;
use crate::blob::FileBlobs;
use crate::group_store::{
    GroupSlot, GroupStore, LogProgress, MaintenanceStep, Reservation, SpaceForecast, SpaceLevel,
};
use crate::log_core::{State, Storage};
use crate::medium::ReadMode;
use crate::options::{Callbacks, Options};
use crate::read_ahead::ReadAhead;
use crate::runs::RunFiles;
use crate::stats::LogStats;
use ottla_layout::{Geometry, Identity, open_group};
use std::collections::BTreeSet;
use std::io;

/// Keeps groups one after the other, without padding, as an object store would.
#[derive(Default)]
struct FakeStore {
    submitted: Mutex<Vec<(SealedGroup, Arc<dyn GroupObserver>)>>,
}

impl FakeStore {
    /// Removes a submitted group by its index.
    fn take(&self, index: usize) -> (SealedGroup, Arc<dyn GroupObserver>) {
        self.submitted.lock().unwrap().remove(index)
    }

    fn finish(&self, index: usize) {
        let (group, observer) = self.take(index);
        observer.finished(group);
    }

    /// The positions that the submitted groups call durable.
    fn called_durable(&self) -> Vec<u64> {
        let submitted = self.submitted.lock().unwrap();
        submitted.iter().map(|(group, _)| open_group(group.buffer.as_ref()).unwrap().header.durable).collect()
    }
}

impl GroupStore for FakeStore {
    fn max_in_flight(&self) -> usize {
        3
    }
    fn largest_entry(&self) -> u64 {
        1 << 20
    }
    fn slot(&self, after: u64, _len: usize) -> GroupSlot {
        GroupSlot { position: after, limit: 1 << 20 }
    }
    fn padded_len(&self, len: usize) -> u64 {
        len as u64
    }
    fn reservation(&self, _position: u64) -> Reservation {
        Reservation::Ready
    }
    fn submit(&self, group: SealedGroup, observer: Arc<dyn GroupObserver>) {
        self.submitted.lock().unwrap().push((group, observer));
    }
    fn sync(&self, _position: u64) -> Result<(), LogFailure> {
        Ok(())
    }
    fn read(&self, _position: u64, _buf: &mut [u8], _mode: ReadMode) -> io::Result<()> {
        Err(io::ErrorKind::NotFound.into())
    }
    fn segment_size(&self) -> u64 {
        1 << 20
    }
    fn segment_of(&self, position: u64) -> u64 {
        position >> 20
    }
    fn segment_end(&self, position: u64) -> u64 {
        (self.segment_of(position) + 1) << 20
    }
    fn segments(&self) -> Vec<u64> {
        Vec::new()
    }
    fn is_live(&self, _segment: u64) -> bool {
        false
    }
    fn free(&self, _segment: u64) -> Result<(), LogFailure> {
        Ok(())
    }
    fn space(&self, _end: u64, _bytes: u64) -> SpaceForecast {
        SpaceForecast { level: SpaceLevel::Plenty, pending: None }
    }
    fn keep_free(&self, _bytes: u64) {}
    fn free_space(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }
    fn capacity(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
    fn describe(&self) -> String {
        "a fake".to_owned()
    }
    fn maintain(&self, _log: &dyn LogProgress) -> Result<MaintenanceStep, LogFailure> {
        Ok(MaintenanceStep::Idle { due: u64::MAX })
    }
}

/// A log over a fake store, and the positions that it reported durable.
struct World {
    core: Arc<LogCore>,
    store: Arc<FakeStore>,
    reported: Arc<Mutex<Vec<u64>>>,
}

impl World {
    fn new() -> World {
        let store = Arc::new(FakeStore::default());
        let reported = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&reported);
        let callbacks = Callbacks {
            on_durable: Box::new(move |position| sink.lock().unwrap().push(position.0)),
            ..Callbacks::none()
        };
        let identity = Identity { log_id: 1, shard: 0, geometry: Geometry::new(1 << 20).unwrap() };
        let blobs = Arc::new(FileBlobs::new(Arc::new(MemoryMedium::new())));
        let read_ahead = Arc::new(ReadAhead::new(1 << 20));
        let runs = RunFiles::new(blobs.clone(), identity, Arc::clone(&read_ahead), &BTreeSet::new());
        let groups = Arc::clone(&store) as Arc<dyn GroupStore>;
        let storage = Storage { groups, blobs, runs: Arc::new(runs), read_ahead };
        let chain = GroupChain { epoch: 1, sequence: 0, checksum: 0, had_entries: false };
        let options = Options { threads: false, recent: 1 << 20, ..Options::memory() };
        let stats = Arc::new(LogStats::new());
        let core =
            LogCore::new((options, callbacks), (identity, stats), storage, (chain, 0), State::default());
        core.begin_at(0);
        World { core: Arc::new(core), store, reported }
    }

    /// Appends an entry in a group of its own and hands the group to the store, if it takes more. Returns the end of
    /// the group.
    fn append(&self, entry: &[u8]) -> u64 {
        {
            let mut state = self.core.lock();
            let slot = state.slot_for(&*self.core.store, entry.len() + 4);
            let open = state.open_at(slot, &self.core.pool);
            open.buffer.write(&(entry.len() as u32).to_le_bytes());
            open.buffer.write(entry);
            open.entries += 1;
        }
        self.core.kick();
        self.core.write_pending();
        self.core.lock().end()
    }

    fn reported(&self) -> Vec<u64> {
        self.reported.lock().unwrap().clone()
    }
}

#[test]
fn the_log_is_durable_to_the_end_of_the_contiguous_prefix_of_finished_groups() {
    let world = World::new();
    let ends = [b"one".as_slice(), b"two", b"three"].map(|entry| world.append(entry));
    world.store.finish(2);
    world.store.finish(1);
    assert_eq!((world.reported(), world.core.durable()), (vec![], 0), "the first group is not finished");
    assert!(
        world.core.recent.get(ends[1], 1).is_none(),
        "a group that is not durable is not shown to readers"
    );
    world.store.finish(0);
    assert_eq!(world.reported(), [ends[2]]);
    assert_eq!(world.core.durable(), ends[2]);
    assert_eq!(world.core.recent.get(ends[0] + GROUP_HEADER as u64 + 4, 3).unwrap(), b"two".as_slice());
}

#[test]
fn no_more_groups_are_in_flight_than_the_store_takes() {
    let world = World::new();
    let first = world.append(b"1");
    for _ in 0..3 {
        world.append(b"another");
    }
    assert_eq!(world.store.submitted.lock().unwrap().len(), 3);
    world.store.finish(1);
    assert!(!world.core.write_pending(), "a finished group behind an unfinished one still counts");
    world.store.finish(0);
    assert!(world.core.write_pending());
    // The last group was sealed when the first two were durable.
    let second = world.reported()[0];
    assert!(second > first);
    assert_eq!(world.store.called_durable(), [0, second]);
}

#[test]
fn a_group_that_fails_ends_the_log_and_holds_back_those_behind_it() {
    let world = World::new();
    let first = world.append(b"1");
    world.append(b"2");
    world.append(b"3");
    let (_, observer) = world.store.take(1);
    observer.failed(LogFailure { file: "slot".to_owned(), doing: "writing", error: "lost".to_owned() });
    world.store.finish(1);
    assert!(world.core.lock().failed.is_some());
    assert_eq!(world.core.durable(), 0);
    world.store.finish(0);
    assert_eq!(world.reported(), [first], "what is stored before the failed group is durable");
}
