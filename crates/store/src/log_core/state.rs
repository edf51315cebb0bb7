//! The state of the log under its lock: the open group, closed groups, and what is waited for.
//!
//! ```text
//!            append (first entry)                kick, or full                   writer takes it
//!   no group ───────────────────▶ open group ──────────────────▶ closed group ────────────────▶ in flight ──▶ durable
//!                                  ▲      │ append                 (queue, in order)               (see in_flight.rs)
//!                                  └──────┘
//! ```

use crate::buffer::{Buffer, Pool};
use crate::error::LogFailure;
use crate::free::FreeTarget;
use crate::group_store::{GroupSlot, GroupStore};
use ottla_layout::GROUP_HEADER;
use std::collections::VecDeque;
use std::sync::Arc;

/// A group that takes entries, or waits for the writer.
#[derive(Debug)]
pub(crate) struct OpenGroup {
    /// Where it begins.
    pub(crate) position: u64,
    /// The most bytes that it may have after another entry.
    limit: usize,
    /// Space for the header, then the entries.
    pub(crate) buffer: Buffer,
    pub(crate) entries: u32,
}

impl OpenGroup {
    pub(crate) fn begin(slot: GroupSlot, mut buffer: Buffer) -> OpenGroup {
        buffer.resize(GROUP_HEADER);
        OpenGroup { position: slot.position, limit: slot.limit, buffer, entries: 0 }
    }

    /// Position after the last entry.
    fn end(&self) -> u64 {
        self.position + self.buffer.len() as u64
    }
}

/// Targets that are freed once the log is durable up to a position.
#[derive(Debug)]
pub(crate) struct PendingFree {
    pub(crate) after: u64,
    pub(crate) targets: Vec<FreeTarget>,
}

/// What changes under the lock.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The group that takes the next entry.
    pub(crate) open: Option<OpenGroup>,
    /// Groups that wait for the writer.
    pub(crate) closed: VecDeque<OpenGroup>,
    /// Position after the last closed group; the next one begins here if it fits.
    pub(crate) next: u64,
    /// The host wants the open group written.
    pub(crate) kicked: bool,
    /// The writer thread waits for work.
    pub(crate) writer_waits: bool,
    /// Number of threads that wait for progress.
    pub(crate) waiters: usize,
    /// Threads should end.
    pub(crate) stop: bool,
    /// What ended the log.
    pub(crate) failed: Option<LogFailure>,
    /// The position that an append waits for.
    pub(crate) wanted: u64,
    pub(crate) freeing: Vec<PendingFree>,
    /// Positions of the snapshots that are kept, newest first.
    pub(crate) snapshots: Vec<u64>,
    /// Positions of damaged snapshots, to be removed when there is a new one.
    pub(crate) damaged: Vec<u64>,
    /// Capacity that the last group needed: the next one starts with it.
    last_capacity: usize,
}

impl State {
    /// The state of a log with these snapshots, by position, newest first, and with these damaged ones.
    pub(crate) fn with_snapshots(snapshots: Vec<u64>, damaged: Vec<u64>) -> State {
        State { snapshots, damaged, ..State::default() }
    }

    /// Position after the last entry: when the log is durable up to here, everything accepted so far is.
    pub(crate) fn end(&self) -> u64 {
        self.open.as_ref().map_or(self.next, OpenGroup::end)
    }

    /// Closes the open group.
    pub(crate) fn close_group(&mut self, store: &dyn GroupStore) {
        if let Some(open) = self.open.take() {
            self.next = open.position + store.padded_len(open.buffer.len());
            self.last_capacity = open.buffer.len();
            self.closed.push_back(open);
        }
    }

    /// The slot of the group that takes an entry of `len` bytes, length field included: the open group if the entry
    /// fits, else a new one, and the open group is closed.
    pub(crate) fn slot_for(&mut self, store: &dyn GroupStore, len: usize) -> GroupSlot {
        if let Some(open) = &self.open {
            if open.buffer.len() + len <= open.limit {
                return GroupSlot { position: open.position, limit: open.limit };
            }
            self.close_group(store);
        }
        store.slot(self.next, GROUP_HEADER + len)
    }

    /// Bytes of the groups that wait for the writer.
    pub(crate) fn closed_bytes(&self) -> usize {
        self.closed.iter().map(|group| group.buffer.len()).sum()
    }

    /// The open group; if there is none, one is begun in `slot`.
    pub(crate) fn open_at(&mut self, slot: GroupSlot, pool: &Arc<Pool>) -> &mut OpenGroup {
        let capacity = self.last_capacity;
        self.open.get_or_insert_with(|| OpenGroup::begin(slot, pool.take(capacity)))
    }

    /// The next group to write.
    pub(crate) fn take_group(&mut self, store: &dyn GroupStore) -> Option<OpenGroup> {
        if self.closed.is_empty() && self.kicked {
            self.kicked = false;
            self.close_group(store);
        }
        self.closed.pop_front()
    }
}
