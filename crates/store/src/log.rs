//! The public API of the log: append, kick, space, free, close. [`crate::log_core`] and the group store do the work.

use crate::error::{AppendError, LogFailure};
use crate::free::{FreeQueue, FreeTarget};
use crate::group_store::{GroupSlot, Reservation, SpaceLevel};
use crate::log_core::{LogCore, Maintenance, State};
use crate::reader::LogReader;
use crate::runs::Runs;
use crate::snapshot::Snapshotter;
use ottla_layout::GROUP_HEADER;
use ottla_layout::record::{encode, patch_batch};
use ottla_types::LogPosition;
use ottla_types::record::{LogRecord, PartitionRecord};
use std::io;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;

/// Bytes that may wait for the writer. Beyond this, an append waits. The memory budget of requests keeps all but very
/// large ones below it.
const BACKLOG: usize = 24 << 20;

/// The positions of an appended record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRange {
    /// Position of its entry.
    pub position: LogPosition,
    /// Position of the first byte of a batch, if the record has one; it is `summary.size` bytes long.
    pub payload: Option<LogPosition>,
    /// Position after it: the record is durable once the log is durable up to here.
    pub end: LogPosition,
}

/// The log of one shard, open for appending. Dropping it writes what was accepted and closes it.
pub struct Log {
    core: Arc<LogCore>,
    head: Vec<u8>,
    /// There are no threads: the caller drives the log.
    driven: bool,
    threads: Vec<JoinHandle<()>>,
    closed: bool,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("end", &self.end())
            .field("durable", &self.durable())
            .finish_non_exhaustive()
    }
}

impl Log {
    pub(crate) fn start(core: Arc<LogCore>) -> io::Result<Log> {
        let driven = !core.options.threads;
        let mut log = Log { core, head: Vec::new(), driven, threads: Vec::new(), closed: false };
        if !driven {
            log.spawn("ottla-wal", |core| core.write_until_stopped())?;
            log.core.read_ahead.begin();
            log.spawn("ottla-ahead", |core| core.read_ahead.run(&core.pool, &core.stats.syncs))?;
            log.spawn("ottla-fill", |core| core.maintain_until_stopped())?;
        }
        Ok(log)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce(&Arc<LogCore>) + Send + 'static) -> io::Result<()> {
        let core = Arc::clone(&self.core);
        let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(1 << 20);
        self.threads.push(builder.spawn(move || body(&core))?);
        Ok(())
    }

    /// Accepts a record and returns where it will be. It is written after the next [`Log::kick`], and durable when
    /// [`crate::Callbacks::on_durable`] was called with [`EntryRange::end`] or more.
    ///
    /// Waits only for a segment that is being prepared, which is rare and takes milliseconds.
    pub fn append(&mut self, record: &LogRecord) -> Result<EntryRange, AppendError> {
        self.head.clear();
        let payload = encode(record, &mut self.head);
        check_payload(record, payload)?;
        let len = self.head.len() + payload.len();
        let limit = self.core.store.largest_entry();
        if len as u64 > limit {
            return Err(AppendError::TooLarge { size: len as u64, limit });
        }
        let core = Arc::clone(&self.core);
        let (slot, mut state) = self.slot(&core, len + 4)?;
        let open = state.open_at(slot, &core.pool);
        let start = open.position;
        let buffer = &mut open.buffer;
        let entry = buffer.len();
        buffer.write(&(len as u32).to_le_bytes());
        buffer.write(&self.head);
        let body = buffer.len();
        buffer.write(payload);
        open.entries += 1;
        let at = |offset: usize| LogPosition(start + offset as u64);
        let end = at(buffer.len());
        let mut payload = None;
        if let LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) = record {
            patch_batch(batch, &mut buffer.as_mut()[body..]);
            payload = Some(at(body));
        }
        Ok(EntryRange { position: at(entry), payload, end })
    }

    /// Finds a slot with reserved space for an entry of `len` bytes, length field included; waits for one if there is
    /// none yet.
    fn slot<'a>(
        &self,
        core: &'a LogCore,
        len: usize,
    ) -> Result<(GroupSlot, MutexGuard<'a, State>), AppendError> {
        let mut state = core.lock();
        loop {
            if let Some(failure) = &state.failed {
                return Err(AppendError::Ended(failure.clone()));
            }
            let slot = state.slot_for(&*core.store, len);
            if !state.closed.is_empty() {
                core.wake_writer(&state);
            }
            if !self.driven && state.closed.len() > 1 && state.closed_bytes() > BACKLOG {
                state = core.wait_for_progress(state);
                continue;
            }
            if state.open.is_some() {
                return Ok((slot, state));
            }
            match core.store.reservation(slot.position) {
                Reservation::Ready => return Ok((slot, state)),
                Reservation::OutOfSpace => {
                    state.wanted = 0;
                    return Err(AppendError::Full);
                }
                Reservation::Pending => {
                    state.wanted = slot.position;
                    state = self.wait_for_space(core, state);
                }
            }
        }
    }

    fn wait_for_space<'a>(&self, core: &'a LogCore, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        core.maintenance.notify_one();
        if !self.driven {
            return core.wait_for_progress(state);
        }
        drop(state);
        if let Err(failure) = core.maintain() {
            core.fail(failure);
        }
        core.lock()
    }

    /// Asks the writer to write the appended records. A busy writer takes all of them when it is done.
    pub fn kick(&self) {
        self.core.kick();
    }

    /// Without threads: writes, syncs, prepares and frees until there is nothing to do.
    pub fn drive(&mut self) {
        loop {
            if self.core.lock().failed.is_some() {
                return;
            }
            if self.driven && self.core.write_pending() {
                continue;
            }
            if !self.maintain() {
                return;
            }
        }
    }

    /// Without threads: closes the group that waits to be written, as the writer thread does when it takes it, so that
    /// later entries go into the next group.
    pub fn drive_seal(&mut self) {
        let mut state = self.core.lock();
        if state.closed.is_empty() && std::mem::take(&mut state.kicked) {
            state.close_group(&*self.core.store);
        }
    }

    /// Without threads: writes and syncs one group, if one waits, and does the background work.
    pub fn drive_group(&mut self) {
        if self.driven && self.core.lock().failed.is_none() {
            self.core.write_pending();
            self.drive_maintenance();
        }
    }

    /// Without threads: prepares and frees segments, like a background thread that is ahead of the writer.
    pub fn drive_maintenance(&mut self) {
        while self.core.lock().failed.is_none() && self.maintain() {}
    }

    /// Without threads: does the most urgent step of background work; returns false if no step can be done.
    fn maintain(&self) -> bool {
        if !self.driven {
            return false;
        }
        match self.core.maintain() {
            Ok(outcome) => outcome == Maintenance::Done,
            Err(failure) => {
                self.core.fail(failure);
                false
            }
        }
    }

    /// Position after the last record. A reply that is computed now depends on no later record, so it may be sent when
    /// the log is durable up to here.
    pub fn end(&self) -> LogPosition {
        LogPosition(self.core.lock().end())
    }

    /// Everything before this position is durable.
    pub fn durable(&self) -> LogPosition {
        LogPosition(self.core.durable())
    }

    /// The failure that ended the log, if it has ended.
    pub fn failure(&self) -> Option<LogFailure> {
        self.core.lock().failed.clone()
    }

    /// The level of space, to be checked before new data is accepted. What is in flight is counted.
    ///
    /// Waits only if the second half of the last segment was reached before it is known whether there will be another,
    /// which is rare and takes milliseconds.
    pub fn space(&self) -> SpaceLevel {
        self.space_for(0)
    }

    /// As [`Log::space`], when `bytes` more will be appended: unless the level is [`SpaceLevel::Full`], the half
    /// segment that is kept for small records is still there afterwards.
    pub fn space_for(&self, bytes: u64) -> SpaceLevel {
        let mut state = self.core.lock();
        loop {
            let forecast = self.core.store.space(state.end(), bytes);
            match forecast.pending {
                Some(position) if !self.driven && state.failed.is_none() => {
                    state.wanted = position;
                    self.core.maintenance.notify_one();
                    state = self.core.wait_for_progress(state);
                }
                _ => return forecast.level,
            }
        }
    }

    /// A reader of durable records.
    pub fn reader(&self) -> LogReader {
        LogReader::new(Arc::clone(&self.core))
    }

    /// The runs, which hold what was rewritten.
    pub fn runs(&self) -> Runs {
        self.core.runs()
    }

    /// Whether the log has no threads of its own and is driven by its caller.
    pub fn is_driven(&self) -> bool {
        self.driven
    }

    /// A writer of snapshots, for any thread.
    pub fn snapshotter(&self) -> Snapshotter {
        Snapshotter::new(Arc::clone(&self.core))
    }

    /// Bytes of a segment.
    pub fn segment_size(&self) -> u64 {
        self.core.store.segment_size()
    }

    /// Number of the segment that holds `position`.
    pub fn segment_of(&self, position: LogPosition) -> u64 {
        self.core.store.segment_of(position.0)
    }

    /// Numbers of the segments in use, in order. After a replay they are compared with those that the state refers to.
    pub fn segments(&self) -> Vec<u64> {
        self.core.store.segments()
    }

    /// Frees segments that nothing refers to any more, once all that was appended so far is durable. Segments that a
    /// kept snapshot is replayed from, and later ones, stay. Returns the numbers of those that will be freed.
    pub fn free_segments(&self, numbers: &[u64]) -> Vec<u64> {
        let store = &self.core.store;
        let state = self.core.lock();
        // Replay begins in the segment of the byte before the snapshot.
        let floor = state.snapshots.iter().map(|position| store.segment_of(position.saturating_sub(1))).min();
        let floor = floor.unwrap_or(0);
        let is_freeable = |number: &u64| *number < floor && store.is_live(*number);
        let segments: Vec<u64> = numbers.iter().copied().filter(is_freeable).collect();
        drop(state);
        self.core.free_later(segments.iter().map(|number| FreeTarget::Segment(*number)).collect());
        segments
    }

    /// A short description of the medium for a log line.
    pub fn describe(&self) -> String {
        self.core.store.describe()
    }

    /// Waits until everything appended so far is durable.
    pub fn flush(&mut self) -> Result<(), LogFailure> {
        self.kick();
        self.drive();
        let mut state = self.core.lock();
        let end = state.end();
        loop {
            if let Some(failure) = &state.failed {
                return Err(failure.clone());
            }
            if self.core.durable() >= end {
                return Ok(());
            }
            state = self.core.wait_for_progress(state);
        }
    }

    /// Writes everything, marks the end as final, and ends the threads.
    pub fn close(mut self) -> Result<(), LogFailure> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), LogFailure> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let result = self.flush().and_then(|()| self.write_last_group());
        self.core.lock().stop = true;
        self.core.work.notify_all();
        self.core.maintenance.notify_all();
        self.core.read_ahead.stop();
        for thread in self.threads.drain(..) {
            // The panic of a thread was reported when it happened.
            let _ = thread.join();
        }
        result
    }

    /// Begins an empty group if none is open, so that [`Log::end`] moves although nothing is appended: a snapshot of
    /// the same state then has a position of its own. False if there is no space for the group.
    pub fn mark(&self) -> bool {
        let core = &self.core;
        let mut state = core.lock();
        if state.open.is_some() {
            return true;
        }
        let slot = core.store.slot(state.next, GROUP_HEADER);
        // The background thread may be about to reserve the space.
        while !self.driven
            && core.store.reservation(slot.position) == Reservation::Pending
            && state.failed.is_none()
        {
            state.wanted = slot.position;
            core.maintenance.notify_one();
            state = core.wait_for_progress(state);
        }
        let fits = core.store.reservation(slot.position) == Reservation::Ready;
        if fits {
            state.open_at(slot, &core.pool);
        }
        fits
    }

    /// Writes an empty group that records everything before it as durable, so that the next start detects damage to the
    /// last data.
    fn write_last_group(&mut self) -> Result<(), LogFailure> {
        self.core.store.sync(u64::MAX)?;
        if !self.core.chain().had_entries || !self.mark() {
            return Ok(());
        }
        self.flush()?;
        self.core.store.sync(u64::MAX)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The host has received a failure through its callback.
        let _ = self.finish();
    }
}

fn check_payload(record: &LogRecord, payload: &[u8]) -> Result<(), AppendError> {
    match record {
        LogRecord::Partitions(PartitionRecord::BatchAppended(batch))
            if batch.summary.size as usize != payload.len() =>
        {
            Err(AppendError::Inconsistent {
                summary: u64::from(batch.summary.size),
                batch: payload.len() as u64,
            })
        }
        _ => Ok(()),
    }
}
