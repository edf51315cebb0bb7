//! Compaction: reads the batches of partitions that are due, asks the core for each batch and record whether it stays,
//! and writes those that stay into new runs.
//!
//! It changes no state itself. The host submits its result to the core, which installs the new parts if they still fit.

mod digest;
mod sources;

use super::error::JobError;
use super::job::{BatchToWrite, Job, JobResult, Output};
use super::pace::Steps;
use bytes::Bytes;
use digest::Digests;
use ottla_core::compaction::{
    BatchFacts, Compactable, Control, Keys, Outcome, Pass, RecordFacts, RemainingBatch,
};
use ottla_store::PartCutter;
use ottla_types::{Millis, Offset, ProducerEpoch, ProducerId};
use ottla_wire::batch::{Batch, BatchError, BatchHeader, ControlRecord, Record};
use sources::Sources;
use std::collections::BTreeSet;

/// A batch may not hold more than this when decompressed, in bytes: none larger was ever taken.
const MOST_RECORDS: usize = 128 << 20;

/// Why a partition was not compacted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The planned data was freed meanwhile. The next plan will not have it.
    #[error("it was freed meanwhile")]
    Gone,
    /// The medium failed. Another attempt may succeed.
    #[error("{0}")]
    Reading(String),
    /// The data is not what was appended.
    #[error("{0}")]
    Broken(String),
    /// One batch has more keys than there is memory for.
    #[error(
        "a batch at offset {0} has more keys than fit into log.cleaner.dedupe.buffer.size: set it higher"
    )]
    TooManyKeys(i64),
    /// The new run cannot be written, or the broker stops.
    #[error(transparent)]
    Job(#[from] JobError),
}

impl Fault {
    /// Whether another attempt would fail in the same way.
    fn is_lasting(&self) -> bool {
        matches!(self, Fault::Broken(_) | Fault::TooManyKeys(_))
    }
}

impl From<BatchError> for Fault {
    fn from(error: BatchError) -> Fault {
        Fault::Broken(error.to_string())
    }
}

/// Passes over partitions.
pub(super) struct Compaction {
    /// The partitions, by class, topic id and partition.
    pub(super) plan: Vec<Compactable>,
    /// When the passes began.
    pub(super) now: Millis,
    /// Memory for keys, in bytes.
    pub(super) memory: usize,
    /// Whether it ends early when the tail of the log is nearly full.
    pub(super) gives_way: bool,
}

impl Job {
    /// A pass over each partition. One that cannot be compacted is left as it is.
    pub(super) fn compact(&mut self, work: &Compaction) -> Result<JobResult, JobError> {
        let digests = Digests::new(self.reader.is_driven())?;
        let mut output = Output::new(self.runs.clone());
        let mut aside = BTreeSet::new();
        self.pace.gives_way = work.gives_way;
        for one in &work.plan {
            let maker = Maker { work, one, digests, sources: Sources::new(&self.runs, &self.reader, one) };
            match maker.pass(&mut self.pace, &mut output) {
                Ok(()) => {}
                Err(Fault::Job(error)) => return Err(error),
                Err(fault) => {
                    let (topic, partition) = (one.partition.topic, one.partition.partition);
                    tracing::warn!(%topic, partition, %fault, "a partition was not compacted");
                    if fault.is_lasting() {
                        aside.insert(one.partition);
                    }
                }
            }
        }
        let mut written = output.finish()?;
        written.aside = aside;
        Ok(written)
    }
}

/// Makes one pass.
struct Maker<'a> {
    work: &'a Compaction,
    one: &'a Compactable,
    digests: Digests,
    sources: Sources<'a>,
}

impl Maker<'_> {
    fn pass(&self, pace: &mut Steps, output: &mut Output) -> Result<(), Fault> {
        let one = self.one;
        let mut keys = Keys::within(self.work.memory);
        let mut pass = Pass::new(self.work.now, one.delete_retention, one.last, &mut keys)
            .with_aborted(one.aborted.iter().copied())
            .with_producers(&one.producers);
        let noted = self.note(pace, &mut pass)?;
        let to = self.sources.end_of(noted);
        let mut install = one.install(to, Vec::new());
        let mut open = output.begin(one.class, PartCutter::new(one.cut.bytes, one.cut.span))?;
        let written = self.sources.read(one.first(), to, |stored| {
            pace.step(stored.batch.bytes().len() as u64)?;
            let facts = facts(&stored.batch)?;
            let is_seen = facts.last_offset <= noted;
            output.set_clean(&mut open, &mut install, (is_seen, Millis::NONE))?;
            let kept = match is_seen {
                true => self.kept(&mut pass, &stored.batch, &facts)?,
                // There was no memory for its keys: the batch waits for the next pass.
                false => Some((stored.batch.bytes().clone(), Millis::NONE)),
            };
            let Some((bytes, until)) = kept else { return Ok(true) };
            let moved = BatchToWrite {
                bytes: &bytes,
                base_offset: facts.base_offset,
                last_offset: facts.last_offset,
                max_timestamp: Millis(stored.batch.header().max_timestamp),
                appended: stored.appended,
            };
            output.push(&mut open, &mut install, moved)?;
            open.until(until);
            Ok(true)
        });
        // A part that was begun must be ended even after a failure, because other parts follow in the run.
        output.end(&mut open, &mut install)?;
        written?;
        output.installs(install);
        Ok(())
    }

    /// The rest of a batch, and when a later pass can remove more of it.
    fn kept(
        &self,
        pass: &mut Pass<'_>,
        batch: &Batch,
        facts: &BatchFacts,
    ) -> Result<Option<(Bytes, Millis)>, Fault> {
        pass.begin(facts);
        let selection =
            batch.select(MOST_RECORDS, |record| pass.stays(facts, &self.record(facts, record)))?;
        let left = RemainingBatch {
            records: selection.kept(),
            tombstones: selection.tombstones(),
            whole: selection.is_whole(),
        };
        Ok(match pass.end(facts, left) {
            Outcome::Dropped => None,
            Outcome::Emptied => Some((batch.to_empty()?, Millis::NONE)),
            Outcome::Kept { anew: false, until, .. } => Some((batch.bytes().clone(), until)),
            Outcome::Kept { horizon, until, .. } => Some((selection.build(horizon.map(|at| at.0))?, until)),
        })
    }

    /// Gives the keys of all dirty batches to the pass. Returns the last offset up to which they fit into memory.
    fn note(&self, pace: &mut Steps, pass: &mut Pass<'_>) -> Result<Offset, Fault> {
        let (dirty, to) = (self.one.dirty, self.one.to());
        let mut noted = None;
        let mut stopped = None;
        self.sources.read(dirty, to, |stored| {
            pace.step(stored.batch.bytes().len() as u64)?;
            let facts = facts(&stored.batch)?;
            if !pass.counts(&facts) {
                return Ok(true);
            }
            let set = stored.batch.records(MOST_RECORDS)?;
            for record in set.iter() {
                if !pass.note(&self.record(&facts, &record?)) {
                    stopped = Some(facts.base_offset);
                    return Ok(false);
                }
            }
            noted = Some(facts.last_offset);
            Ok(true)
        })?;
        match (stopped, noted) {
            (None, _) => Ok(to),
            (Some(_), Some(noted)) => Ok(noted),
            (Some(at), None) => Err(Fault::TooManyKeys(at.0)),
        }
    }

    fn record(&self, batch: &BatchFacts, record: &Record<'_>) -> RecordFacts {
        RecordFacts {
            offset: batch.base_offset.plus(i64::from(record.offset_delta)),
            key: record.key.map(|key| self.digests.of(key)),
            tombstone: record.value.is_none(),
        }
    }
}

fn facts(batch: &Batch) -> Result<BatchFacts, BatchError> {
    let header: &BatchHeader = batch.header();
    Ok(BatchFacts {
        base_offset: Offset(header.base_offset),
        last_offset: Offset(header.base_offset).plus(i64::from(header.last_offset_delta)),
        producer_id: ProducerId(header.producer_id),
        producer_epoch: ProducerEpoch(header.producer_epoch),
        transactional: header.is_transactional(),
        control: if header.is_control() { Some(control(batch)?) } else { None },
        horizon: header.delete_horizon().map(Millis),
    })
}

fn control(batch: &Batch) -> Result<Control, BatchError> {
    let set = batch.records(MOST_RECORDS)?;
    let Some(record) = set.iter().next() else { return Ok(Control::End) };
    Ok(match ControlRecord::of(&record?) {
        Some(ControlRecord::End { .. }) => Control::End,
        Some(ControlRecord::Other(_)) | None => Control::Other,
    })
}
