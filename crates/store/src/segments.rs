//! The group store of a medium: segments, files of fixed size, in which groups lie one after the other.
//!
//! ```text
//!   segment n                                                        segment n + 1
//!   │ header │ group │ group │ group │ zeros   │ allocated         │ │ header │ allocated …        │
//!                            ▲       ▲         ▲                   ▲
//!                            │       │         │                   └ what does not fit begins the next segment
//!                            │       │         └ end of what was filled with zeros: a sync there changes no metadata
//!                            │       └ the writer
//!                            └ everything before is durable
//! ```
//! One group is in flight: one write, one sync. Recovery needs that: a group says up to where the log was durable when
//! it was written, and a later group that calls a damaged place durable proves damage (see [`ottla_layout::recover`]).
//!
//! Space is reserved before a group is accepted: [`GroupStore::maintain`] prepares the next segment, with space
//! allocated for all of it, while the log is in the current one. So a full medium is noticed before a record is
//! accepted, and not by the writer.

mod files;
mod reserve;
mod window;

pub(crate) use files::SegmentFiles;
pub(crate) use window::{FileWindow, SegmentReader};

use crate::error::LogFailure;
use crate::group_store::{
    GroupObserver, GroupSlot, GroupStore, LogProgress, MaintenanceStep, Reservation, SealedGroup,
    SpaceForecast, SpaceLevel,
};
use crate::medium::{MediumFile, ReadMode};
use crate::names::segment_name;
use crate::options::{Durability, Options};
use crate::stats::LogStats;
use ottla_layout::{GROUP_CAP, Geometry, align_up};
use reserve::{Preparation, Reserver};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The groups of a log in segment files.
pub(crate) struct SegmentStore {
    files: SegmentFiles,
    durability: Durability,
    /// The epoch in which new segments are put into use.
    epoch: u32,
    stats: Arc<LogStats>,
    extent: Mutex<Extent>,
    preparation: Mutex<Preparation>,
    /// Wakes the writer when the range that is filled with zeros is released.
    released: Condvar,
    /// Only the caller of [`GroupStore::maintain`] locks it.
    reserver: Mutex<Reserver>,
}

/// How far the log was written.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Position after the last written group.
    written: u64,
    /// Everything before this position was synced.
    synced: u64,
}

impl SegmentStore {
    /// The store of a log that ends at `end`, in segment `prepared`. Everything before `end` is synced.
    pub(crate) fn new(
        files: SegmentFiles,
        options: &Options,
        stats: Arc<LogStats>,
        epoch: u32,
        (end, prepared): (u64, u64),
    ) -> SegmentStore {
        SegmentStore {
            files,
            durability: options.durability,
            epoch,
            stats,
            extent: Mutex::new(Extent { written: end, synced: end }),
            preparation: Mutex::new(Preparation::new(prepared)),
            released: Condvar::new(),
            reserver: Mutex::new(Reserver::new(options.zero_fill)),
        }
    }

    fn geometry(&self) -> Geometry {
        self.files.identity.geometry
    }

    fn extent(&self) -> MutexGuard<'_, Extent> {
        self.extent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn preparation(&self) -> MutexGuard<'_, Preparation> {
        self.preparation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn syncs_each_group(&self) -> bool {
        self.durability == Durability::Sync
    }

    /// Writes a group and makes it as durable as the options ask for.
    fn write(&self, group: &mut SealedGroup) -> Result<(), LogFailure> {
        let number = self.geometry().segment_of(group.position);
        let failure = |doing| move |error| failure(number, doing, error);
        let used = group.buffer.len();
        group.buffer.pad();
        let end = group.position + group.buffer.len() as u64;
        self.begin_write(group.position..end);

        let file = self.files.segment(number).map_err(failure("opening"))?;
        let offset = self.geometry().offset_of(group.position);
        file.write_at(group.buffer.as_ref(), offset).map_err(failure("writing"))?;
        if self.syncs_each_group() {
            self.timed_sync(&*file).map_err(failure("syncing"))?;
        }
        self.extent().written = end;
        // Padding is never read.
        group.buffer.resize(used);
        Ok(())
    }

    /// Waits until a range that is about to be written is not being filled with zeros, and keeps zeros out of it from
    /// now on.
    fn begin_write(&self, range: Range<u64>) {
        let mut preparation = self.preparation();
        while preparation
            .zeroing
            .as_ref()
            .is_some_and(|zeroing| zeroing.start < range.end && range.start < zeroing.end)
        {
            preparation = self.released.wait(preparation).unwrap_or_else(PoisonError::into_inner);
        }
        preparation.begun = range.end;
    }

    /// Syncs the segments up to `position`, or to the end of what is written. The writer continues meanwhile.
    fn sync_up_to(&self, position: u64) -> Result<(), LogFailure> {
        let Extent { written, synced } = *self.extent();
        let end = written.min(position);
        if synced >= end {
            return Ok(());
        }
        let segment = |position| self.geometry().replay_segment(position);
        for number in segment(synced + 1)..=segment(end) {
            let outcome = self.files.segment(number).and_then(|file| self.timed_sync(&*file));
            // A segment that no longer exists was synced before it was freed.
            if let Err(error) = outcome
                && self.files.is_live(number)
            {
                return Err(failure(number, "syncing", error));
            }
        }
        let mut extent = self.extent();
        extent.synced = extent.synced.max(end);
        Ok(())
    }

    fn timed_sync(&self, file: &dyn MediumFile) -> io::Result<()> {
        let begun = Instant::now();
        let synced = file.sync();
        self.stats.syncs.record(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        synced
    }

    fn read_segment(&self, number: u64, buf: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()> {
        let file = self.files.segment(number)?;
        match mode {
            ReadMode::Blocking if file.read_at(buf, offset)? < buf.len() => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            ReadMode::NonBlocking if !file.read_at_once(buf, offset) => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            ReadMode::Blocking | ReadMode::NonBlocking => {}
        }
        // The file of a freed segment may be in use for another segment: the bytes count only if the segment is still
        // in use.
        match self.files.is_live(number) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::NotFound, "the segment was freed")),
        }
    }
}

/// A failure of an access to a segment.
fn failure(number: u64, doing: &'static str, error: io::Error) -> LogFailure {
    LogFailure { file: segment_name(number), doing, error: error.to_string() }
}

impl GroupStore for SegmentStore {
    fn max_in_flight(&self) -> usize {
        1
    }

    fn largest_entry(&self) -> u64 {
        self.geometry().largest_entry()
    }

    fn slot(&self, after: u64, len: usize) -> GroupSlot {
        let position = self.geometry().place_for(after, align_up(len as u64));
        let space = self.segment_end(position) - position;
        GroupSlot { position, limit: GROUP_CAP.min(usize::try_from(space).unwrap_or(usize::MAX)) }
    }

    fn padded_len(&self, len: usize) -> u64 {
        align_up(len as u64)
    }

    fn reservation(&self, position: u64) -> Reservation {
        let number = self.geometry().segment_of(position);
        self.preparation().reservation(number)
    }

    fn submit(&self, mut group: SealedGroup, observer: Arc<dyn GroupObserver>) {
        match self.write(&mut group) {
            Ok(()) => observer.finished(group),
            Err(failure) => observer.failed(failure),
        }
    }

    fn synced(&self) -> u64 {
        if self.syncs_each_group() { u64::MAX } else { self.extent().synced }
    }

    fn sync(&self, position: u64) -> Result<(), LogFailure> {
        if self.syncs_each_group() { Ok(()) } else { self.sync_up_to(position) }
    }

    fn read(&self, position: u64, buf: &mut [u8], mode: ReadMode) -> io::Result<()> {
        let number = self.geometry().segment_of(position);
        let offset = self.geometry().offset_of(position);
        self.read_segment(number, buf, offset, mode).map_err(|error| {
            io::Error::new(error.kind(), format!("{} at offset {offset}: {error}", segment_name(number)))
        })
    }

    fn segment_size(&self) -> u64 {
        self.geometry().segment_size()
    }

    fn segment_of(&self, position: u64) -> u64 {
        self.geometry().segment_of(position)
    }

    fn segment_end(&self, position: u64) -> u64 {
        self.geometry().end_of(self.geometry().segment_of(position))
    }

    fn segments(&self) -> Vec<u64> {
        self.files.segments()
    }

    fn is_live(&self, segment: u64) -> bool {
        self.files.is_live(segment)
    }

    fn free(&self, segment: u64) -> Result<(), LogFailure> {
        self.files.retire(segment).map_err(|error| failure(segment, "freeing", error))
    }

    fn space(&self, end: u64, bytes: u64) -> SpaceForecast {
        let geometry = self.geometry();
        // An entry that does not fit into the rest of a segment begins in the next one: the rest is lost, less than the
        // entry.
        let needed = (geometry.segment_size() / 2).saturating_add(bytes.saturating_mul(2));
        let preparation = self.preparation();
        let half_used = geometry.end_of(preparation.prepared) - end < needed;
        let level = if preparation.out_of_space && half_used {
            SpaceLevel::Full
        } else if preparation.out_of_space || preparation.low {
            SpaceLevel::Low
        } else {
            SpaceLevel::Plenty
        };
        let is_pending = half_used && !preparation.out_of_space;
        SpaceForecast { level, pending: is_pending.then(|| geometry.end_of(preparation.prepared)) }
    }

    fn keep_free(&self, bytes: u64) {
        self.files.keep_free(bytes);
    }

    fn free_space(&self) -> io::Result<u64> {
        self.files.medium.free_space()
    }

    fn capacity(&self) -> io::Result<Option<u64>> {
        self.files.medium.capacity()
    }

    fn describe(&self) -> String {
        let medium = self.files.medium.describe();
        let segments = self.segments().len();
        format!("{medium}, {segments} segments of {} KiB", self.segment_size() >> 10)
    }

    fn maintain(&self, log: &dyn LogProgress) -> Result<MaintenanceStep, LogFailure> {
        let mut reserver = self.reserver.lock().unwrap_or_else(PoisonError::into_inner);
        reserver.step(self, log)
    }
}
