//! What a job of rewriting does.

use super::compact::Compaction;
use super::error::JobError;
use super::job::{Job, JobResult};
use ottla_core::partitions::{MergeRange, TailPlan};
use ottla_store::Runs;

/// What is to be done.
pub(super) enum Task {
    /// Batches of the log go into runs.
    Tail(TailPlan),
    /// Parts go into new runs.
    Merge(Vec<MergeRange>),
    /// The ends of these runs are read from their files.
    Survey(Vec<u64>),
    /// Partitions are compacted.
    Compact(Compaction),
}

impl Job {
    pub(super) fn run(mut self, task: Task) -> Result<JobResult, JobError> {
        match task {
            Task::Tail(plan) => self.write_tail(&plan),
            Task::Merge(ranges) => self.merge(&ranges),
            Task::Survey(runs) => self.survey(&runs),
            Task::Compact(work) => self.compact(&work),
        }
    }

    /// Reads where the last part of each run ends.
    fn survey(&mut self, runs: &[u64]) -> Result<JobResult, JobError> {
        let mut written = JobResult::default();
        for run in runs {
            let end = self.runs.parts(*run)?.iter().map(|row| Runs::extent(&row.part).end).max();
            written.ends.insert(*run, end.unwrap_or(0));
        }
        Ok(written)
    }
}
