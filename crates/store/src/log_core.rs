//! The state of a log that the host, the writer, the background work and readers share.
//!
//! `log_core/state.rs` holds what changes under the lock, `writer.rs` seals groups and hands them to the store,
//! `in_flight.rs` orders what the store has finished, `maintenance.rs` does the background work.

mod in_flight;
mod maintenance;
mod state;
mod writer;

pub(crate) use maintenance::Maintenance;
pub(crate) use state::{OpenGroup, State};
pub(crate) use writer::GroupChain;

use crate::blob::BlobStore;
use crate::buffer::Pool;
use crate::error::LogFailure;
use crate::free::{FreeQueue, FreeTarget};
use crate::group_store::{GroupStore, LogProgress};
use crate::options::{Callbacks, Options};
use crate::read_ahead::ReadAhead;
use crate::recent::RecentGroups;
use crate::runs::{RunFiles, Runs};
use crate::stats::LogStats;
use in_flight::InFlight;
use ottla_layout::Identity;
use ottla_types::LogPosition;
use state::PendingFree;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of unused buffers that are kept.
const POOL: usize = 8 << 20;

/// The stores of a log.
pub(crate) struct Storage {
    pub(crate) groups: Arc<dyn GroupStore>,
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) runs: Arc<RunFiles>,
    pub(crate) read_ahead: Arc<ReadAhead>,
}

/// The shared state of a log.
pub(crate) struct LogCore {
    pub(crate) options: Options,
    pub(crate) callbacks: Callbacks,
    pub(crate) identity: Identity,
    pub(crate) store: Arc<dyn GroupStore>,
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) runs: Arc<RunFiles>,
    pub(crate) read_ahead: Arc<ReadAhead>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) recent: RecentGroups,
    pub(crate) stats: Arc<LogStats>,
    state: Mutex<State>,
    /// Wakes the writer.
    pub(crate) work: Condvar,
    /// Wakes threads that wait for a group to be durable or for space to be reserved.
    pub(crate) progress: Condvar,
    /// Wakes the background work.
    pub(crate) maintenance: Condvar,
    /// Everything before it is durable.
    durable: AtomicU64,
    /// The background work is due when the log is durable up to here.
    maintenance_due: AtomicU64,
    chain: Mutex<GroupChain>,
    in_flight: Mutex<InFlight>,
    /// The number of groups in flight, for the writer.
    in_flight_len: AtomicUsize,
}

impl LogCore {
    /// The core of a log that is durable up to `end`.
    pub(crate) fn new(
        (options, callbacks): (Options, Callbacks),
        (identity, stats): (Identity, Arc<LogStats>),
        storage: Storage,
        (chain, end): (GroupChain, u64),
        state: State,
    ) -> LogCore {
        LogCore {
            callbacks,
            identity,
            store: storage.groups,
            blobs: storage.blobs,
            runs: storage.runs,
            read_ahead: storage.read_ahead,
            pool: Pool::new(POOL),
            recent: RecentGroups::new(options.recent),
            stats,
            state: Mutex::new(state),
            work: Condvar::new(),
            progress: Condvar::new(),
            maintenance: Condvar::new(),
            durable: AtomicU64::new(end),
            maintenance_due: AtomicU64::new(0),
            chain: Mutex::new(chain),
            in_flight: Mutex::default(),
            in_flight_len: AtomicUsize::new(0),
            options,
        }
    }

    /// Sets where appends begin, before there are threads and callbacks.
    pub(crate) fn begin_at(&self, end: u64) {
        self.lock().next = end;
        self.durable.store(end, Ordering::Release);
        self.maintenance_due.store(end + 1, Ordering::Release);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// The runs of this log.
    pub(crate) fn runs(self: &Arc<Self>) -> Runs {
        let queue = Arc::clone(self) as Arc<dyn FreeQueue>;
        Runs::new(Arc::clone(&self.runs), Arc::clone(&self.pool), Some(queue))
    }

    /// Publishes that everything before `end` is durable.
    fn set_durable(&self, end: u64) {
        self.durable.store(end, Ordering::Release);
        // The lock orders this after a thread that has read the old value and is about to wait.
        self.wake_waiters();
        if end >= self.maintenance_due.load(Ordering::Acquire) {
            self.maintenance.notify_one();
        }
        (self.callbacks.on_durable)(LogPosition(end));
    }

    /// Wakes the threads that wait for progress, and the writer if it waits for a place among the groups in flight.
    fn wake_waiters(&self) {
        let state = self.lock();
        if state.waiters > 0 {
            self.progress.notify_all();
        }
        self.wake_writer(&state);
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
        self.maintenance.notify_all();
        if first {
            (self.callbacks.on_failure)(&failure);
        }
    }

    /// Waits for progress; may wake spuriously.
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
}

impl FreeQueue for LogCore {
    fn free_later(&self, targets: Vec<FreeTarget>) {
        if targets.is_empty() {
            return;
        }
        let mut state = self.lock();
        let after = state.end();
        state.freeing.push(PendingFree { after, targets });
        self.maintenance_due.fetch_min(after, Ordering::AcqRel);
        self.maintenance.notify_one();
    }
}

impl LogProgress for LogCore {
    fn end(&self) -> u64 {
        self.lock().end()
    }

    fn durable(&self) -> u64 {
        LogCore::durable(self)
    }

    fn wanted(&self) -> u64 {
        self.lock().wanted
    }
}
