//! The segments of a log as files: which exist, and a bounded number of open handles.
//!
//! ```text
//!               prepare: space, header, durable name                retire
//!   new file ─────────────────────────▶ live ─────────────────────────────▶ spare (at most 2) or removed
//!      ▲                                  ▲                                    │
//!      │ no spare and no leftover         └──────────── prepare ───────────────┤
//!   leftover: a segment file after the end of the log, from an interrupted    ◀┘ renamed by prepare
//!   prepare or an earlier run; the next prepare of its number uses it
//! ```

use crate::buffer::Pool;
use crate::medium::{Medium, MediumFile, not_found};
use crate::names::{Listing, segment_name, spare_name};
use ottla_layout::{BLOCK, Identity, SegmentHeader};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Freed segments whose files are kept for the next segments.
const SPARES: usize = 2;
/// Bytes that new segments leave free, for snapshots that grow; at most a segment.
const MARGIN: u64 = 16 << 20;
/// Open handles that are kept.
const HANDLES: usize = 128;

/// The segment files of a log.
pub(crate) struct SegmentFiles {
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) identity: Identity,
    table: Mutex<SegmentTable>,
    /// Bytes that new segments leave free for the next snapshot.
    kept_free: AtomicU64,
}

#[derive(Default)]
struct SegmentTable {
    /// Segments in use, with their handles if they are open.
    live: BTreeMap<u64, Option<Arc<dyn MediumFile>>>,
    /// Segment files after the end of the log: prepared by an earlier process, or partly prepared.
    leftover: BTreeSet<u64>,
    /// Numbers in the names of spares.
    spares: BTreeSet<u64>,
}

impl SegmentTable {
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

impl SegmentFiles {
    pub(crate) fn new(medium: Arc<dyn Medium>, identity: Identity, listing: &Listing) -> SegmentFiles {
        let table = SegmentTable {
            live: listing.segments.iter().map(|number| (*number, None)).collect(),
            leftover: BTreeSet::new(),
            spares: listing.spares.clone(),
        };
        SegmentFiles { medium, identity, table: Mutex::new(table), kept_free: AtomicU64::new(0) }
    }

    fn table(&self) -> MutexGuard<'_, SegmentTable> {
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
            None => return Err(not_found(&name)),
            Some(Some(open)) => return Ok(Arc::clone(open)),
            Some(None) => {}
        }
        let file = self.medium.open(&name)?;
        self.table().keep(number, &file);
        Ok(file)
    }

    /// Takes every segment from `number` on out of use. The next segments with these numbers use the files.
    pub(crate) fn set_aside_from(&self, number: u64) {
        let mut table = self.table();
        let unused = table.live.split_off(&number);
        table.leftover.extend(unused.into_keys());
    }

    /// Puts segment `number` into use: a file with space for all of it, a header, and a durable name. Returns the size
    /// of the file so far. After an error the call can be repeated.
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

    /// A file with the name of segment `number`: a leftover, a spare, or a new one.
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
            self.check_space()?;
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

    /// Bytes that must be free for a new segment. It must leave space for a snapshot, because without a snapshot no
    /// segment can be freed.
    pub(crate) fn space_for_segment(&self) -> u64 {
        let segment = self.identity.geometry.segment_size();
        segment + segment.min(MARGIN) + self.kept_free.load(Ordering::Relaxed)
    }

    fn check_space(&self) -> io::Result<()> {
        let (free, wanted) = (self.medium.free_space()?, self.space_for_segment());
        if free >= wanted {
            return Ok(());
        }
        let why = format!("a new segment and a snapshot want {wanted} bytes, {free} are free");
        Err(io::Error::new(io::ErrorKind::StorageFull, why))
    }

    /// Sets how many bytes new segments leave free for the next snapshot.
    pub(crate) fn keep_free(&self, bytes: u64) {
        self.kept_free.store(bytes, Ordering::Relaxed);
    }

    /// Takes a segment out of use: its file becomes a spare, or is removed if there are enough spares.
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

    /// Segment files after the end of the log.
    pub(crate) fn leftover(&self) -> Vec<u64> {
        self.table().leftover.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryMedium;
    use ottla_layout::Geometry;

    fn files(medium: &MemoryMedium) -> SegmentFiles {
        let identity = Identity { log_id: 1, shard: 0, geometry: Geometry::new(64 << 10).unwrap() };
        let listing = Listing::of(medium.list().unwrap());
        SegmentFiles::new(Arc::new(medium.clone()), identity, &listing)
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
}
