//! Snapshots and freed segments: what keeps a restart short and the disk from filling with what nobody can read.
//!
//! A segment is dead when no batch in it can be read. It can be freed when the older of the two kept snapshots lies behind it,
//! for replay begins there. So a snapshot is written
//! - after so many bytes of log, and
//! - when records or topics were deleted and a segment before the last is dead: space then returns although nothing more is
//!   appended. If the older snapshot still pins dead segments afterwards, one more follows, at a position that an empty group
//!   makes new.
//!
//! This cannot go round: only a record that deletes something makes it look, and each round frees the segments that it began for.

use super::Command;
use super::seat::Mailbox;
use ottla_core::Shard;
use ottla_store::{Log, Snapshotter};
use ottla_types::LogPosition;
use ottla_types::record::LogRecord;
use std::ops::Range;
use tokio::sync::oneshot;

/// Decides when to write a snapshot, and frees segments that hold nothing live.
pub(super) struct Housekeeping {
    snapshotter: Snapshotter,
    /// Bytes of log between snapshots.
    every: u64,
    /// The next snapshot is due when the log ends here.
    due: LogPosition,
    writing: bool,
    /// Something was deleted since the segments were last looked at.
    deleted: bool,
    /// The snapshot that is being written is there to release what the one before it pins.
    second: bool,
    /// Where the last snapshot was taken.
    position: LogPosition,
    /// Who waits for the snapshot that is being written.
    waiting: Vec<oneshot::Sender<()>>,
    /// What is being read of the log.
    pinned: Range<LogPosition>,
    commands: Mailbox,
    /// Snapshots are written on threads of their own, not by [`Housekeeping::work`].
    threads: bool,
    work: Option<Work>,
}

/// The writing of a snapshot.
type Work = Box<dyn FnOnce() + Send>;

impl Housekeeping {
    pub(super) fn new(log: &Log, every: u64, commands: Mailbox, threads: bool) -> Housekeeping {
        Housekeeping {
            snapshotter: log.snapshotter(),
            every,
            due: LogPosition(log.end().0.saturating_add(every)),
            writing: false,
            // An earlier run may have ended before it could free what was dead.
            deleted: true,
            second: false,
            position: LogPosition(0),
            waiting: Vec::new(),
            pinned: LogPosition(0)..LogPosition(0),
            commands,
            threads,
            work: None,
        }
    }

    /// Takes note of a record: whether it deletes batches.
    pub(super) fn applied(&mut self, record: &LogRecord) {
        self.deleted |= matches!(
            record,
            LogRecord::TopicDeleted(_) | LogRecord::LogStartMoved(_) | LogRecord::PartsInstalled(_)
        );
    }

    /// This is being read of the log from now on, and nothing else: it is not freed.
    pub(super) fn pin(&mut self, reads: Range<LogPosition>) {
        // What was pinned may be dead meanwhile.
        self.deleted |= self.pinned != reads;
        self.pinned = reads;
    }

    /// Begins a snapshot if one is due.
    pub(super) fn consider(&mut self, shard: &Shard, log: &Log) {
        if self.writing {
            return;
        }
        let deleted = std::mem::take(&mut self.deleted);
        if log.end() >= self.due || (deleted && !self.dead_segments(shard, log, log.end()).is_empty()) {
            self.begin_snapshot(shard, log, None);
        }
    }

    /// Takes the state as it is and writes it on a thread of its own, which first waits until all of it is durable.
    pub(super) fn begin_snapshot(&mut self, shard: &Shard, log: &Log, done: Option<oneshot::Sender<()>>) {
        self.waiting.extend(done);
        if self.writing {
            return;
        }
        self.due = LogPosition(log.end().0.saturating_add(self.every));
        let (rows, position) = (shard.snapshot(), log.end());
        self.position = position;
        let (snapshotter, commands) = (self.snapshotter.clone(), self.commands.clone());
        let write = move || {
            let written = snapshotter.write(position, &mut rows.into_iter());
            commands.report(Command::SnapshotWritten(written.map_err(|failure| failure.to_string())));
        };
        if !self.threads {
            self.work = Some(Box::new(write));
            self.writing = true;
            return;
        }
        match std::thread::Builder::new().name("ottla-snapshot".to_owned()).spawn(write) {
            Ok(_detached) => self.writing = true,
            Err(error) => tracing::warn!(%error, "no thread for a snapshot; the next start replays more"),
        }
    }

    /// Without threads: whether a snapshot waits to be written.
    pub(super) fn has_work(&self) -> bool {
        self.work.is_some()
    }

    /// Without threads: writes the snapshot that waits; the log must be durable up to its position.
    pub(super) fn work(&mut self) {
        if let Some(work) = self.work.take() {
            work();
        }
    }

    pub(super) fn snapshot_written(&mut self, result: Result<(), String>, shard: &Shard, log: &Log) {
        self.writing = false;
        match result {
            Ok(()) => {
                // Who gave up waiting need not be told.
                self.waiting.drain(..).for_each(|waiter| waiter.send(()).unwrap_or(()));
                self.free_dead_segments(shard, log);
            }
            Err(error) => {
                self.waiting.clear();
                self.second = false;
                tracing::warn!(%error, "no snapshot was written; the next start replays more");
            }
        }
    }

    /// Frees dead segments. The log keeps those that its snapshots are replayed from; for dead ones among them, see to it that
    /// the next snapshot lets them go.
    fn free_dead_segments(&mut self, shard: &Shard, log: &Log) {
        let dead = self.dead_segments(shard, log, self.position);
        let freed = log.free_segments(&dead);
        if !freed.is_empty() {
            tracing::info!(segments = freed.len(), "freed log segments that held nothing readable");
        }
        let pinned = freed.len() < dead.len();
        if std::mem::replace(&mut self.second, false) || !pinned {
            return;
        }
        if log.end() > self.position || log.mark() {
            self.second = true;
            self.begin_snapshot(shard, log, None);
        }
    }

    /// The segments wholly before `position`, and before the one that replay from there begins with, in which nothing can be read
    /// and nothing is being read.
    fn dead_segments(&self, shard: &Shard, log: &Log, position: LogPosition) -> Vec<u64> {
        let size = log.segment_size();
        let last = log.segment_of(LogPosition(position.0.saturating_sub(1)));
        let is_dead = |number: &u64| {
            let start = LogPosition(number.saturating_mul(size));
            let end = LogPosition(start.0.saturating_add(size));
            let is_read = self.pinned.start < end && start < self.pinned.end;
            *number < last && !is_read && !shard.partitions().needs_log(start, end)
        };
        log.segments().into_iter().filter(is_dead).collect()
    }
}
