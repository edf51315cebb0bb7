//! What the host, the writer, the filler and readers share, and the rules of the open group.

use crate::buffer::{Buffer, Pool};
use crate::error::LogFailure;
use crate::files::Files;
use crate::options::{Callbacks, Durability, Options};
use crate::recent::RecentGroups;
use crate::stats::LogStats;
use crate::writer::ChainEnd;
use ottla_layout::{GROUP_CAP, GROUP_HEADER, Geometry, align_up};
use ottla_types::LogPosition;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Unused buffers that are kept, in bytes.
const POOL: usize = 8 << 20;

/// A group that is being filled, or waits to be written.
#[derive(Debug)]
pub(crate) struct OpenGroup {
    /// Where it begins.
    pub(crate) position: u64,
    /// Room for the header, then the entries.
    pub(crate) buffer: Buffer,
    pub(crate) entries: u32,
}

impl OpenGroup {
    pub(crate) fn at(position: u64, mut buffer: Buffer) -> OpenGroup {
        buffer.resize(GROUP_HEADER);
        OpenGroup { position, buffer, entries: 0 }
    }

    /// Position behind the last entry.
    fn end(&self) -> u64 {
        self.position + self.buffer.len() as u64
    }

    /// Position behind the padding.
    fn padded_end(&self) -> u64 {
        align_up(self.end())
    }
}

/// A request to free something once the log is durable up to a position.
#[derive(Debug)]
pub(crate) struct Freeing {
    pub(crate) after: u64,
    pub(crate) freed: Vec<Freed>,
}

/// Something that nothing refers to any more.
#[derive(Clone, Debug)]
pub(crate) enum Freed {
    Segment(u64),
    Run(u64),
    /// A range of a run.
    Range(u64, Range<u64>),
}

/// What changes under the lock.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The group that takes the next entry.
    pub(crate) open: Option<OpenGroup>,
    /// Full groups that wait for the writer.
    pub(crate) sealed: VecDeque<OpenGroup>,
    /// Position behind the last group that was closed; the next one begins here if it fits.
    pub(crate) next: u64,
    /// The host wants the open group written.
    pub(crate) kicked: bool,
    /// The writer thread waits for work.
    pub(crate) writer_waits: bool,
    /// How many wait for progress.
    pub(crate) waiters: usize,
    /// Threads should end.
    pub(crate) stop: bool,
    /// What ended the log.
    pub(crate) failed: Option<LogFailure>,
    /// The last segment that can take groups.
    pub(crate) prepared: u64,
    /// The segment that an append waits for.
    pub(crate) wanted: u64,
    /// The last attempt to prepare a segment failed for lack of room.
    pub(crate) starved: bool,
    /// The medium had less room than a segment when last asked.
    pub(crate) low: bool,
    /// Where the filler is writing zeros: the writer keeps out.
    pub(crate) claim: Option<Range<u64>>,
    pub(crate) freeing: Vec<Freeing>,
    /// Positions of the snapshots that are kept, newest first.
    pub(crate) snapshots: Vec<u64>,
    /// Positions of damaged snapshots, to be removed when there is a new one.
    pub(crate) damaged: Vec<u64>,
    /// Capacity that the last group needed: the next one starts with it.
    pub(crate) last_capacity: usize,
}

impl State {
    /// Position behind the last entry; a stamp that is durable when everything accepted so far is.
    pub(crate) fn end(&self) -> u64 {
        self.open.as_ref().map_or(self.next, OpenGroup::end)
    }

    /// Closes the open group.
    pub(crate) fn seal(&mut self) {
        if let Some(open) = self.open.take() {
            self.next = open.padded_end();
            self.last_capacity = open.buffer.len();
            self.sealed.push_back(open);
        }
    }

    /// Closes the open group if an entry of `len` bytes, length field included, does not fit into it, and returns where the
    /// group that takes the entry begins.
    pub(crate) fn place_for(&mut self, geometry: Geometry, len: usize) -> u64 {
        if let Some(open) = &self.open {
            let after = open.buffer.len() + len;
            let limit = geometry.end_of(geometry.segment_of(open.position));
            if after <= GROUP_CAP && open.position + align_up(after as u64) <= limit {
                return open.position;
            }
            self.seal();
        }
        geometry.place_for(self.next, align_up((GROUP_HEADER + len) as u64))
    }

    /// Bytes of the groups that wait for the writer.
    pub(crate) fn sealed_bytes(&self) -> usize {
        self.sealed.iter().map(|group| group.buffer.len()).sum()
    }

    /// The open group, begun at `position` if there is none.
    pub(crate) fn open_at(&mut self, position: u64, pool: &Arc<Pool>) -> &mut OpenGroup {
        let capacity = self.last_capacity;
        self.open.get_or_insert_with(|| OpenGroup::at(position, pool.take(capacity)))
    }

    /// The next group to write.
    pub(crate) fn take_group(&mut self) -> Option<OpenGroup> {
        if self.sealed.is_empty() && self.kicked {
            self.kicked = false;
            self.seal();
        }
        self.sealed.pop_front()
    }
}

/// Everything that is shared.
pub(crate) struct LogCore {
    pub(crate) options: Options,
    pub(crate) callbacks: Callbacks,
    pub(crate) files: Files,
    pub(crate) pool: Arc<Pool>,
    pub(crate) recent: RecentGroups,
    pub(crate) epoch: u32,
    pub(crate) stats: LogStats,
    state: Mutex<State>,
    /// Wakes the writer.
    pub(crate) work: Condvar,
    /// Wakes whoever waits for a group to be durable, a segment to be ready, or a claim to be given back.
    pub(crate) progress: Condvar,
    /// Wakes the filler.
    pub(crate) chores: Condvar,
    /// Everything before it is durable, as far as hosts are told.
    durable: AtomicU64,
    /// The filler wants to be woken when the log is durable up to here.
    pub(crate) fill_at: AtomicU64,
    /// The chain, known to whoever writes.
    pub(crate) written: Mutex<ChainEnd>,
}

impl LogCore {
    pub(crate) fn new(
        options: Options,
        callbacks: Callbacks,
        files: Files,
        written: ChainEnd,
        state: State,
    ) -> LogCore {
        LogCore {
            callbacks,
            pool: Pool::new(POOL),
            recent: RecentGroups::new(options.recent),
            epoch: written.epoch,
            stats: LogStats::new(),
            work: Condvar::new(),
            progress: Condvar::new(),
            chores: Condvar::new(),
            durable: AtomicU64::new(written.end),
            fill_at: AtomicU64::new(0),
            written: Mutex::new(written),
            state: Mutex::new(state),
            files,
            options,
        }
    }

    /// Says where appends begin, before anybody waits or listens.
    pub(crate) fn begin_at(&self, end: u64) {
        self.lock().next = end;
        self.durable.store(end, Ordering::Release);
        self.fill_at.store(end + 1, Ordering::Release);
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.files.identity.geometry
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Announces that everything before `end` is durable.
    pub(crate) fn set_durable(&self, end: u64) {
        self.durable.store(end, Ordering::Release);
        // Taking the lock makes sure that nobody checks before the store and waits after the wake-up.
        if self.lock().waiters > 0 {
            self.progress.notify_all();
        }
        if end >= self.fill_at.load(Ordering::Acquire) {
            self.chores.notify_one();
        }
        (self.callbacks.on_durable)(LogPosition(end));
    }

    /// Ends the log.
    pub(crate) fn fail(&self, failure: LogFailure) {
        let first = {
            let mut state = self.lock();
            let first = state.failed.is_none();
            state.failed.get_or_insert_with(|| failure.clone());
            state.stop = true;
            first
        };
        self.work.notify_all();
        self.progress.notify_all();
        self.chores.notify_all();
        if first {
            (self.callbacks.on_failure)(&failure);
        }
    }

    /// Frees something once all that was appended so far is durable.
    pub(crate) fn free_later(&self, freed: Vec<Freed>) {
        if freed.is_empty() {
            return;
        }
        let mut state = self.lock();
        let after = state.end();
        state.freeing.push(Freeing { after, freed });
        self.fill_at.fetch_min(after, Ordering::AcqRel);
        self.chores.notify_one();
    }

    /// Waits until there was progress, or for no reason at all.
    pub(crate) fn wait_for_progress<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiters += 1;
        let mut state = self.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiters -= 1;
        state
    }

    /// Asks for the open group to be written.
    pub(crate) fn kick(&self) {
        let mut state = self.lock();
        if state.open.is_some() {
            state.kicked = true;
            self.wake_writer(&state);
        }
    }

    pub(crate) fn wake_writer(&self, state: &State) {
        if state.writer_waits {
            self.work.notify_one();
        }
    }

    pub(crate) fn syncs(&self) -> bool {
        self.options.durability == Durability::Sync
    }
}
