//! The log as its host sees it.

use crate::error::{AppendError, LogFailure};
use crate::filler::{Chore, Filler};
use crate::log_core::{Freed, LogCore, State};
use crate::reader::LogReader;
use crate::runs::Runs;
use crate::snapshot::Snapshotter;
use ottla_layout::record::{encode, patch_batch};
use ottla_layout::{BLOCK, Geometry};
use ottla_types::LogPosition;
use ottla_types::record::{LogRecord, PartitionRecord};
use std::io;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;

/// Bytes that may wait for the writer. Beyond, an append waits: its requests are paid for, so only a very large one comes here.
const BACKLOG: usize = 24 << 20;

/// Where an appended record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRange {
    /// Position of its entry.
    pub position: LogPosition,
    /// Position of the first byte of a batch, if the record has one; it is `summary.size` bytes long.
    pub payload: Option<LogPosition>,
    /// Position behind it: the record is durable once the log is durable up to here.
    pub end: LogPosition,
}

/// How much room the medium has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpaceLevel {
    /// The rest of the last segment is kept for small records: refuse new data.
    Full,
    /// There may be no further segment: make room.
    Low,
    /// Enough.
    Plenty,
}

/// The shared log of one shard, open for appending. Dropping it writes what was accepted and closes it.
pub struct Log {
    shared: Arc<LogCore>,
    head: Vec<u8>,
    /// The filler of a log without threads.
    filler: Option<Filler>,
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
    pub(crate) fn start(shared: LogCore) -> io::Result<Log> {
        let threads = shared.options.threads;
        let shared = Arc::new(shared);
        let mut log = Log { shared, head: Vec::new(), filler: None, threads: Vec::new(), closed: false };
        if threads {
            log.spawn("ottla-wal", |shared| shared.write_until_stopped())?;
            log.shared.files.runs.read_ahead.begin();
            log.spawn("ottla-ahead", |shared| {
                shared.files.runs.read_ahead.run(&shared.pool, &shared.stats.syncs)
            })?;
            log.spawn("ottla-fill", |shared| Filler::new().run(shared))?;
        } else {
            log.filler = Some(Filler::new());
        }
        Ok(log)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce(&LogCore) + Send + 'static) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(1 << 20);
        self.threads.push(builder.spawn(move || body(&shared))?);
        Ok(())
    }

    /// Accepts a record and says where it will be. It is written after the next [`Log::kick`], and durable when
    /// [`crate::Callbacks::on_durable`] has told [`EntryRange::end`] or more.
    ///
    /// Waits only for a segment that is being prepared, which is rare and takes milliseconds.
    pub fn append(&mut self, record: &LogRecord) -> Result<EntryRange, AppendError> {
        self.head.clear();
        let payload = encode(record, &mut self.head);
        check_payload(record, payload)?;
        let len = self.head.len() + payload.len();
        let limit = self.geometry().largest_entry();
        if len as u64 > limit {
            return Err(AppendError::TooLarge { size: len as u64, limit });
        }
        let shared = Arc::clone(&self.shared);
        let (position, mut state) = self.place(&shared, len + 4)?;
        let open = state.open_at(position, &shared.pool);
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

    /// Finds the place for an entry of `len` bytes in a prepared segment, waiting for one if need be.
    fn place<'a>(
        &mut self,
        shared: &'a LogCore,
        len: usize,
    ) -> Result<(u64, MutexGuard<'a, State>), AppendError> {
        let mut state = shared.lock();
        loop {
            if let Some(failure) = &state.failed {
                return Err(AppendError::Ended(failure.clone()));
            }
            let position = state.place_for(shared.geometry(), len);
            if !state.sealed.is_empty() {
                shared.wake_writer(&state);
            }
            if self.filler.is_none() && state.sealed.len() > 1 && state.sealed_bytes() > BACKLOG {
                state = shared.wait_for_progress(state);
                continue;
            }
            let segment = shared.geometry().segment_of(position);
            if segment <= state.prepared {
                return Ok((position, state));
            }
            if state.starved {
                state.wanted = 0;
                return Err(AppendError::Full);
            }
            state.wanted = segment;
            state = self.wait_for_segment(shared, state);
        }
    }

    fn wait_for_segment<'a>(
        &mut self,
        shared: &'a LogCore,
        state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        shared.chores.notify_one();
        match &mut self.filler {
            None => shared.wait_for_progress(state),
            Some(filler) => {
                drop(state);
                if let Err(failure) = filler.step(shared) {
                    shared.fail(failure);
                }
                shared.lock()
            }
        }
    }

    /// Hands what was appended to the writer. If it is busy, it takes all of it when it is done.
    pub fn kick(&self) {
        self.shared.kick();
    }

    /// Does everything that is due, for a log without threads: writes, syncs, prepares, frees.
    pub fn drive(&mut self) {
        loop {
            if self.shared.lock().failed.is_some() {
                return;
            }
            if self.filler.is_some() && self.shared.write_pending() {
                continue;
            }
            if !self.do_chore() {
                return;
            }
        }
    }

    /// Without threads: closes the group that waits to be written, as a thread does that begins to write it, so that what comes
    /// goes into the next one.
    pub fn drive_seal(&mut self) {
        let mut state = self.shared.lock();
        if state.sealed.is_empty() && std::mem::take(&mut state.kicked) {
            state.seal();
        }
    }

    /// Without threads: writes and syncs one group, if one waits, and does what is due then.
    pub fn drive_group(&mut self) {
        if self.filler.is_some() && self.shared.lock().failed.is_none() {
            self.shared.write_pending();
            self.drive_maintenance();
        }
    }

    /// Without threads: prepares and frees segments, as a thread may that is faster than the one that writes.
    pub fn drive_maintenance(&mut self) {
        while self.shared.lock().failed.is_none() && self.do_chore() {}
    }

    /// Without threads: does the most urgent chore; false if there is nothing that can be done.
    fn do_chore(&mut self) -> bool {
        let Some(filler) = &mut self.filler else { return false };
        match filler.step(&self.shared) {
            Ok(chore) => chore == Chore::Done,
            Err(failure) => {
                self.shared.fail(failure);
                false
            }
        }
    }

    /// Position behind the last record: whoever is told something now is told it of a state that is durable when the log is
    /// durable up to here.
    pub fn end(&self) -> LogPosition {
        LogPosition(self.shared.lock().end())
    }

    /// Everything before this position is durable.
    pub fn durable(&self) -> LogPosition {
        LogPosition(self.shared.durable())
    }

    /// What ended the log, if something did.
    pub fn failure(&self) -> Option<LogFailure> {
        self.shared.lock().failed.clone()
    }

    /// How much room there is: to be asked before new data is accepted. What is in flight is counted.
    ///
    /// Waits only if the second half of the last segment was reached before it is known whether there will be another, which
    /// is rare and takes milliseconds.
    pub fn space(&self) -> SpaceLevel {
        self.space_for(0)
    }

    /// As [`Log::space`], when `bytes` more will be appended: the half segment that is kept for small records is still there
    /// afterwards, unless it says [`SpaceLevel::Full`].
    pub fn space_for(&self, bytes: u64) -> SpaceLevel {
        let mut state = self.shared.lock();
        let geometry = self.geometry();
        // An entry that does not fit into the rest of a segment begins in the next one: the rest is lost, less than the entry.
        let wanted = (geometry.segment_size() / 2).saturating_add(bytes.saturating_mul(2));
        let half_used = |state: &State| geometry.end_of(state.prepared) - state.end() < wanted;
        while self.filler.is_none() && half_used(&state) && !state.starved && state.failed.is_none() {
            state.wanted = state.prepared + 1;
            self.shared.chores.notify_one();
            state = self.shared.wait_for_progress(state);
        }
        if state.starved && half_used(&state) {
            SpaceLevel::Full
        } else if state.starved || state.low {
            SpaceLevel::Low
        } else {
            SpaceLevel::Plenty
        }
    }

    /// Reads what was appended and is durable.
    pub fn reader(&self) -> LogReader {
        LogReader::new(Arc::clone(&self.shared))
    }

    /// The runs, which hold what was rewritten.
    pub fn runs(&self) -> Runs {
        Runs::new(Arc::clone(&self.shared))
    }

    /// Whether the log has no threads of its own and is driven by its caller.
    pub fn is_driven(&self) -> bool {
        self.filler.is_some()
    }

    /// Writes snapshots, from any thread.
    pub fn snapshotter(&self) -> Snapshotter {
        Snapshotter::new(Arc::clone(&self.shared))
    }

    /// Bytes of a segment.
    pub fn segment_size(&self) -> u64 {
        self.geometry().segment_size()
    }

    /// Number of the segment that holds `position`.
    pub fn segment_of(&self, position: LogPosition) -> u64 {
        self.geometry().segment_of(position.0)
    }

    /// Numbers of the segments in use, in order: to be compared with what the state refers to after a replay.
    pub fn segments(&self) -> Vec<u64> {
        self.shared.files.segments()
    }

    /// Frees segments that nothing refers to any more, once all that was appended so far is durable. Segments that a kept
    /// snapshot is replayed from, or later ones, are left alone. Returns those that will be freed.
    pub fn free_segments(&self, numbers: &[u64]) -> Vec<u64> {
        let state = self.shared.lock();
        let floor = state.snapshots.iter().map(|position| self.geometry().replay_segment(*position)).min();
        let floor = floor.unwrap_or(0);
        let wanted = |number: &u64| *number < floor && self.shared.files.is_live(*number);
        let segments: Vec<u64> = numbers.iter().copied().filter(wanted).collect();
        drop(state);
        self.shared.free_later(segments.iter().map(|number| Freed::Segment(*number)).collect());
        segments
    }

    /// The medium and its size, in a few words for a log line.
    pub fn describe(&self) -> String {
        let medium = self.shared.files.medium.describe();
        let segments = self.segments().len();
        format!("{medium}, {segments} segments of {} KiB", self.segment_size() >> 10)
    }

    /// Waits until everything appended so far is durable.
    pub fn flush(&mut self) -> Result<(), LogFailure> {
        self.kick();
        self.drive();
        let mut state = self.shared.lock();
        let end = state.end();
        loop {
            if let Some(failure) = &state.failed {
                return Err(failure.clone());
            }
            if self.shared.durable() >= end {
                return Ok(());
            }
            state = self.shared.wait_for_progress(state);
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
        self.shared.lock().stop = true;
        self.shared.work.notify_all();
        self.shared.chores.notify_all();
        self.shared.files.runs.read_ahead.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
        result
    }

    /// Begins an empty group if none is open, so that [`Log::end`] moves although nothing is appended: a snapshot of the same
    /// state then has a position of its own. False if there is no room for the group.
    pub fn mark(&self) -> bool {
        let mut state = self.shared.lock();
        if state.open.is_some() {
            return true;
        }
        let position = self.geometry().place_for(state.next, BLOCK);
        let segment = self.geometry().segment_of(position);
        // The segment may be on its way.
        while self.filler.is_none() && segment > state.prepared && !state.starved && state.failed.is_none() {
            state.wanted = segment;
            self.shared.chores.notify_one();
            state = self.shared.wait_for_progress(state);
        }
        let fits = segment <= state.prepared;
        if fits {
            state.open_at(position, &self.shared.pool);
        }
        fits
    }

    /// Ends with an empty group that calls everything before it durable, so that damage to the last data is recognised.
    fn write_last_group(&mut self) -> Result<(), LogFailure> {
        self.sync_if_lazy()?;
        if !self.shared.written().had_entries || !self.mark() {
            return Ok(());
        }
        self.flush()?;
        self.sync_if_lazy()
    }

    /// Makes up for the syncs that [`crate::Durability::Os`] leaves out.
    fn sync_if_lazy(&self) -> Result<(), LogFailure> {
        if self.shared.syncs() {
            return Ok(());
        }
        self.shared.sync_up_to(u64::MAX)
    }

    fn geometry(&self) -> Geometry {
        self.shared.geometry()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The host was told of a failure by its hook.
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
