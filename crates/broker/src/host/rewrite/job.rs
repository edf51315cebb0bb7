//! One job: writes runs, without the lock of the state machine. If it fails, it removes the files that it has written.

use super::error::JobError;
use super::pace::Steps;
use ottla_core::partitions::{Install, RetentionClass, RunEnds};
use ottla_store::{CutBatch, LogReader, PartCutter, PartEnd, RunWriter, Runs};
use ottla_types::{Millis, Offset, TopicPartition};
use std::collections::BTreeSet;

/// What a job has written.
#[derive(Debug, Default)]
pub(in crate::host) struct JobResult {
    /// The parts to be installed.
    pub(super) installs: Vec<Install>,
    /// Where the last part of each new run ends.
    pub(super) ends: RunEnds,
    /// Bytes of batches that were written.
    pub(super) bytes: u64,
    /// Partitions that cannot be compacted: they are not tried again.
    pub(super) aside: BTreeSet<TopicPartition>,
}

/// What a job works with.
pub(super) struct Job {
    pub(super) runs: Runs,
    pub(super) reader: LogReader,
    /// Bytes that are sorted at once.
    pub(super) buffer: u64,
    pub(super) pace: Steps,
}

/// Writes one run after the other, each of one class.
pub(super) struct Output {
    runs: Runs,
    open: Option<(RetentionClass, RunWriter)>,
    written: JobResult,
}

/// The part that is being written, and what is known of it.
pub(super) struct OpenPart {
    cutter: PartCutter,
    begun: bool,
    /// Last offset of its last batch.
    last: Offset,
    clean: bool,
    horizon: Millis,
    /// As `horizon`, for what was pushed into this part alone.
    until: Millis,
}

impl OpenPart {
    /// From this time on a pass can remove more from the part; -1 for never.
    pub(super) fn until(&mut self, time: Millis) {
        self.until = earliest(self.until, time);
    }
}

fn earliest(one: Millis, other: Millis) -> Millis {
    match (one, other) {
        (Millis::NONE, time) | (time, Millis::NONE) => time,
        (one, other) => one.min(other),
    }
}

/// A batch on its way into a run.
#[derive(Clone, Copy)]
pub(super) struct BatchToWrite<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) base_offset: Offset,
    pub(super) last_offset: Offset,
    pub(super) max_timestamp: Millis,
    pub(super) appended: Millis,
}

impl Output {
    pub(super) fn new(runs: Runs) -> Output {
        Output { runs, open: None, written: JobResult::default() }
    }

    /// The writer for a class; the run of another class is finished.
    fn writer(&mut self, class: RetentionClass) -> Result<&mut RunWriter, JobError> {
        if self.open.as_ref().is_some_and(|(open, _)| *open != class) {
            self.finish_run()?;
        }
        let writer = match self.open.take() {
            Some((_, writer)) => writer,
            None => self.runs.writer(self.runs.next_number())?,
        };
        Ok(&mut self.open.insert((class, writer)).1)
    }

    /// Begins with the batches of a range of a partition.
    pub(super) fn begin(&mut self, class: RetentionClass, cutter: PartCutter) -> Result<OpenPart, JobError> {
        self.writer(class)?;
        Ok(OpenPart {
            cutter,
            begun: false,
            last: Offset(0),
            clean: false,
            horizon: Millis::NONE,
            until: Millis::NONE,
        })
    }

    /// Adds a batch.
    pub(super) fn push(
        &mut self,
        part: &mut OpenPart,
        install: &mut Install,
        batch: BatchToWrite<'_>,
    ) -> Result<(), JobError> {
        let BatchToWrite { bytes, base_offset, last_offset, max_timestamp, appended } = batch;
        let size = bytes.len() as u64;
        let begins =
            part.cutter.begins(base_offset, CutBatch { bytes: size, last_offset, max_timestamp, appended });
        if begins || !part.begun {
            self.end(part, install)?;
            part.begun = true;
            if let Some((_, writer)) = &mut self.open {
                writer.begin_part(install.partition, base_offset)?;
            }
        }
        part.last = last_offset;
        self.written.bytes += size;
        if let Some((_, writer)) = &mut self.open {
            writer.push(bytes, appended)?;
        }
        Ok(())
    }

    /// Ends the part that is being written, if there is one.
    pub(super) fn end(&mut self, part: &mut OpenPart, install: &mut Install) -> Result<(), JobError> {
        let begun = std::mem::replace(&mut part.begun, false);
        let Some((_, writer)) = self.open.as_mut().filter(|_| begun) else { return Ok(()) };
        let until = std::mem::replace(&mut part.until, Millis::NONE);
        let horizon = earliest(part.horizon, until);
        let end = PartEnd { last_offset: part.last, clean: part.clean, horizon };
        if let Some(part) = writer.end_part(end)? {
            self.written.ends.insert(part.run, Runs::extent(&part).end);
            install.parts.push(part);
        }
        Ok(())
    }

    /// What compaction knows of the batches that follow: they go into a part of their own.
    pub(super) fn set_clean(
        &mut self,
        part: &mut OpenPart,
        install: &mut Install,
        known: (bool, Millis),
    ) -> Result<(), JobError> {
        if (part.clean, part.horizon) != known {
            self.end(part, install)?;
            (part.clean, part.horizon) = known;
        }
        Ok(())
    }

    pub(super) fn installs(&mut self, install: Install) {
        self.written.installs.push(install);
    }

    fn finish_run(&mut self) -> Result<(), JobError> {
        if let Some((_, writer)) = self.open.take().filter(|(_, writer)| !writer.is_empty()) {
            writer.finish()?;
        }
        Ok(())
    }

    /// Finishes the last run: all of them are durable.
    pub(super) fn finish(mut self) -> Result<JobResult, JobError> {
        self.finish_run()?;
        Ok(self.written)
    }
}
