//! A host without threads, for simulation: its caller decides what time it is, when the state machine runs and when the
//! log writes. If the medium, the clock and the network follow from a seed, so does the whole run.

use super::machine::{Machine, Ready, prepare};
use super::mailbox::Wakeup;
use super::{Host, HostOptions};
use ottla_core::Shard;
use ottla_store::{LogReader, Medium, OpenError, Options, RecoveryReport};
use ottla_types::{LogPosition, Millis};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// A host that its caller runs.
pub struct DrivenHost {
    machine: Machine,
    host: Host,
    wake: Arc<Notify>,
    failure: watch::Receiver<Option<String>>,
    recovered: RecoveryReport,
}

impl std::fmt::Debug for DrivenHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driven").field("log", &self.machine.log).finish_non_exhaustive()
    }
}

/// Replays the log, at the time `now`. [`Options::threads`] is taken for false.
///
/// # Errors
/// The log cannot be opened.
pub fn drive(medium: Arc<dyn Medium>, options: HostOptions, now: Millis) -> Result<DrivenHost, OpenError> {
    let wake = Arc::new(Notify::new());
    let options = HostOptions { log: Options { threads: false, ..options.log }, ..options };
    let Ready { machine, host, failure, recovered } =
        prepare(medium, options, now, Wakeup::Driver(Arc::clone(&wake)))?;
    Ok(DrivenHost { machine, host, wake, failure, recovered })
}

impl DrivenHost {
    /// The handle.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Reads batches from the log.
    pub fn reader(&self) -> LogReader {
        self.machine.log.reader()
    }

    /// Notified when there is a command: time for [`Driven::turn`].
    pub fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    /// What was found in the log.
    pub fn recovered(&self) -> &RecoveryReport {
        &self.recovered
    }

    /// Why the log failed, if it did: the process would end.
    pub fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    /// The state as it is, durable or not.
    pub fn shard(&self) -> &Shard {
        &self.machine.shard
    }

    /// The end of the log as appended, and as durable.
    pub fn ends(&self) -> (LogPosition, LogPosition) {
        (self.machine.log.end(), self.machine.log.durable())
    }

    /// Sets how far the wall clock is ahead of the time that turns are given.
    pub fn set_wall_offset(&mut self, now: Millis, offset: Millis) {
        self.machine.set_wall_offset(now, offset);
    }

    /// Handles the commands that are there, and what is due at `now`. False when the host has ended.
    pub fn turn(&mut self, now: Millis) -> bool {
        self.machine.run_at(now)
    }

    /// How long nothing needs to be done unless [`Driven::wake`] says so.
    pub fn patience(&mut self, now: Millis) -> Duration {
        self.machine.idle_time(now)
    }

    /// Whether [`Driven::write`] has something to do.
    pub fn has_work(&self) -> bool {
        let (end, durable) = self.ends();
        end > durable || self.machine.housekeeping.has_work() || self.machine.rewriter.has_work()
    }

    /// Writes the pieces of a snapshot that are ready, then the log, then runs. In a process with threads the
    /// snapshot's thread may be that much faster than the log's. The next turn is notified of it.
    pub fn write(&mut self) {
        self.write_snapshot();
        self.write_log();
        self.write_runs();
    }

    /// Lets the log write and sync what was appended, prepare and free segments.
    pub fn write_log(&mut self) {
        self.machine.log.drive();
    }

    /// Begins to write what was appended: later records go into the next group.
    pub fn begin_group(&mut self) {
        self.machine.log.drive_seal();
    }

    /// Lets the log write and sync one group. The next turn is notified of it, also when other groups wait behind it.
    pub fn write_group(&mut self) {
        self.machine.log.drive_group();
    }

    /// Prepares and frees segments and runs as far as the log is durable now. In a process with threads the maintenance
    /// thread may be that much faster than the writer.
    pub fn do_chores(&mut self) {
        self.machine.log.drive_maintenance();
    }

    /// Writes the pieces of a snapshot that are ready.
    pub fn write_snapshot(&mut self) {
        self.machine.housekeeping.work();
    }

    /// Writes runs, if a job waits.
    pub fn write_runs(&mut self) {
        self.machine.rewriter.work();
    }

    /// Writes a snapshot, and runs, if some are due; the log must have been written.
    pub fn work(&mut self) {
        self.write_snapshot();
        self.write_runs();
    }

    /// Whether pieces of a snapshot are being taken and written.
    pub fn is_taking_snapshot(&self) -> bool {
        self.machine.housekeeping.is_taking()
    }

    /// Ends in good order: what was appended becomes durable, and the answers that waited for it leave.
    pub fn finish(mut self) {
        self.machine.finish();
    }
}
