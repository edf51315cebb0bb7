//! A medium with faults, for tests: it keeps written and synced bytes apart, and can crash, fail, fill up and be
//! damaged at any step. All random choices follow from a seed.

mod fault_points;

pub use fault_points::NameEvent;

use crate::medium::{Medium, MediumFile, not_found};
use fault_points::FaultPoint;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;
/// Bytes that are freed together.
const BLOCK: usize = 4096;

/// A fault at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The machine loses power. A write at that step may have been done in part.
    Crash,
    /// The call fails with an I/O error. After a failed sync the written bytes may be lost although later syncs
    /// succeed.
    Error,
    /// The call fails for lack of space.
    NoSpace,
}

/// A medium with faults. Clones share their files; after [`FaultMedium::restart`] or [`FaultMedium::crash`] only the
/// returned one works, as for a new process.
#[derive(Clone, Debug)]
pub struct FaultMedium {
    state: Arc<Mutex<MediumState>>,
    generation: u64,
}

#[derive(Debug)]
struct MediumState {
    generation: u64,
    chance: u64,
    steps: u64,
    faults: BTreeMap<u64, Fault>,
    fault_points: Vec<FaultPoint>,
    capacity: u64,
    names: BTreeMap<String, usize>,
    /// States of the names since they were last synced, oldest first; the first is the synced one.
    history: Vec<BTreeMap<String, usize>>,
    files: Vec<Content>,
}

#[derive(Debug, Default)]
struct Content {
    written: Vec<u8>,
    synced: Vec<u8>,
    /// Sectors written since the last sync, with every state they had.
    pending: BTreeMap<usize, Vec<Vec<u8>>>,
    allocated: u64,
    /// Blocks that were freed.
    holes: BTreeSet<usize>,
}

impl FaultMedium {
    /// An empty medium whose random choices follow from `seed`.
    pub fn new(seed: u64) -> FaultMedium {
        let state = MediumState {
            generation: 0,
            chance: seed,
            steps: 0,
            faults: BTreeMap::new(),
            fault_points: Vec::new(),
            capacity: u64::MAX,
            names: BTreeMap::new(),
            history: vec![BTreeMap::new()],
            files: Vec::new(),
        };
        FaultMedium { state: Arc::new(Mutex::new(state)), generation: 0 }
    }

    fn state(&self) -> MutexGuard<'_, MediumState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of calls so far.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Makes call number `step` fail (counted from 1, over the life of the medium).
    pub fn fail_at(&self, step: u64, fault: Fault) {
        self.state().faults.insert(step, fault);
    }

    /// Sets how many bytes fit.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity = bytes;
    }

    /// Leaves space for `bytes` more.
    pub fn set_spare(&self, bytes: u64) {
        let mut state = self.state();
        state.capacity = state.used().saturating_add(bytes);
    }

    /// Whether the process of this handle lives: there was no crash, and no later process was started.
    pub fn is_alive(&self) -> bool {
        self.state().generation == self.generation
    }

    /// The process ends and the machine continues: written bytes can be read, synced or not.
    #[must_use]
    pub fn restart(&self) -> FaultMedium {
        let mut state = self.state();
        state.generation += 1;
        state.faults.clear();
        state.fault_points.clear();
        FaultMedium { state: Arc::clone(&self.state), generation: state.generation }
    }

    /// The machine loses power: of everything unsynced, an arbitrary part survives.
    #[must_use]
    pub fn crash(&self) -> FaultMedium {
        let mut state = self.state();
        state.generation += 1;
        state.faults.clear();
        state.fault_points.clear();
        let MediumState { files, chance, .. } = &mut *state;
        for file in files {
            file.lose_power(chance);
        }
        let states = state.history.len();
        let survivor = pick(&mut state.chance, states);
        let names = state.history.swap_remove(survivor);
        state.names = names.clone();
        state.history = vec![names];
        FaultMedium { state: Arc::clone(&self.state), generation: state.generation }
    }

    /// An independent copy of this medium as it is.
    #[must_use]
    pub fn fork(&self, seed: u64) -> FaultMedium {
        let state = self.state();
        let files = state.files.iter().map(|file| Content {
            written: file.written.clone(),
            synced: file.synced.clone(),
            pending: file.pending.clone(),
            allocated: file.allocated,
            holes: file.holes.clone(),
        });
        let copy = MediumState {
            generation: 0,
            chance: seed,
            steps: 0,
            faults: BTreeMap::new(),
            fault_points: Vec::new(),
            capacity: state.capacity,
            names: state.names.clone(),
            history: state.history.clone(),
            files: files.collect(),
        };
        FaultMedium { state: Arc::new(Mutex::new(copy)), generation: 0 }
    }

    /// Name and size of every file.
    pub fn files(&self) -> Vec<(String, usize)> {
        let state = self.state();
        state.names.iter().map(|(name, id)| (name.clone(), state.files[*id].written.len())).collect()
    }

    /// Bytes of a file, empty if there is none.
    pub fn contents(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.names.get(name).map(|id| state.files[*id].written.clone()).unwrap_or_default()
    }

    /// Replaces the bytes of a file from `offset` on, as damage to the medium would.
    pub fn damage(&self, name: &str, offset: usize, bytes: &[u8]) {
        let mut state = self.state();
        let Some(id) = state.names.get(name).copied() else {
            return;
        };
        let file = &mut state.files[id];
        for content in [&mut file.written, &mut file.synced] {
            for (place, byte) in content.iter_mut().skip(offset).zip(bytes) {
                *place = *byte;
            }
        }
    }

    /// Counts a call, and returns the fault that is set for it.
    fn step(&self) -> io::Result<MutexGuard<'_, MediumState>> {
        let mut state = self.state();
        if state.generation != self.generation {
            return Err(io::Error::other("this process has ended"));
        }
        state.steps += 1;
        let step = state.steps;
        match state.faults.get(&step) {
            None => Ok(state),
            Some(Fault::Crash) => {
                state.generation += 1;
                Err(io::Error::other("power was lost"))
            }
            Some(Fault::Error) => Err(io::Error::other("an error was injected")),
            Some(Fault::NoSpace) => Err(ErrorKind::StorageFull.into()),
        }
    }

    fn file(&self, id: usize) -> Arc<dyn MediumFile> {
        Arc::new(FaultFile { medium: self.clone(), id })
    }
}

/// A random number below `count`.
fn pick(chance: &mut u64, count: usize) -> usize {
    *chance = chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *chance;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % count as u64) as usize
}

impl Content {
    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.written.len() < end {
            self.written.resize(end, 0);
        }
        self.written[offset..end].copy_from_slice(bytes);
        for block in offset / BLOCK..end.div_ceil(BLOCK) {
            self.holes.remove(&block);
        }
        for sector in offset / SECTOR..end.div_ceil(SECTOR) {
            let range = sector * SECTOR..self.written.len().min((sector + 1) * SECTOR);
            self.pending.entry(sector).or_default().push(self.written[range].to_vec());
        }
    }

    /// Frees what lies in a range; like a write of zeros, it can get lost until it is synced.
    fn punch(&mut self, range: Range<usize>) {
        let range = range.start..range.end.min(self.written.len());
        if range.is_empty() {
            return;
        }
        self.write(&vec![0; range.len()], range.start);
        self.holes.extend(range.start.div_ceil(BLOCK)..range.end / BLOCK);
    }

    /// Bytes that it takes on the medium.
    fn used(&self) -> u64 {
        self.allocated.max(self.written.len() as u64) - (self.holes.len() * BLOCK) as u64
    }

    fn sync(&mut self) {
        for (sector, states) in std::mem::take(&mut self.pending) {
            if let Some(state) = states.last() {
                self.keep(sector, state);
            }
        }
    }

    fn keep(&mut self, sector: usize, state: &[u8]) {
        let offset = sector * SECTOR;
        if self.synced.len() < offset + state.len() {
            self.synced.resize(offset + state.len(), 0);
        }
        self.synced[offset..offset + state.len()].copy_from_slice(state);
    }

    /// Each unsynced sector keeps one of the states that it had.
    fn lose_power(&mut self, chance: &mut u64) {
        self.settle(chance);
        self.written.clone_from(&self.synced);
    }

    fn settle(&mut self, chance: &mut u64) {
        for (sector, states) in std::mem::take(&mut self.pending) {
            let choice = pick(chance, states.len() + 1);
            if let Some(state) = choice.checked_sub(1).and_then(|choice| states.get(choice)) {
                self.keep(sector, state);
            }
        }
    }
}

impl MediumState {
    fn used(&self) -> u64 {
        self.names.values().map(|id| self.files[*id].used()).sum()
    }

    /// Checks that file `id` can reach to `len`.
    fn make_space(&mut self, id: usize, len: u64) -> io::Result<()> {
        let has = self.files[id].allocated.max(self.files[id].written.len() as u64);
        let more = len.saturating_sub(has);
        if more > 0 && self.used().saturating_add(more) > self.capacity {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut names = self.names.clone();
        let id = names.remove(from).ok_or_else(|| not_found(from))?;
        names.insert(to.to_owned(), id);
        self.set_names(names);
        self.trigger(NameEvent::Removed, from);
        self.trigger(NameEvent::Added, to);
        Ok(())
    }

    fn set_names(&mut self, names: BTreeMap<String, usize>) {
        self.history.push(names.clone());
        self.names = names;
    }
}

impl Medium for FaultMedium {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.step()?.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        let id = self.step()?.names.get(name).copied().ok_or_else(|| not_found(name))?;
        Ok(self.file(id))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        let mut state = self.step()?;
        let id = state.files.len();
        state.files.push(Content::default());
        let mut names = state.names.clone();
        names.insert(name.to_owned(), id);
        state.set_names(names);
        state.trigger(NameEvent::Added, name);
        Ok(self.file(id))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.step()?.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.step()?;
        if state.names.contains_key(to) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        state.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.step()?;
        let mut names = state.names.clone();
        names.remove(name).ok_or_else(|| not_found(name))?;
        state.set_names(names);
        state.trigger(NameEvent::Removed, name);
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.step()?;
        state.history = vec![state.names.clone()];
        Ok(())
    }

    fn free_space(&self) -> io::Result<u64> {
        let state = self.state();
        Ok(state.capacity.saturating_sub(state.used()))
    }

    fn capacity(&self) -> io::Result<Option<u64>> {
        Ok(Some(self.state().capacity).filter(|bytes| *bytes < u64::MAX))
    }

    fn describe(&self) -> String {
        "faulty memory".to_owned()
    }
}

struct FaultFile {
    medium: FaultMedium,
    id: usize,
}

impl MediumFile for FaultFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.medium.step()?;
        let written = &state.files[self.id].written;
        let rest = written.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let next = self.medium.steps() + 1;
        let fault = self.medium.state().faults.get(&next).copied();
        if fault == Some(Fault::Crash) {
            self.medium.state().files[self.id].write(buf, offset as usize);
        }
        let mut state = self.medium.step()?;
        state.make_space(self.id, offset + buf.len() as u64)?;
        state.files[self.id].write(buf, offset as usize);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        match self.medium.step() {
            Ok(mut state) => {
                state.files[self.id].sync();
                Ok(())
            }
            Err(error) => {
                let mut state = self.medium.state();
                if state.generation == self.medium.generation {
                    let MediumState { files, chance, .. } = &mut *state;
                    files[self.id].settle(chance);
                }
                Err(error)
            }
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.medium.step()?.files[self.id].written.len() as u64)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut state = self.medium.step()?;
        state.make_space(self.id, len)?;
        let file = &mut state.files[self.id];
        file.allocated = file.allocated.max(len);
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let next = self.medium.steps() + 1;
        let range = offset as usize..offset.saturating_add(len) as usize;
        if self.medium.state().faults.get(&next) == Some(&Fault::Crash) {
            self.medium.state().files[self.id].punch(range.clone());
        }
        self.medium.step()?.files[self.id].punch(range);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_survives_and_the_rest_may_not() {
        let mut kept = [0; 3];
        for seed in 0..50 {
            let medium = FaultMedium::new(seed);
            let file = medium.create("a").unwrap();
            file.write_at(&[1; 1024], 0).unwrap();
            file.sync().unwrap();
            medium.sync_names().unwrap();
            file.write_at(&[2; 1024], 0).unwrap();
            let after = medium.crash();
            assert!(file.write_at(&[3], 0).is_err(), "the old process must be dead");
            let bytes = after.contents("a");
            let sectors = [bytes[0], bytes[512]];
            assert!(sectors.iter().all(|byte| [1, 2].contains(byte)));
            kept[sectors.iter().filter(|byte| **byte == 2).count()] += 1;
        }
        assert!(kept.iter().all(|count| *count > 0), "none, one or both sectors survive: {kept:?}");
    }

    #[test]
    fn a_freed_range_gives_its_room_back_unless_the_crash_comes_first() {
        let mut kept = [0; 2];
        for seed in 0..20 {
            let medium = FaultMedium::new(seed);
            let file = medium.create("a").unwrap();
            file.write_at(&[1; 5 * BLOCK], 0).unwrap();
            file.sync().unwrap();
            medium.sync_names().unwrap();
            medium.set_spare(0);
            file.punch(10, 3 * BLOCK as u64).unwrap();
            assert_eq!(medium.free_space().unwrap(), 2 * BLOCK as u64);
            let bytes = medium.crash().contents("a");
            assert_eq!((bytes[9], bytes[10 + 3 * BLOCK]), (1, 1));
            kept[bytes[2 * BLOCK] as usize] += 1;
        }
        assert!(kept.iter().all(|count| *count > 0), "{kept:?}");
    }

    #[test]
    fn a_failed_sync_loses_bytes_for_good() {
        let lost = (0..20).any(|seed| {
            let medium = FaultMedium::new(seed);
            let file = medium.create("a").unwrap();
            medium.sync_names().unwrap();
            file.write_at(&[1; 512], 0).unwrap();
            medium.fail_at(medium.steps() + 1, Fault::Error);
            assert!(file.sync().is_err());
            file.sync().unwrap();
            let restarted = medium.restart();
            assert_eq!(restarted.contents("a"), [1; 512]);
            restarted.crash().contents("a").is_empty()
        });
        assert!(lost);
    }
}
