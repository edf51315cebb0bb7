//! The segments of a log as files: which exist, which wait as spares, and open handles.

use crate::buffer::Pool;
use crate::medium::{Medium, MediumFile};
use crate::runs::RunFiles;
use ottla_layout::{BLOCK, Identity, SegmentHeader};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Freed segments that are kept for the next use.
const SPARES: usize = 2;
/// Bytes that new segments leave free, for snapshots that grow; at most a segment.
const MARGIN: u64 = 16 << 20;
/// Open handles that are kept.
const HANDLES: usize = 128;

pub(crate) const IDENTITY: &str = "identity";

pub(crate) fn segment_name(number: u64) -> String {
    format!("segment-{number:012}")
}

fn spare_name(number: u64) -> String {
    format!("spare-{number:012}")
}

pub(crate) fn snapshot_name(position: u64) -> String {
    format!("snapshot-{position:020}")
}

pub(crate) fn temporary(name: &str) -> String {
    format!("{name}.tmp")
}

/// The names in a data folder, sorted by what they are.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) segments: BTreeSet<u64>,
    pub(crate) spares: BTreeSet<u64>,
    pub(crate) snapshots: BTreeSet<u64>,
    pub(crate) runs: BTreeSet<u64>,
    pub(crate) temporary: Vec<String>,
    pub(crate) identity: bool,
}

impl Listing {
    pub(crate) fn of(names: Vec<String>) -> Listing {
        let mut listing = Listing::default();
        for name in names {
            let number = |prefix| name.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
            if name.ends_with(".tmp") {
                listing.temporary.push(name);
            } else if name == IDENTITY {
                listing.identity = true;
            } else if let Some(found) = number("segment-") {
                listing.segments.insert(found);
            } else if let Some(found) = number("spare-") {
                listing.spares.insert(found);
            } else if let Some(found) = number("snapshot-") {
                listing.snapshots.insert(found);
            } else if let Some(found) = number("run-") {
                listing.runs.insert(found);
            }
        }
        listing
    }
}

/// The files of a log.
pub(crate) struct Files {
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) identity: Identity,
    pub(crate) runs: Arc<RunFiles>,
    table: Mutex<Table>,
    /// Bytes of the newest snapshot.
    snapshot_size: AtomicU64,
}

#[derive(Default)]
struct Table {
    /// Segments in use, with their handles if they are open.
    live: BTreeMap<u64, Option<Arc<dyn MediumFile>>>,
    /// Segment files behind the end of the log: prepared by an earlier run or only half prepared.
    leftover: BTreeSet<u64>,
    /// Numbers in the names of spares.
    spares: BTreeSet<u64>,
}

impl Table {
    fn keep(&mut self, number: u64, file: &Arc<dyn MediumFile>) {
        if let Some(slot) = self.live.get_mut(&number) {
            *slot = Some(Arc::clone(file));
        }
        let open = self.live.values().filter(|slot| slot.is_some()).count();
        if open > HANDLES
            && let Some(oldest) = self.live.values_mut().find(|slot| slot.is_some())
        {
            *oldest = None;
        }
    }
}

impl Files {
    pub(crate) fn new(medium: Arc<dyn Medium>, identity: Identity, listing: &Listing) -> Files {
        let table = Table {
            live: listing.segments.iter().map(|number| (*number, None)).collect(),
            leftover: BTreeSet::new(),
            spares: listing.spares.clone(),
        };
        let runs = Arc::new(RunFiles::new(Arc::clone(&medium), identity, &listing.runs));
        Files { medium, identity, runs, table: Mutex::new(table), snapshot_size: AtomicU64::new(0) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers of the segments in use, in order.
    pub(crate) fn segments(&self) -> Vec<u64> {
        self.table().live.keys().copied().collect()
    }

    pub(crate) fn is_live(&self, number: u64) -> bool {
        self.table().live.contains_key(&number)
    }

    /// Opens a segment in use.
    pub(crate) fn segment(&self, number: u64) -> io::Result<Arc<dyn MediumFile>> {
        let name = segment_name(number);
        match self.table().live.get(&number) {
            None => return Err(crate::memory::not_found(&name)),
            Some(Some(open)) => return Ok(Arc::clone(open)),
            Some(None) => {}
        }
        let file = self.medium.open(&name)?;
        self.table().keep(number, &file);
        Ok(file)
    }

    /// Declares every segment from `number` on unused. They serve for the next ones.
    pub(crate) fn set_aside_from(&self, number: u64) {
        let mut table = self.table();
        let unused = table.live.split_off(&number);
        table.leftover.extend(unused.into_keys());
    }

    /// Puts segment `number` into use: a file with room for all of it, a header, and a durable name. Returns its size so far.
    /// After an error it can be tried again.
    pub(crate) fn prepare(&self, number: u64, epoch: u32) -> io::Result<u64> {
        let file = self.claim(number)?;
        let geometry = self.identity.geometry;
        file.allocate(geometry.segment_size())?;
        let mut block = Pool::new(0).take(BLOCK as usize);
        block.resize(BLOCK as usize);
        SegmentHeader::of(&self.identity, number, epoch).encode(block.as_mut());
        file.write_at(block.as_ref(), 0)?;
        file.sync()?;
        self.medium.sync_names()?;
        let size = file.size()?;
        let mut table = self.table();
        table.leftover.remove(&number);
        table.live.insert(number, None);
        table.keep(number, &file);
        Ok(size)
    }

    /// A file by the name of segment `number`: a leftover, a spare, or a new one.
    fn claim(&self, number: u64) -> io::Result<Arc<dyn MediumFile>> {
        let name = segment_name(number);
        let (leftover, spare) = {
            let table = self.table();
            (table.leftover.contains(&number), table.spares.first().copied())
        };
        if leftover {
            return self.medium.open(&name);
        }
        let Some(spare) = spare else {
            self.check_room()?;
            let file = self.medium.create(&name)?;
            self.table().leftover.insert(number);
            return Ok(file);
        };
        self.medium.rename(&spare_name(spare), &name)?;
        let mut table = self.table();
        table.spares.remove(&spare);
        table.leftover.insert(number);
        drop(table);
        self.medium.open(&name)
    }

    /// Bytes that must be free for a new segment. It may not take the last room: without a snapshot no segment can be freed.
    pub(crate) fn room_for_segment(&self) -> u64 {
        let segment = self.identity.geometry.segment_size();
        segment + segment.min(MARGIN) + 2 * self.snapshot_size.load(Ordering::Relaxed)
    }

    fn check_room(&self) -> io::Result<()> {
        let (free, wanted) = (self.medium.free_space()?, self.room_for_segment());
        if free >= wanted {
            return Ok(());
        }
        let why = format!("a new segment and a snapshot want {wanted} bytes, {free} are free");
        Err(io::Error::new(io::ErrorKind::StorageFull, why))
    }

    /// Tells how large snapshots are.
    pub(crate) fn set_snapshot_size(&self, bytes: u64) {
        self.snapshot_size.store(bytes, Ordering::Relaxed);
    }

    /// Takes a segment out of use: it becomes a spare, or goes if there are enough.
    pub(crate) fn retire(&self, number: u64) -> io::Result<()> {
        let mut table = self.table();
        if table.live.remove(&number).is_none() && !table.leftover.remove(&number) {
            return Ok(());
        }
        let keep = table.spares.len() < SPARES;
        if keep {
            table.spares.insert(number);
        }
        drop(table);
        if keep {
            self.medium.rename(&segment_name(number), &spare_name(number))?;
        } else {
            self.medium.remove(&segment_name(number))?;
        }
        self.medium.sync_names()
    }

    /// Segment files behind the end of the log.
    pub(crate) fn leftover(&self) -> Vec<u64> {
        self.table().leftover.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryMedium;
    use ottla_layout::Geometry;

    fn files(medium: &MemoryMedium) -> Files {
        let identity = Identity { log_id: 1, shard: 0, geometry: Geometry::new(64 << 10).unwrap() };
        let listing = Listing::of(medium.list().unwrap());
        Files::new(Arc::new(medium.clone()), identity, &listing)
    }

    #[test]
    fn freed_segments_are_used_again_and_surplus_ones_go() {
        let medium = MemoryMedium::new();
        let files = files(&medium);
        for number in 0..4 {
            files.prepare(number, 1).unwrap();
        }
        for number in 0..3 {
            files.retire(number).unwrap();
        }
        assert_eq!(files.segments(), [3]);
        let names = [segment_name(3), spare_name(0), spare_name(1)];
        assert_eq!(medium.list().unwrap(), names);
        files.prepare(4, 1).unwrap();
        assert_eq!(medium.list().unwrap(), [segment_name(3), segment_name(4), spare_name(1)]);
        assert!(files.segment(0).is_err());
    }

    #[test]
    fn handles_are_bounded() {
        let medium = MemoryMedium::new();
        let files = files(&medium);
        for number in 0..300 {
            files.prepare(number, 1).unwrap();
        }
        for number in 0..300 {
            files.segment(number).unwrap();
        }
        let open = files.table().live.values().filter(|slot| slot.is_some()).count();
        assert_eq!(open, HANDLES);
    }

    #[test]
    fn names_are_told_apart() {
        let names = [
            "segment-000000000003",
            "spare-2",
            "snapshot-00000000000000000077",
            "identity",
            "snapshot-1.tmp",
            "run-000000000007",
            "run-000000000008.tmp",
            "lock",
        ];
        let listing = Listing::of(names.map(str::to_owned).to_vec());
        assert_eq!(listing.segments, BTreeSet::from([3]));
        assert_eq!(listing.spares, BTreeSet::from([2]));
        assert_eq!(listing.snapshots, BTreeSet::from([77]));
        assert_eq!(listing.runs, BTreeSet::from([7]));
        assert_eq!(listing.temporary, ["snapshot-1.tmp", "run-000000000008.tmp"]);
        assert!(listing.identity);
    }
}
