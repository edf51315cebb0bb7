//! Parts go into new runs: one part after the other is read through and written again.

use super::error::JobError;
use super::job::{BatchToWrite, Job, JobResult, Output};
use ottla_core::partitions::MergeRange;
use ottla_store::PartCutter;

impl Job {
    pub(super) fn merge(&mut self, ranges: &[MergeRange]) -> Result<JobResult, JobError> {
        let mut output = Output::new(self.runs.clone());
        for range in ranges {
            self.merge_range(range, &mut output)?;
        }
        output.finish()
    }

    fn merge_range(&mut self, range: &MergeRange, output: &mut Output) -> Result<(), JobError> {
        let mut install = range.install();
        let mut open = output.begin(range.class, PartCutter::new(range.cut.bytes, range.cut.span))?;
        for part in &range.parts {
            output.set_clean(&mut open, &mut install, (part.clean, part.horizon))?;
            let mut scan = self.runs.scan(part)?;
            while let Some(batch) = scan.next_batch()? {
                if batch.last_offset < range.start {
                    continue;
                }
                let moved = BatchToWrite {
                    bytes: &batch.bytes,
                    base_offset: batch.base_offset,
                    last_offset: batch.last_offset,
                    max_timestamp: batch.max_timestamp,
                    appended: part.appended,
                };
                output.push(&mut open, &mut install, moved)?;
                self.pace.step(batch.bytes.len() as u64)?;
            }
        }
        output.end(&mut open, &mut install)?;
        output.installs(install);
        Ok(())
    }
}
