//! The pace of a job: it yields to the log, because producers wait for the log's syncs.

use super::error::JobError;
use ottla_store::{IoBackoff, LogReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Bytes between two checks of the log.
const STEP: u64 = 1 << 20;
/// The longest pause.
const LONGEST: Duration = Duration::from_millis(64);

/// What all jobs share.
pub(super) struct Pace {
    reader: LogReader,
    threads: bool,
    stopped: Arc<AtomicBool>,
    hurried: Arc<AtomicBool>,
    backoff: IoBackoff,
}

/// The pace of one job.
pub(super) struct Steps {
    reader: LogReader,
    threads: bool,
    stopped: Arc<AtomicBool>,
    hurried: Arc<AtomicBool>,
    backoff: IoBackoff,
    bytes: u64,
    /// The job ends when the tail is too full.
    pub(super) gives_way: bool,
}

impl Pace {
    pub(super) fn new(reader: LogReader, threads: bool) -> Pace {
        let backoff = IoBackoff::new(reader.stats().syncs.view(), LONGEST);
        Pace { reader, threads, stopped: Arc::default(), hurried: Arc::default(), backoff }
    }

    /// Jobs end at their next step.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// The tail is so full that jobs do not yield.
    pub(super) fn set_hurried(&self, hurried: bool) {
        self.hurried.store(hurried, Relaxed);
    }

    /// The pace of a job that begins now.
    pub(super) fn begin(&mut self) -> Steps {
        self.backoff.begin(self.reader.stats().syncs.view());
        Steps {
            reader: self.reader.clone(),
            threads: self.threads,
            stopped: Arc::clone(&self.stopped),
            hurried: Arc::clone(&self.hurried),
            backoff: self.backoff.clone(),
            bytes: 0,
            gives_way: false,
        }
    }
}

impl Steps {
    /// Notes that `bytes` were read or written. Pauses if the log's syncs have become slow.
    ///
    /// # Errors
    /// The broker stops, or the job gives way.
    pub(super) fn step(&mut self, bytes: u64) -> Result<(), JobError> {
        self.bytes += bytes;
        if self.bytes < STEP {
            return Ok(());
        }
        self.bytes = 0;
        if self.stopped.load(Relaxed) {
            return Err(JobError::Stopped);
        }
        if self.gives_way && self.hurried.load(Relaxed) {
            return Err(JobError::GaveWay);
        }
        if self.threads && !self.hurried.load(Relaxed) {
            std::thread::sleep(self.backoff.pause(self.reader.stats().syncs.view()));
        }
        Ok(())
    }
}
