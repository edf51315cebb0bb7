//! Snapshots and freed segments: what keeps a restart short and the disk from filling with what nobody can read.

use super::Command;
use ottla_core::Shard;
use ottla_store::{Log, Snapshotter};
use ottla_types::LogPosition;
use std::sync::mpsc::Sender;
use tokio::sync::oneshot;

/// Decides when to write a snapshot, and frees segments that hold nothing live.
pub(super) struct Housekeeping {
    snapshotter: Snapshotter,
    /// Bytes of log between snapshots.
    every: u64,
    /// The next snapshot is due when the log ends here.
    due: LogPosition,
    writing: bool,
    /// Who waits for the snapshot that is being written.
    waiting: Vec<oneshot::Sender<()>>,
    commands: Sender<Command>,
}

impl Housekeeping {
    pub(super) fn new(log: &Log, every: u64, commands: Sender<Command>) -> Housekeeping {
        Housekeeping {
            snapshotter: log.snapshotter(),
            every,
            due: LogPosition(log.end().0.saturating_add(every)),
            writing: false,
            waiting: Vec::new(),
            commands,
        }
    }

    /// Begins a snapshot if one is due.
    pub(super) fn consider(&mut self, shard: &Shard, log: &Log) {
        if log.end() >= self.due {
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
        let (snapshotter, commands) = (self.snapshotter.clone(), self.commands.clone());
        let write = move || {
            let written = snapshotter.write(position, &mut rows.into_iter());
            drop(commands.send(Command::SnapshotWritten(written.map_err(|failure| failure.to_string()))));
        };
        match std::thread::Builder::new().name("ottla-snapshot".to_owned()).spawn(write) {
            Ok(_detached) => self.writing = true,
            Err(error) => tracing::warn!(%error, "no thread for a snapshot; the next start replays more"),
        }
    }

    pub(super) fn snapshot_written(&mut self, result: Result<(), String>, shard: &Shard, log: &Log) {
        self.writing = false;
        match result {
            Ok(()) => {
                // Who gave up waiting need not be told.
                self.waiting.drain(..).for_each(|waiter| waiter.send(()).unwrap_or(()));
                free_dead_segments(shard, log);
            }
            Err(error) => {
                self.waiting.clear();
                tracing::warn!(%error, "no snapshot was written; the next start replays more");
            }
        }
    }
}

/// Frees the segments that hold no batch anybody can read. The log keeps those its snapshots are replayed from.
fn free_dead_segments(shard: &Shard, log: &Log) {
    let size = log.segment_size();
    let is_dead = |number: &u64| {
        let start = number.saturating_mul(size);
        !shard.partitions().needs_log(LogPosition(start), LogPosition(start.saturating_add(size)))
    };
    let dead: Vec<u64> = log.segments().into_iter().filter(is_dead).collect();
    let freed = log.free_segments(&dead);
    if !freed.is_empty() {
        tracing::info!(segments = freed.len(), "freed log segments that held nothing readable");
    }
}
