//! The storage interface of the log: a store of groups, and the types that the log and the store exchange.
//!
//! ```text
//!                 ┌─────────────────────── log ───────────────────────┐
//!   append ──▶ open group ──▶ closed groups ──▶ in flight (≤ max_in_flight) ──▶ durable
//!                                                  │ submit    ▲ finished, in any order
//!                                                  ▼           │
//!                                               GroupStore ────┘    read · free a segment · space
//! ```
//! The log gives each group its sequence number, checksum and position, in order. The store says where a group may lie
//! ([`GroupStore::slot`]), keeps it, and reports when it is durable. The log is durable to the end of the contiguous
//! prefix of finished groups, whatever the order in which the store finishes them.
//!
//! The first implementation is [`crate::segments`], files of a medium. It keeps one group in flight: its recovery
//! proves damage by the rule that the write of a group begins only when the group before it is durable. An object store
//! can keep several in flight.

use crate::buffer::Buffer;
use crate::error::LogFailure;
use crate::medium::ReadMode;
use std::io;
use std::sync::Arc;

/// Where a group begins, and how large it may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupSlot {
    pub(crate) position: u64,
    /// The most bytes of the group, header included, unless a single entry is larger.
    pub(crate) limit: usize,
}

/// A group with its header and checksum, ready to be stored.
#[derive(Debug)]
pub(crate) struct SealedGroup {
    pub(crate) sequence: u64,
    pub(crate) position: u64,
    pub(crate) entries: u32,
    /// Header and entries.
    pub(crate) buffer: Buffer,
}

/// Whether there is space for a group at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// It is reserved: storing the group cannot fail for lack of space.
    Ready,
    /// [`GroupStore::maintain`] has to reserve it first.
    Pending,
    /// The last attempt to reserve more failed for lack of space.
    OutOfSpace,
}

/// How much space the store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpaceLevel {
    /// The rest of the last segment is kept for small records: refuse new data.
    Full,
    /// There may be no further segment: free space.
    Low,
    /// Enough.
    Plenty,
}

/// The level of space, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceForecast {
    pub(crate) level: SpaceLevel,
    /// The level depends on whether this position can be reserved, which [`GroupStore::maintain`] will find out.
    pub(crate) pending: Option<u64>,
}

/// The outcome of a step of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaintenanceStep {
    /// Something was done: there may be more to do.
    Done,
    /// There is nothing to do until the log is durable up to this position.
    Idle { due: u64 },
    /// Space could not be reserved: try again later.
    OutOfSpace,
}

/// Receives the outcome of a submitted group, on any thread.
pub(crate) trait GroupObserver: Send + Sync {
    /// The group is stored as durably as the log's options ask for.
    fn finished(&self, group: SealedGroup);
    /// The group may or may not be stored. The log ends.
    fn failed(&self, failure: LogFailure);
}

/// The state of the log that background work depends on.
pub(crate) trait LogProgress {
    /// Position after the last accepted entry.
    fn end(&self) -> u64;
    /// Everything before this position is durable.
    fn durable(&self) -> u64;
    /// A position that an append waits for; 0 if none does.
    fn wanted(&self) -> u64;
}

/// A store of groups. A segment is the unit in which it frees space: a file on a disk, one or several objects in a
/// bucket.
pub(crate) trait GroupStore: Send + Sync {
    /// The most groups that may be in flight: submitted, and not in the contiguous prefix of finished ones.
    fn max_in_flight(&self) -> usize;
    /// Bytes of the largest entry that fits.
    fn largest_entry(&self) -> u64;
    /// Where a group of at least `len` bytes, header included, goes if the group before it ends at `after`.
    fn slot(&self, after: u64, len: usize) -> GroupSlot;
    /// Bytes of the log that a group of `len` bytes takes, padding included.
    fn padded_len(&self, len: usize) -> u64;
    /// Whether there is space for a group at `position`.
    fn reservation(&self, position: u64) -> Reservation;
    /// Stores a group and reports the outcome to `observer`, before it returns or later. Groups are submitted in order.
    fn submit(&self, group: SealedGroup, observer: Arc<dyn GroupObserver>);
    /// Of the groups that are finished, those before this position survive a power failure.
    fn synced(&self) -> u64 {
        u64::MAX
    }
    /// Waits until the finished groups before `position` survive a power failure.
    fn sync(&self, position: u64) -> Result<(), LogFailure>;

    /// Fills `buf` with the bytes from `position` on, which lie in one segment and are durable.
    ///
    /// Errors name the place: `NotFound` if the segment was freed, `UnexpectedEof` if bytes are missing, `WouldBlock`
    /// if a non-blocking read would have to wait.
    fn read(&self, position: u64, buf: &mut [u8], mode: ReadMode) -> io::Result<()>;

    /// Bytes of a segment.
    fn segment_size(&self) -> u64;
    /// Number of the segment that holds `position`.
    fn segment_of(&self, position: u64) -> u64;
    /// Position after the segment that holds `position`.
    fn segment_end(&self, position: u64) -> u64;
    /// Numbers of the segments in use, in order.
    fn segments(&self) -> Vec<u64>;
    /// Whether a segment is in use.
    fn is_live(&self, segment: u64) -> bool;
    /// Frees a segment that nothing refers to any more.
    fn free(&self, segment: u64) -> Result<(), LogFailure>;

    /// The level of space if `bytes` more are appended after `end`.
    fn space(&self, end: u64, bytes: u64) -> SpaceForecast;
    /// Reserves no space for groups unless `bytes` stay free for the next snapshot.
    fn keep_free(&self, bytes: u64);
    /// Bytes that can still be stored, as far as known.
    fn free_space(&self) -> io::Result<u64>;
    /// The capacity in bytes, if it is known.
    fn capacity(&self) -> io::Result<Option<u64>>;
    /// A short description for a log line.
    fn describe(&self) -> String;
    /// Does the most urgent step of background work: reserves space, prepares it, syncs data that no caller waits for.
    /// Called by one thread at a time.
    fn maintain(&self, log: &dyn LogProgress) -> Result<MaintenanceStep, LogFailure>;
}
