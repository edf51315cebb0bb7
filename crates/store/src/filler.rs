//! The filler: prepares the next segment, writes zeros ahead of the writer, frees segments. It runs beside the writer and
//! only when the writer has come close to the end of what is prepared.
//!
//! An append is only accepted into a prepared segment, whose room is allocated: so a full medium is met here, where nothing
//! was promised yet, and not by the writer.

use crate::buffer::{Buffer, Pool};
use crate::error::LogFailure;
use crate::log_core::{Freed, LogCore, State};
use crate::medium::is_shortage;
use crate::runs::run_name;
use crate::writer::failure;
use ottla_layout::align_up;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Zeros are written in pieces of this size.
const PIECE: u64 = 1 << 20;
/// How far ahead of the writer zeros are written: at first, and when the writer is fast.
const AHEAD: Range<u64> = PIECE..8 * PIECE;
/// Groups that are larger than this on average are written faster into room that is only allocated than after zeros: to change
/// the metadata takes less time than to write everything twice.
const LARGE: u64 = 256 << 10;
/// How far the log goes before the filler looks whether groups are still large.
const LOOK: u64 = 8 * PIECE;
/// How long to wait before asking again for room.
const RETRY: Duration = Duration::from_millis(200);

/// What the filler knows.
#[derive(Debug)]
pub(crate) struct Filler {
    /// How far the files of the current and the next segment reach.
    filled: BTreeMap<u64, u64>,
    ahead: u64,
    zeros: Option<Buffer>,
    /// Groups, and bytes of them, when they were last looked at.
    seen: (u64, u64),
    /// They were large since.
    rests: bool,
}

fn free(shared: &LogCore, freed: &Freed) -> Result<(), LogFailure> {
    let explain = |number: u64| {
        move |error: io::Error| LogFailure {
            file: run_name(number),
            doing: "freeing",
            error: error.to_string(),
        }
    };
    match freed {
        Freed::Segment(number) => {
            shared.files.retire(*number).map_err(|error| failure(*number, "freeing", error))
        }
        Freed::Run(number) => shared.files.runs.retire(*number).map_err(explain(*number)),
        Freed::Range(number, range) => shared.files.runs.punch(*number, range).map_err(explain(*number)),
    }
}

/// What came of one look around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// Something was done: look again.
    Done,
    /// Nothing to do.
    Nothing,
    /// There is no room: try again later.
    Starved,
}

impl Filler {
    pub(crate) fn new() -> Filler {
        Filler { filled: BTreeMap::new(), ahead: AHEAD.start, zeros: None, seen: (0, 0), rests: false }
    }

    /// The body of the filler thread. It begins when the first group was written: the first answer is not to wait for it.
    pub(crate) fn run(mut self, shared: &LogCore) {
        let mut chore = Chore::Nothing;
        while Self::wait_for_chores(shared, chore) {
            chore = match self.step(shared) {
                Ok(chore) => chore,
                Err(failure) => return shared.fail(failure),
            };
            if chore == Chore::Nothing {
                self.zeros = None;
            }
        }
    }

    /// Waits as long as what was last seen allows; returns whether to go on.
    fn wait_for_chores(shared: &LogCore, last: Chore) -> bool {
        let mut state = shared.lock();
        if last == Chore::Starved && !state.stop {
            let waited = shared.chores.wait_timeout(state, RETRY);
            return !waited.unwrap_or_else(PoisonError::into_inner).0.stop;
        }
        while last == Chore::Nothing && !state.stop && !Self::is_due(shared, &state) {
            state = shared.chores.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.stop
    }

    fn is_due(shared: &LogCore, state: &State) -> bool {
        shared.durable() >= shared.fill_at.load(Ordering::Acquire) || state.wanted > state.prepared
    }

    /// Does the most urgent chore.
    pub(crate) fn step(&mut self, shared: &LogCore) -> Result<Chore, LogFailure> {
        if self.free(shared)? {
            return Ok(Chore::Done);
        }
        match self.prepare(shared)? {
            Chore::Nothing => {}
            other => {
                self.sync_left(shared)?;
                return Ok(other);
            }
        }
        if shared.options.zero_fill {
            self.look(shared);
            if !self.rests && self.fill(shared)? {
                return Ok(Chore::Done);
            }
        }
        self.schedule(shared);
        Ok(Chore::Nothing)
    }

    /// Frees what its time has come for.
    fn free(&mut self, shared: &LogCore) -> Result<bool, LogFailure> {
        let due: Vec<Freed> = {
            let mut state = shared.lock();
            let durable = shared.durable();
            let due = state.freeing.extract_if(.., |freeing| freeing.after <= durable);
            due.flat_map(|freeing| freeing.freed).collect()
        };
        if due.is_empty() {
            return Ok(false);
        }
        if !shared.syncs() {
            // What made them free must not be lost while they are.
            shared.sync_up_to(u64::MAX)?;
        }
        for freed in due {
            free(shared, &freed)?;
        }
        Ok(true)
    }

    /// Prepares the next segment when less than three quarters of a segment are left.
    fn prepare(&mut self, shared: &LogCore) -> Result<Chore, LogFailure> {
        let geometry = shared.geometry();
        let next = {
            let state = shared.lock();
            let left = geometry.end_of(state.prepared) - state.end();
            if left > geometry.segment_size() / 4 * 3 && state.wanted <= state.prepared {
                return Ok(Chore::Nothing);
            }
            state.prepared + 1
        };
        let prepared = shared.files.prepare(next, shared.epoch);
        let free = shared.files.medium.free_space().unwrap_or(0);
        let mut state = shared.lock();
        state.low = free < shared.files.room_for_segment();
        let chore = match prepared {
            Ok(size) => {
                self.filled.insert(next, size);
                state.prepared = next;
                state.starved = false;
                Chore::Done
            }
            Err(error) if is_shortage(&error) => {
                state.starved = true;
                shared.fill_at.store(u64::MAX, Ordering::Release);
                Chore::Starved
            }
            Err(error) => return Err(failure(next, "preparing", error)),
        };
        drop(state);
        shared.progress.notify_all();
        Ok(chore)
    }

    /// Without a sync for each group, segments that the log has left are synced, once there is room ahead: nobody waits for it.
    fn sync_left(&self, shared: &LogCore) -> Result<(), LogFailure> {
        if shared.syncs() {
            return Ok(());
        }
        let geometry = shared.geometry();
        let in_use = geometry.replay_segment(shared.durable());
        shared.sync_up_to(geometry.start_of(in_use))
    }

    /// Writes a piece of zeros ahead of the writer; returns whether there was need.
    fn fill(&mut self, shared: &LogCore) -> Result<bool, LogFailure> {
        let Some(piece) = self.claim(shared).map_err(|error| failure(0, "measuring", error))? else {
            return Ok(false);
        };
        let geometry = shared.geometry();
        let number = geometry.segment_of(piece.start);
        let filled = self.write_zeros(shared, number, &piece);
        shared.lock().claim = None;
        shared.progress.notify_all();
        match filled {
            Ok(()) => {
                self.filled.insert(number, piece.end - geometry.start_of(number));
                Ok(true)
            }
            // The room is allocated; where that means nothing, the writer meets it.
            Err(error) if is_shortage(&error) => Ok(false),
            Err(error) => Err(failure(number, "filling", error)),
        }
    }

    fn write_zeros(&mut self, shared: &LogCore, number: u64, piece: &Range<u64>) -> io::Result<()> {
        let zeros = self.zeros.get_or_insert_with(|| {
            // Fresh memory is zero, and takes no room until it is written to.
            let mut zeros = Pool::new(0).take(PIECE as usize);
            zeros.resize_for_read(PIECE as usize);
            zeros
        });
        let file = shared.files.segment(number)?;
        let len = (piece.end - piece.start) as usize;
        file.write_at(&zeros.as_ref()[..len], shared.geometry().offset_of(piece.start))?;
        file.sync()
    }

    /// Looks how large the groups were lately.
    fn look(&mut self, shared: &LogCore) {
        let written = shared.stats.group_bytes.view();
        let seen = (written.count(), written.sum);
        let (groups, bytes) = (seen.0 - self.seen.0, seen.1 - self.seen.1);
        if let Some(size) = bytes.checked_div(groups) {
            self.rests = size > LARGE;
            self.seen = seen;
        }
    }

    /// Marks the next piece as the filler's, if one is needed.
    fn claim(&mut self, shared: &LogCore) -> io::Result<Option<Range<u64>>> {
        let geometry = shared.geometry();
        let (end, prepared) = {
            let state = shared.lock();
            (align_up(state.end()), state.prepared)
        };
        let number = geometry.replay_segment(end);
        self.filled = self.filled.split_off(&number);
        for number in [number, number + 1] {
            let limit = geometry.end_of(number);
            let filled = self.filled_to(shared, number)?;
            if number > prepared || (filled < limit && filled >= end + self.ahead / 2) {
                break;
            }
            if filled >= limit {
                continue;
            }
            if filled < end {
                self.ahead = (self.ahead * 2).min(AHEAD.end);
            }
            return Ok(Self::claim_from(shared, filled, limit));
        }
        Ok(None)
    }

    /// Claims a piece at `filled`, or behind whatever was appended there meanwhile.
    fn claim_from(shared: &LogCore, filled: u64, limit: u64) -> Option<Range<u64>> {
        let mut state = shared.lock();
        let start = filled.max(align_up(state.end()));
        let piece = start..(start + PIECE).min(limit);
        if piece.is_empty() {
            return None;
        }
        state.claim = Some(piece.clone());
        Some(piece)
    }

    /// Position up to which the file of a segment has been written.
    fn filled_to(&mut self, shared: &LogCore, number: u64) -> io::Result<u64> {
        let start = shared.geometry().start_of(number);
        if !shared.files.is_live(number) {
            return Ok(start);
        }
        let size = match self.filled.get(&number) {
            Some(size) => *size,
            None => shared.files.segment(number)?.size()?,
        };
        self.filled.insert(number, size);
        Ok((start + size).min(shared.geometry().end_of(number)))
    }

    /// Says when the next look around is due: when half of what lies ahead is used.
    fn schedule(&mut self, shared: &LogCore) {
        let geometry = shared.geometry();
        let state = shared.lock();
        let mut due = geometry.end_of(state.prepared) - geometry.segment_size() / 4 * 3;
        if shared.options.zero_fill && self.rests {
            due = due.min(state.end() + LOOK);
        } else if shared.options.zero_fill {
            let ahead = self.filled.iter().map(|(number, size)| geometry.start_of(*number) + size).max();
            let filled = ahead.unwrap_or(0);
            if filled < geometry.end_of(state.prepared) {
                due = due.min(filled.saturating_sub(self.ahead / 2).max(state.end() + 1));
            }
        }
        if let Some(first) = state.freeing.iter().map(|freeing| freeing.after).min() {
            due = due.min(first);
        }
        shared.fill_at.store(due, Ordering::Release);
    }
}
