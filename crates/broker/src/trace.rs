//! What connections said last, seen where frames are read and written, after any TLS: bounded rings of exchanges.
//!
//! Off, it costs one relaxed load for each frame. On, every exchange that passes the filter is kept whole: who, what, the bytes both
//! ways (the first [`FRAME_CAP`] of each frame, copied, so that nothing else is kept alive by them), the times of its stages, and
//! the broker's [`Verdict`]s: which rule refused it, with the values at hand.
//!
//! All memory is bounded by one number of bytes ([`Trace::usage`]): three quarters of it hold what is over, oldest out first, a
//! quarter what is under way; what does not fit there is not recorded, and counted. Secrets (SASL bytes, SCRAM credentials,
//! HMACs of delegation tokens) are overwritten as the frame is taken up, their lengths kept.

mod exchange;
mod filter;
mod recording;
mod rings;
mod secrets;
mod subjects;
#[cfg(test)]
mod tests;

pub use exchange::{Ending, Exchange, Stages, TracedFrame, Verdict};
pub use filter::TraceFilter;
pub(crate) use recording::{Notes, Recording, Stage};

use crate::host::Host;
use bytes::Bytes;
use exchange::Asked;
use ottla_types::TopicId;
use ottla_wire::Uuid;
use rings::Rings;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The most bytes of a frame that are kept.
pub const FRAME_CAP: usize = 64 << 10;
/// Exchanges that are kept of one connection, unless told otherwise.
pub const TRACE_RING: usize = 100;
/// Bytes that all that is kept may take, unless told otherwise.
pub const TRACE_BYTES: usize = 8 << 20;
/// What an exchange that is under way counts for beside its frames.
const UNDER_WAY: usize = 4 << 10;
/// Names of topics that are remembered; beyond, they are forgotten and asked for again.
const MOST_NAMES: usize = 10_000;

/// The trace of a server: a handle, of which all clones are the same trace.
#[derive(Clone, Debug)]
pub struct Trace {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    on: AtomicBool,
    /// Bytes for all.
    limit: usize,
    /// Bytes of exchanges that are under way.
    under_way: AtomicUsize,
    missed: AtomicU64,
    filter: Mutex<Arc<TraceFilter>>,
    rings: Mutex<Rings>,
    names: Mutex<BTreeMap<Uuid, String>>,
}

/// What a trace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceUsage {
    /// Exchanges that are kept.
    pub exchanges: usize,
    /// Bytes they take.
    pub bytes: usize,
    /// Bytes that exchanges under way take.
    pub under_way: usize,
    /// The most that both may take together.
    pub limit: usize,
    /// Exchanges of one connection that are kept.
    pub ring: usize,
    /// Exchanges that were not recorded because too many were under way.
    pub missed: u64,
}

/// The beginning of an exchange, as a connection sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    /// The number of the connection.
    pub(crate) connection: u64,
    /// The other end.
    pub(crate) peer: SocketAddr,
    /// When the whole request was there.
    pub(crate) at: Instant,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace::new(TRACE_BYTES)
    }
}

impl Trace {
    /// A trace that is off and may take so many bytes once it is on.
    pub fn new(limit: usize) -> Trace {
        let shared = Shared {
            on: AtomicBool::new(false),
            limit,
            under_way: AtomicUsize::new(0),
            missed: AtomicU64::new(0),
            filter: Mutex::default(),
            rings: Mutex::new(Rings::new(TRACE_RING, limit - limit / 4)),
            names: Mutex::default(),
        };
        Trace { shared: Arc::new(shared) }
    }

    /// Whether requests that come in are recorded.
    pub fn is_on(&self) -> bool {
        self.shared.on.load(Relaxed)
    }

    /// Records from now on; the last `ring` exchanges of each connection are kept, at least one.
    pub fn start(&self, ring: usize) {
        self.rings().set_ring(ring.max(1));
        self.shared.on.store(true, Relaxed);
    }

    /// Records nothing more. What is kept stays until [`Trace::clear`]; what is under way is still finished.
    pub fn stop(&self) {
        self.shared.on.store(false, Relaxed);
    }

    /// Forgets what is kept. Sequence numbers go on.
    pub fn clear(&self) {
        self.rings().clear();
    }

    /// What is recorded, of all that comes in.
    pub fn filter(&self) -> TraceFilter {
        TraceFilter::clone(&lock(&self.shared.filter))
    }

    /// Records only what passes this filter, from now on. What is kept stays.
    pub fn set_filter(&self, filter: TraceFilter) {
        *lock(&self.shared.filter) = Arc::new(filter);
    }

    /// What is kept and passes this filter, newest last.
    pub fn snapshot(&self, filter: &TraceFilter) -> Vec<Arc<Exchange>> {
        self.after(0, filter)
    }

    /// What is kept, came to its end after the exchange with this sequence number, and passes the filter, newest last. A page
    /// that refreshes asks with the number of the last exchange it has; 0 is before all.
    pub fn after(&self, seq: u64, filter: &TraceFilter) -> Vec<Arc<Exchange>> {
        let rings = self.rings();
        rings.after(seq).filter(|exchange| filter.passes(exchange)).cloned().collect()
    }

    /// One exchange, if it is still kept.
    pub fn exchange(&self, seq: u64) -> Option<Arc<Exchange>> {
        self.rings().get(seq).cloned()
    }

    /// The sequence number of the last exchange that was kept; 0 if there was none yet.
    pub fn last_seq(&self) -> u64 {
        self.rings().last_seq()
    }

    /// How much is kept, and how much may be.
    pub fn usage(&self) -> TraceUsage {
        let rings = self.rings();
        TraceUsage {
            exchanges: rings.len(),
            bytes: rings.bytes(),
            under_way: self.shared.under_way.load(Relaxed),
            limit: self.shared.limit,
            ring: rings.ring(),
            missed: self.shared.missed.load(Relaxed),
        }
    }

    /// Begins to record a request, if it may pass the filter and there is room; `frame` starts behind the length prefix.
    pub(crate) fn record(&self, arrived: Arrived, frame: &Bytes) -> Option<Box<Recording>> {
        let filter = Arc::clone(&lock(&self.shared.filter));
        let asked = Asked::read(frame);
        if !filter.may_pass(arrived.connection, &asked) {
            return None;
        }
        if !self.reserve(UNDER_WAY) {
            self.shared.missed.fetch_add(1, Relaxed);
            return None;
        }
        // In a box, so that a connection moves a pointer, also when there is none.
        Some(Box::new(Recording::begin(self.clone(), filter, arrived, (asked, frame))))
    }

    /// Gives topics that are only known by id their names; asks the shard for those it does not remember.
    async fn names(&self, ids: Vec<Uuid>, host: &Host) -> Vec<String> {
        let known = lock(&self.shared.names).clone_of(&ids);
        let unknown: Vec<Uuid> = ids.iter().filter(|id| !known.contains_key(id)).copied().collect();
        let mut found = known;
        if !unknown.is_empty() {
            let look = host.peek(move |shard, _, _| {
                let name = |id: &Uuid| Some((*id, shard.catalog().topic(TopicId(id.0))?.name.clone()));
                unknown.iter().filter_map(name).collect::<Vec<_>>()
            });
            let asked = look.await.unwrap_or_default();
            let mut names = lock(&self.shared.names);
            if names.len() + asked.len() > MOST_NAMES {
                names.clear();
            }
            names.extend(asked.iter().cloned());
            found.extend(asked);
        }
        ids.iter().map(|id| found.get(id).cloned().unwrap_or_else(|| id.to_string())).collect()
    }

    fn keep(&self, exchange: Exchange) {
        self.rings().push(exchange);
    }

    /// Counts bytes of what is under way; false if there is no room.
    fn reserve(&self, bytes: usize) -> bool {
        let most = self.shared.limit / 4;
        let more = |held: usize| held.checked_add(bytes).filter(|after| *after <= most);
        self.shared.under_way.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.shared.under_way.fetch_sub(bytes, Relaxed);
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        lock(&self.shared.rings)
    }
}

/// The part of a map that has these keys.
trait CloneOf {
    fn clone_of(&self, ids: &[Uuid]) -> BTreeMap<Uuid, String>;
}

impl CloneOf for BTreeMap<Uuid, String> {
    fn clone_of(&self, ids: &[Uuid]) -> BTreeMap<Uuid, String> {
        ids.iter().filter_map(|id| Some((*id, self.get(id)?.clone()))).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
