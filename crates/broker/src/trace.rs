//! The last exchanges (request and response) of each connection, recorded where frames are read and written, after any
//! TLS.
//!
//! While off, the trace costs one relaxed load for each frame. While on, it keeps every exchange that passes the
//! filter: the client, both frames (a copy of the first [`FRAME_CAP`] bytes of each, so that no larger buffer stays in
//! memory), the times of the stages, and the broker's [`Verdict`]s: the rule that refused a request, with the values it
//! was judged by.
//!
//! One number of bytes bounds all its memory ([`Trace::usage`]). Three quarters hold finished exchanges; the oldest is
//! dropped first. One quarter holds pending exchanges; an exchange that does not fit is not recorded, and counted.
//! Secrets (SASL bytes, SCRAM credentials, HMACs of delegation tokens) are overwritten when a frame is copied; their
//! lengths are kept.

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

use bytes::Bytes;
use exchange::RequestHead;
use ottla_wire::Uuid;
use rings::Rings;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes that are kept of a frame, at most.
pub const FRAME_CAP: usize = 64 << 10;
/// Default of the exchanges that are kept of one connection.
pub const TRACE_RING: usize = 100;
/// Default of the bytes that the trace may take.
pub const TRACE_BYTES: usize = 8 << 20;
/// Bytes that a pending exchange is charged in addition to its frames.
const PENDING_OVERHEAD: usize = 4 << 10;
/// Topic names in the cache. A cache that would exceed this is cleared.
const MOST_NAMES: usize = 10_000;

/// The trace of a broker. Clones are handles of the same trace.
#[derive(Clone, Debug)]
pub struct Trace {
    shared: Arc<TraceState>,
}

#[derive(Debug)]
struct TraceState {
    on: AtomicBool,
    /// Bytes that the trace may take.
    limit: usize,
    /// Bytes of pending exchanges.
    pending: AtomicUsize,
    missed: AtomicU64,
    filter: Mutex<Arc<TraceFilter>>,
    rings: Mutex<Rings>,
    topic_names: Mutex<BTreeMap<Uuid, String>>,
}

/// The memory of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceUsage {
    /// Finished exchanges.
    pub exchanges: usize,
    /// Bytes of finished exchanges.
    pub bytes: usize,
    /// Bytes of pending exchanges.
    pub under_way: usize,
    /// The most bytes that both may take together.
    pub limit: usize,
    /// Finished exchanges that are kept of one connection.
    pub ring: usize,
    /// Exchanges that were not recorded because pending ones took all the memory for them.
    pub missed: u64,
}

/// The arrival of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The number of the connection.
    pub(crate) connection: u64,
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// When the last byte of the request arrived.
    pub(crate) at: Instant,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace::new(TRACE_BYTES)
    }
}

impl Trace {
    /// A trace that is off, and may take `limit` bytes when it is on.
    pub fn new(limit: usize) -> Trace {
        let shared = TraceState {
            on: AtomicBool::new(false),
            limit,
            pending: AtomicUsize::new(0),
            missed: AtomicU64::new(0),
            filter: Mutex::default(),
            rings: Mutex::new(Rings::new(TRACE_RING, limit - limit / 4)),
            topic_names: Mutex::default(),
        };
        Trace { shared: Arc::new(shared) }
    }

    /// Whether requests that arrive are recorded.
    pub fn is_on(&self) -> bool {
        self.shared.on.load(Relaxed)
    }

    /// Starts to record. Keeps the last `ring` exchanges of each connection, at least one.
    pub fn start(&self, ring: usize) {
        self.rings().set_ring(ring.max(1));
        self.shared.on.store(true, Relaxed);
    }

    /// Stops recording. Exchanges stay until [`Trace::clear`]; pending ones are still finished and kept.
    pub fn stop(&self) {
        self.shared.on.store(false, Relaxed);
    }

    /// Drops all finished exchanges. Sequence numbers continue.
    pub fn clear(&self) {
        self.rings().clear();
    }

    /// The filter that exchanges must pass to be recorded.
    pub fn filter(&self) -> TraceFilter {
        TraceFilter::clone(&lock(&self.shared.filter))
    }

    /// Sets the filter for exchanges that finish from now on. Exchanges that are kept stay.
    pub fn set_filter(&self, filter: TraceFilter) {
        *lock(&self.shared.filter) = Arc::new(filter);
    }

    /// The finished exchanges that pass this filter, newest last.
    pub fn snapshot(&self, filter: &TraceFilter) -> Vec<Arc<Exchange>> {
        self.after(0, filter)
    }

    /// The exchanges that finished after the one with this sequence number and pass the filter, newest last. A page
    /// that refreshes passes the number of the last exchange it has; 0 stands before all.
    pub fn after(&self, seq: u64, filter: &TraceFilter) -> Vec<Arc<Exchange>> {
        let rings = self.rings();
        rings.after(seq).filter(|exchange| filter.passes(exchange)).cloned().collect()
    }

    /// The exchange with this sequence number, if it is still kept.
    pub fn exchange(&self, seq: u64) -> Option<Arc<Exchange>> {
        self.rings().get(seq).cloned()
    }

    /// The sequence number of the last exchange that finished; 0 if none has.
    pub fn last_seq(&self) -> u64 {
        self.rings().last_seq()
    }

    /// The memory that the trace takes, and its limits.
    pub fn usage(&self) -> TraceUsage {
        let rings = self.rings();
        TraceUsage {
            exchanges: rings.len(),
            bytes: rings.bytes(),
            under_way: self.shared.pending.load(Relaxed),
            limit: self.shared.limit,
            ring: rings.ring(),
            missed: self.shared.missed.load(Relaxed),
        }
    }

    /// Begins to record a request, if it may pass the filter and there is memory. `frame` starts behind the length
    /// prefix.
    pub(crate) fn record(&self, arrival: Arrival, frame: &Bytes) -> Option<Box<Recording>> {
        let filter = Arc::clone(&lock(&self.shared.filter));
        let head = RequestHead::read(frame);
        if !filter.may_pass(arrival.connection, &head) {
            return None;
        }
        if !self.reserve(PENDING_OVERHEAD) {
            self.shared.missed.fetch_add(1, Relaxed);
            return None;
        }
        // Boxed, so that connections move only a pointer, also without a recording.
        Some(Box::new(Recording::begin(self.clone(), filter, arrival, (head, frame))))
    }

    /// The ids whose topic names are not in the cache.
    pub(crate) fn unknown_topics(&self, ids: &[Uuid]) -> Vec<Uuid> {
        let names = lock(&self.shared.topic_names);
        ids.iter().filter(|id| !names.contains_key(id)).copied().collect()
    }

    /// Adds topic names to the cache.
    pub(crate) fn add_topic_names(&self, found: impl ExactSizeIterator<Item = (Uuid, String)>) {
        let mut names = lock(&self.shared.topic_names);
        if names.len() + found.len() > MOST_NAMES {
            names.clear();
        }
        names.extend(found);
    }

    /// The names of topics; the id as text where the cache has no name.
    fn topic_names(&self, ids: &[Uuid]) -> Vec<String> {
        let names = lock(&self.shared.topic_names);
        ids.iter().map(|id| names.get(id).cloned().unwrap_or_else(|| id.to_string())).collect()
    }

    fn keep(&self, exchange: Exchange) {
        self.rings().push(exchange);
    }

    /// Charges bytes to pending exchanges; false if their limit is reached.
    fn reserve(&self, bytes: usize) -> bool {
        let most = self.shared.limit / 4;
        let more = |held: usize| held.checked_add(bytes).filter(|after| *after <= most);
        self.shared.pending.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.shared.pending.fetch_sub(bytes, Relaxed);
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        lock(&self.shared.rings)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
