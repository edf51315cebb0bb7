//! Snapshots and freed segments: what keeps a restart short and the disk from filling with data that no client can
//! read.
//!
//! A segment is dead when no batch in it can be read. It can be freed when the older of the two kept snapshots lies
//! behind it, for replay begins there. So a snapshot is written
//! - after so many bytes of log,
//! - after so long, if there is as much to replay as the last snapshot is large, and
//! - when records or topics were deleted and a segment before the last is dead: space then returns although nothing
//!   more is appended. If the older snapshot still pins dead segments afterwards, one more follows, at a position that
//!   an empty group makes new.
//!
//! This ends: only a record that deletes something starts it, and each such snapshot frees the segments that caused it.

use super::mailbox::Mailbox;
use super::snapshots::{SnapshotInProgress, Snapshots};
use ottla_core::Shard;
use ottla_store::{Log, RecoveryReport, Snapshotter};
use ottla_types::record::{CatalogRecord, LogRecord, PartitionRecord};
use ottla_types::{LogPosition, Millis};
use std::ops::Range;
use tokio::sync::oneshot;

/// Decides when to write a snapshot, and frees segments that hold nothing live.
pub(super) struct Housekeeping {
    snapshotter: Snapshotter,
    when: Snapshots,
    /// The snapshot that is being written.
    taking: Option<SnapshotInProgress>,
    /// Bytes of the last snapshot that was written.
    size: u64,
    /// When the last snapshot was begun, or the process started.
    since: Option<Millis>,
    /// Something was deleted since the segments were last looked at.
    deleted: bool,
    /// The purpose of the snapshot that is being written is to release the segments that the one before it pins.
    second: bool,
    /// The position of the last snapshot: replay begins there.
    position: LogPosition,
    /// Callers that wait for the snapshot that is being written.
    waiting: Vec<oneshot::Sender<()>>,
    /// The ranges of the log that a job reads.
    pinned: Range<LogPosition>,
    commands: Mailbox,
}

impl Housekeeping {
    pub(super) fn new(
        log: &Log,
        recovered: &RecoveryReport,
        when: Snapshots,
        commands: Mailbox,
    ) -> Housekeeping {
        Housekeeping {
            snapshotter: log.snapshotter(),
            when,
            taking: None,
            size: 0,
            since: None,
            // An earlier run may have ended before it could free what was dead.
            deleted: true,
            second: false,
            position: recovered.snapshot.unwrap_or(LogPosition(0)),
            waiting: Vec::new(),
            pinned: LogPosition(0)..LogPosition(0),
            commands,
        }
    }

    /// Takes note of a record: whether it deletes batches.
    pub(super) fn applied(&mut self, record: &LogRecord) {
        self.deleted |= matches!(
            record,
            LogRecord::Catalog(CatalogRecord::TopicDeleted(_))
                | LogRecord::Partitions(PartitionRecord::LogStartMoved(_))
                | LogRecord::Partitions(PartitionRecord::PartsInstalled(_))
        );
    }

    /// Sets the ranges of the log that a job reads from now on: they are not freed.
    pub(super) fn pin(&mut self, reads: Range<LogPosition>) {
        // What was pinned may be dead meanwhile.
        self.deleted |= self.pinned != reads;
        self.pinned = reads;
    }

    /// Begins a snapshot if one is due.
    pub(super) fn consider(&mut self, now: Millis, shard: &Shard, log: &Log) {
        let since = *self.since.get_or_insert(now);
        if self.is_taking() {
            return;
        }
        let deleted = std::mem::take(&mut self.deleted);
        let grown = log.end().0.saturating_sub(self.position.0);
        let late = now.since(since) >= self.when.after && grown > self.size;
        if grown >= self.when.every
            || late
            || (deleted && !self.dead_segments(shard, log, log.end()).is_empty())
        {
            self.since = Some(now);
            self.begin_snapshot(shard, log, None);
        }
    }

    /// Takes the first piece of a snapshot, unless one is being written. Its writer asks for the next ones.
    pub(super) fn begin_snapshot(&mut self, shard: &Shard, log: &Log, done: Option<oneshot::Sender<()>>) {
        self.waiting.extend(done);
        if self.is_taking() {
            return;
        }
        self.position = log.end();
        let threads = !log.is_driven();
        match SnapshotInProgress::begin(
            self.snapshotter.clone(),
            self.commands.clone(),
            threads,
            self.when.piece,
        ) {
            Ok(taking) => self.taking = Some(taking),
            Err(error) => tracing::warn!(%error, "no thread for a snapshot; the next start replays more"),
        }
        // Asked again, the log may say that it ends behind the padding of a group that was begun to be written
        // meanwhile: the position must be the one that is remembered.
        self.take_piece(shard, self.position);
    }

    /// Takes the next piece of the snapshot.
    pub(super) fn next_piece(&mut self, shard: &Shard, log: &Log) {
        self.take_piece(shard, log.end());
    }

    fn take_piece(&mut self, shard: &Shard, position: LogPosition) {
        if let Some(taking) = &mut self.taking {
            taking.take(shard, position);
        }
    }

    /// Whether a snapshot is being taken.
    pub(super) fn is_taking(&self) -> bool {
        self.taking.is_some()
    }

    /// Without threads: whether a snapshot has something to be written.
    pub(super) fn has_work(&self) -> bool {
        self.taking.as_ref().is_some_and(SnapshotInProgress::has_work)
    }

    /// Without threads: writes the piece that waits, or ends the snapshot if the log is durable.
    pub(super) fn work(&mut self) {
        self.taking.iter_mut().for_each(SnapshotInProgress::work);
    }

    pub(super) fn snapshot_written(&mut self, result: Result<u64, String>, shard: &Shard, log: &Log) {
        self.taking = None;
        match result {
            Ok(size) => {
                self.size = size;
                // A caller that gave up waiting needs no answer.
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

    /// Frees dead segments. The log keeps those that its snapshots are replayed from; for dead ones among them,
    /// schedules a snapshot that releases them.
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

    /// The segments wholly before `position`, and before the one that replay from there begins with, in which nothing
    /// can be read and nothing is being read.
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
