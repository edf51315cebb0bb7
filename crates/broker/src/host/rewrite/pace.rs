//! How fast a job may go: it yields to the log, whose syncs producers wait for.

use super::job::JobError;
use ottla_store::{HistogramView, LogReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Bytes between two looks at the log.
const STEP: u64 = 1 << 20;
/// Syncs that are needed to say something about them.
const ENOUGH: u64 = 64;
/// The first pause, and the longest.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(64);

/// What all jobs share.
pub(super) struct Pace {
    reader: LogReader,
    threads: bool,
    stopped: Arc<AtomicBool>,
    hurried: Arc<AtomicBool>,
    /// What was counted when the last job began.
    before: HistogramView,
    /// What all but the slowest hundredth of syncs took while no job ran.
    quiet: Option<u64>,
}

/// The pace of one job.
pub(super) struct Steps {
    reader: LogReader,
    threads: bool,
    stopped: Arc<AtomicBool>,
    hurried: Arc<AtomicBool>,
    quiet: Option<u64>,
    before: HistogramView,
    bytes: u64,
    pause: Duration,
    /// The job ends when others are in a hurry.
    pub(super) gives_way: bool,
}

impl Pace {
    pub(super) fn new(reader: LogReader, threads: bool) -> Pace {
        let before = reader.stats().syncs.view();
        Pace { reader, threads, stopped: Arc::default(), hurried: Arc::default(), before, quiet: None }
    }

    /// Jobs end at their next step.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// The tail is so full that jobs yield to nobody.
    pub(super) fn set_hurried(&self, hurried: bool) {
        self.hurried.store(hurried, Relaxed);
    }

    /// The pace of a job that begins now.
    pub(super) fn begin(&mut self) -> Steps {
        let now = self.reader.stats().syncs.view();
        self.quiet = slow(&self.before, &now).or(self.quiet);
        self.before = now.clone();
        Steps {
            reader: self.reader.clone(),
            threads: self.threads,
            stopped: Arc::clone(&self.stopped),
            hurried: Arc::clone(&self.hurried),
            quiet: self.quiet,
            before: now,
            bytes: 0,
            pause: Duration::ZERO,
            gives_way: false,
        }
    }
}

impl Steps {
    /// So many bytes were read or written; waits if the log suffers.
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
            self.look();
            std::thread::sleep(self.pause);
        }
        Ok(())
    }

    /// Pauses grow while syncs take more than twice the time they take in quiet, and shrink again.
    fn look(&mut self) {
        let now = self.reader.stats().syncs.view();
        let (Some(quiet), Some(slow)) = (self.quiet, slow(&self.before, &now)) else { return };
        self.before = now;
        self.pause = if slow > quiet.saturating_mul(2) {
            (self.pause * 2).clamp(SHORTEST, LONGEST)
        } else {
            self.pause / 2
        };
    }
}

/// What all but the slowest hundredth of what was counted between two moments took; none if that was too little to say.
fn slow(before: &HistogramView, now: &HistogramView) -> Option<u64> {
    let counts: Vec<(u64, u64)> = now
        .buckets
        .iter()
        .zip(&before.buckets)
        .map(|((bound, now), (_, before))| (*bound, now.saturating_sub(*before)))
        .collect();
    let above = now.above.saturating_sub(before.above);
    let all = above + counts.iter().map(|(_, count)| count).sum::<u64>();
    if all < ENOUGH {
        return None;
    }
    let mut left = all - all / 100;
    for (bound, count) in counts {
        if count >= left {
            return Some(bound);
        }
        left -= count;
    }
    Some(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_store::Histogram;

    #[test]
    fn the_slowest_hundredth_does_not_count() {
        let histogram = Histogram::new(&[10, 20, 40]);
        let before = histogram.view();
        (0..63).for_each(|_| histogram.record(5));
        assert_eq!(slow(&before, &histogram.view()), None);
        (0..136).for_each(|_| histogram.record(15));
        histogram.record(100);
        assert_eq!(slow(&before, &histogram.view()), Some(20));
        let later = histogram.view();
        (0..64).for_each(|_| histogram.record(5));
        assert_eq!(slow(&later, &histogram.view()), Some(10));
    }
}
