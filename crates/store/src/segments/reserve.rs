//! Background work of the segment store: prepares the next segment, fills it with zeros ahead of the writer, and syncs
//! segments behind the writer. It runs only when the end of the log is close to the end of the prepared space.

use super::{SegmentStore, failure};
use crate::buffer::{Buffer, Pool};
use crate::error::LogFailure;
use crate::group_store::{LogProgress, MaintenanceStep, Reservation};
use crate::medium::is_shortage;
use ottla_layout::align_up;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Zeros are written in pieces of this size.
const PIECE: u64 = 1 << 20;
/// How far ahead of the writer zeros are written: at first, and when the writer is fast.
const AHEAD: Range<u64> = PIECE..8 * PIECE;
/// Above this average size of groups no zeros are written: the change of metadata takes less time than writing
/// everything twice.
const LARGE_GROUP: u64 = 256 << 10;
/// While no zeros are written: bytes of log after which the average size is computed again.
const LOOK: u64 = 8 * PIECE;

/// What the writer, the appends and the background work know of the space ahead.
#[derive(Debug)]
pub(super) struct Preparation {
    /// The last segment that can take groups.
    pub(super) prepared: u64,
    /// The last attempt to prepare a segment failed for lack of space.
    pub(super) out_of_space: bool,
    /// The medium had less space than a segment takes when last asked.
    pub(super) low: bool,
    /// The range that is being filled with zeros: the writer waits.
    pub(super) zeroing: Option<Range<u64>>,
    /// Position after the last group whose write has begun: no zeros may be written before it.
    pub(super) begun: u64,
}

impl Preparation {
    pub(super) fn new(prepared: u64) -> Preparation {
        Preparation { prepared, out_of_space: false, low: false, zeroing: None, begun: 0 }
    }

    pub(super) fn reservation(&self, segment: u64) -> Reservation {
        if segment <= self.prepared {
            Reservation::Ready
        } else if self.out_of_space {
            Reservation::OutOfSpace
        } else {
            Reservation::Pending
        }
    }
}

/// The state of the background work.
#[derive(Debug)]
pub(super) struct Reserver {
    zero_fill: bool,
    /// How many bytes of the files of the current and the next segment have been written.
    filled: BTreeMap<u64, u64>,
    /// How far ahead of the writer zeros are written now.
    ahead: u64,
    zeros: Option<Buffer>,
    /// Number and bytes of the written groups when their average size was last computed.
    counted: (u64, u64),
    groups_are_large: bool,
}

impl Reserver {
    pub(super) fn new(zero_fill: bool) -> Reserver {
        Reserver {
            zero_fill,
            filled: BTreeMap::new(),
            ahead: AHEAD.start,
            zeros: None,
            counted: (0, 0),
            groups_are_large: false,
        }
    }

    pub(super) fn step(
        &mut self,
        store: &SegmentStore,
        log: &dyn LogProgress,
    ) -> Result<MaintenanceStep, LogFailure> {
        if let Some(step) = self.prepare(store, log)? {
            return Ok(step);
        }
        sync_left_segments(store, log)?;
        if self.zero_fill {
            self.measure_groups(store);
            if !self.groups_are_large && self.fill(store, log)? {
                return Ok(MaintenanceStep::Done);
            }
        }
        self.zeros = None;
        Ok(MaintenanceStep::Idle { due: self.due(store, log) })
    }

    /// Prepares the next segment when less than three quarters of a segment remain, or an append waits for it.
    fn prepare(
        &mut self,
        store: &SegmentStore,
        log: &dyn LogProgress,
    ) -> Result<Option<MaintenanceStep>, LogFailure> {
        let geometry = store.geometry();
        let (end, wanted) = (log.end(), geometry.segment_of(log.wanted()));
        let prepared = store.preparation().prepared;
        let remaining = geometry.end_of(prepared) - end;
        if remaining > geometry.segment_size() / 4 * 3 && wanted <= prepared {
            return Ok(None);
        }
        let next = prepared + 1;
        let outcome = store.files.prepare(next, store.epoch);
        let free = store.files.medium.free_space().unwrap_or(0);
        let mut preparation = store.preparation();
        preparation.low = free < store.files.space_for_segment();
        match outcome {
            Ok(size) => {
                self.filled.insert(next, size);
                preparation.prepared = next;
                preparation.out_of_space = false;
                Ok(Some(MaintenanceStep::Done))
            }
            Err(error) if is_shortage(&error) => {
                preparation.out_of_space = true;
                Ok(Some(MaintenanceStep::OutOfSpace))
            }
            Err(error) => Err(failure(next, "preparing", error)),
        }
    }

    /// Writes a piece of zeros ahead of the writer; returns whether one was needed.
    fn fill(&mut self, store: &SegmentStore, log: &dyn LogProgress) -> Result<bool, LogFailure> {
        let range = self.range_to_fill(store, log).map_err(|error| failure(0, "measuring", error))?;
        let Some(range) = range else {
            return Ok(false);
        };
        let geometry = store.geometry();
        let number = geometry.segment_of(range.start);
        let outcome = self.write_zeros(store, number, &range);
        store.preparation().zeroing = None;
        store.released.notify_all();
        match outcome {
            Ok(()) => {
                self.filled.insert(number, range.end - geometry.start_of(number));
                Ok(true)
            }
            // The space is allocated; on a medium that does not allocate, the writer gets the error.
            Err(error) if is_shortage(&error) => Ok(false),
            Err(error) => Err(failure(number, "filling", error)),
        }
    }

    fn write_zeros(&mut self, store: &SegmentStore, number: u64, range: &Range<u64>) -> io::Result<()> {
        let zeros = self.zeros.get_or_insert_with(|| {
            // Newly allocated memory is zero, and takes no physical memory until it is written to.
            let mut zeros = Pool::new(0).take(PIECE as usize);
            zeros.resize_for_read(PIECE as usize);
            zeros
        });
        let file = store.files.segment(number)?;
        let len = (range.end - range.start) as usize;
        file.write_at(&zeros.as_ref()[..len], store.geometry().offset_of(range.start))?;
        file.sync()
    }

    /// Computes the average size of the groups that were written since the last time.
    fn measure_groups(&mut self, store: &SegmentStore) {
        let sizes = store.stats.group_bytes.view();
        let counted = (sizes.count(), sizes.sum);
        let (groups, bytes) = (counted.0 - self.counted.0, counted.1 - self.counted.1);
        if let Some(average) = bytes.checked_div(groups) {
            self.groups_are_large = average > LARGE_GROUP;
            self.counted = counted;
        }
    }

    /// The next range to fill with zeros, if one is needed. The writer keeps out of it from now on.
    fn range_to_fill(
        &mut self,
        store: &SegmentStore,
        log: &dyn LogProgress,
    ) -> io::Result<Option<Range<u64>>> {
        let geometry = store.geometry();
        let end = align_up(log.end());
        let prepared = store.preparation().prepared;
        let number = geometry.replay_segment(end);
        self.filled = self.filled.split_off(&number);
        for number in [number, number + 1] {
            let limit = geometry.end_of(number);
            let filled = self.filled_to(store, number)?;
            if number > prepared || (filled < limit && filled >= end + self.ahead / 2) {
                break;
            }
            if filled >= limit {
                continue;
            }
            if filled < end {
                self.ahead = (self.ahead * 2).min(AHEAD.end);
            }
            return Ok(claim(store, filled.max(align_up(log.end())), limit));
        }
        Ok(None)
    }

    /// Position up to which the file of a segment has been written.
    fn filled_to(&mut self, store: &SegmentStore, number: u64) -> io::Result<u64> {
        let start = store.geometry().start_of(number);
        if !store.files.is_live(number) {
            return Ok(start);
        }
        let size = match self.filled.get(&number) {
            Some(size) => *size,
            None => store.files.segment(number)?.size()?,
        };
        self.filled.insert(number, size);
        Ok((start + size).min(store.geometry().end_of(number)))
    }

    /// The position at which the next step is due: when half of what lies ahead is used.
    fn due(&self, store: &SegmentStore, log: &dyn LogProgress) -> u64 {
        let geometry = store.geometry();
        let (end, prepared) = (log.end(), store.preparation().prepared);
        let due = geometry.end_of(prepared) - geometry.segment_size() / 4 * 3;
        if !self.zero_fill {
            return due;
        }
        if self.groups_are_large {
            return due.min(end + LOOK);
        }
        let ahead = self.filled.iter().map(|(number, size)| geometry.start_of(*number) + size).max();
        let filled = ahead.unwrap_or(0);
        if filled < geometry.end_of(prepared) {
            return due.min(filled.saturating_sub(self.ahead / 2).max(end + 1));
        }
        due
    }
}

/// Claims a piece from `start` on, or after the last group whose write has begun.
fn claim(store: &SegmentStore, start: u64, limit: u64) -> Option<Range<u64>> {
    let mut preparation = store.preparation();
    let start = start.max(preparation.begun);
    let range = start..(start + PIECE).min(limit);
    if range.is_empty() {
        return None;
    }
    preparation.zeroing = Some(range.clone());
    Some(range)
}

/// Without a sync for each group, segments behind the writer are synced here, where no caller waits for it.
fn sync_left_segments(store: &SegmentStore, log: &dyn LogProgress) -> Result<(), LogFailure> {
    if store.syncs_each_group() {
        return Ok(());
    }
    let geometry = store.geometry();
    let in_use = geometry.replay_segment(log.durable());
    store.sync_up_to(geometry.start_of(in_use))
}
