//! Checks every checksum of a folder, and what a start of the broker would do with it.

use crate::batch::{check_batch, check_reference};
use crate::remaining::state;
use crate::topic_names::TopicNames;
use crate::{Damage, Location, SalvageError};
use bytes::Bytes;
use ottla_layout::explain;
use ottla_layout::record::{DecodedRecord, decode};
use ottla_layout::run::RunRow;
use ottla_layout::{BLOCK, Group};
use ottla_store::inspect::{Folder, LogItem, SnapshotItem};
use ottla_store::{OpenError, RecoveryReport, RunError};
use ottla_types::record::{BatchPlace, BatchesRestored, LogRecord, PartitionRecord};
use ottla_wire::batch::HEADER_SIZE;
use std::collections::BTreeSet;

/// What was checked: how many of each, and how many bytes of batches in the log.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "each field counts what its name says")]
pub struct CheckedCounts {
    pub snapshots: usize,
    pub rows: usize,
    pub segments: usize,
    pub groups: usize,
    pub entries: usize,
    pub batches: usize,
    pub bytes: u64,
    pub runs: usize,
    pub parts: usize,
}

/// An observation that is no damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub location: Location,
    /// A sentence without its full stop.
    pub text: String,
}

/// What was found in a folder.
#[derive(Debug)]
pub struct Report {
    /// What was checked.
    pub checked: CheckedCounts,
    /// What is damaged.
    pub faults: Vec<Damage>,
    /// Observations that are no damage.
    pub notes: Vec<Note>,
    /// What a start would recover, or why it would refuse.
    pub start: Result<RecoveryReport, OpenError>,
}

/// What was found so far.
#[derive(Debug, Default)]
struct Findings {
    checked: CheckedCounts,
    faults: Vec<Damage>,
    notes: Vec<Note>,
    names: TopicNames,
    /// Runs that the log refers to and that do not exist.
    missing: BTreeSet<u64>,
}

/// Checks every checksum of a folder, and what a start of the broker would do with it. Nothing in the folder is
/// changed.
///
/// # Errors
/// The medium fails.
pub fn verify(folder: &Folder) -> Result<Report, SalvageError> {
    let mut findings = check(folder)?;
    let start = findings.start(folder);
    if let (Err(error), true) = (&start, findings.faults.is_empty()) {
        findings.fault("the folder", 0, error.to_string());
    }
    let Findings { checked, faults, notes, .. } = findings;
    Ok(Report { checked, faults, notes, start })
}

fn check(folder: &Folder) -> Result<Findings, SalvageError> {
    let mut findings = Findings::default();
    if let Some(error) = folder.identity_fault() {
        findings.fault("identity", 0, error.to_string());
    }
    for position in folder.snapshots() {
        findings.snapshot(folder, position)?;
    }
    folder.walk(&mut |found| findings.found(folder, found))?;
    findings.references(folder)?;
    findings.runs(folder)?;
    for name in folder.temporary() {
        findings.note(Location::new(name, 0), "incomplete, a start removes it");
    }
    Ok(findings)
}

impl Findings {
    fn fault(&mut self, file: &str, offset: u64, reason: impl Into<String>) {
        self.faults.push(Damage::new(Location::new(file, offset), reason));
    }

    fn note(&mut self, location: Location, text: impl Into<String>) {
        self.notes.push(Note { location, text: text.into() });
    }

    fn snapshot(&mut self, folder: &Folder, position: u64) -> Result<(), SalvageError> {
        let name = Folder::snapshot_name(position);
        self.checked.snapshots += 1;
        folder.snapshot(position, &mut |found| {
            match found {
                SnapshotItem::Header { .. } | SnapshotItem::End { .. } => {}
                SnapshotItem::Chunk { entries, .. } => {
                    for (at, entry) in entries {
                        self.checked.rows += 1;
                        match decode(entry) {
                            Ok(decoded) => self.names.learn(&decoded.record),
                            Err(error) => self.fault(&name, at, error.to_string()),
                        }
                    }
                }
                SnapshotItem::Damage { offset, reason } => self.fault(&name, offset, reason),
            }
            Ok(())
        })
    }

    fn found(&mut self, folder: &Folder, found: LogItem<'_>) -> Result<(), SalvageError> {
        let geometry = folder.identity().geometry;
        match found {
            LogItem::Segment { number, block, header, .. } => {
                self.checked.segments += 1;
                let name = Folder::segment_name(number);
                match header {
                    Err(reason) => self.fault(&name, 0, reason),
                    Ok(_) => self.zeros(&name, block, header_len(block), 0),
                }
            }
            LogItem::Group { bytes, group } => {
                let Location { file, offset } = Location::in_log(geometry, group.header.position);
                self.group(&file, offset, bytes, &group);
            }
            LogItem::Damage(damage) => self.faults.push(Damage::in_log(geometry, damage)),
            LogItem::End(end) => {
                let (at, note) = match end.torn {
                    Some((at, reason)) => {
                        (at, format!("the log ends at a torn group that was never acknowledged: {reason}"))
                    }
                    None => (end.position, "the log ends".to_owned()),
                };
                self.note(Location::in_log(geometry, at), note);
            }
        }
        Ok(())
    }

    fn group(&mut self, name: &str, offset: u64, bytes: &[u8], group: &Group<'_>) {
        self.checked.groups += 1;
        for entry in group.entries() {
            self.checked.entries += 1;
            let at = offset + (entry.position - group.header.position);
            match decode(entry.bytes) {
                Ok(DecodedRecord {
                    record: LogRecord::Partitions(PartitionRecord::BatchAppended(batch)),
                    payload: Some(payload),
                }) => {
                    self.checked.batches += 1;
                    let bytes = Bytes::copy_from_slice(&entry.bytes[payload..]);
                    self.checked.bytes += bytes.len() as u64;
                    if let Err(reason) = check_batch(&batch, &bytes) {
                        self.fault(name, at + 4 + payload as u64, reason);
                    }
                }
                Ok(decoded) => self.names.learn(&decoded.record),
                Err(error) => self.fault(name, at, error.to_string()),
            }
        }
        self.zeros(name, bytes, group.header.len() as usize, offset);
    }

    /// Reports padding that is not zero: no checksum covers it.
    fn zeros(&mut self, name: &str, bytes: &[u8], from: usize, base: u64) {
        let padding = bytes.get(from..).unwrap_or_default();
        if let Some(at) = padding.iter().position(|byte| *byte != 0) {
            let reason = "the padding is not zero here, which has no effect";
            self.fault(name, base + (from + at) as u64, reason);
        }
    }

    /// Checks that the batches that the newest intact snapshot refers to are at their positions.
    fn references(&mut self, folder: &Folder) -> Result<(), SalvageError> {
        let whole = |position: &u64| {
            let name = Folder::snapshot_name(*position);
            self.faults.iter().all(|fault| fault.location.file != name)
        };
        let Some(position) = folder.snapshots().into_iter().rev().find(whole) else { return Ok(()) };
        folder.snapshot(position, &mut |found| {
            let SnapshotItem::Chunk { entries, .. } = found else { return Ok(()) };
            for (_, entry) in entries {
                if let Ok(DecodedRecord {
                    record: LogRecord::Partitions(PartitionRecord::BatchesRestored(row)),
                    ..
                }) = decode(entry)
                {
                    self.row(folder, &row)?;
                }
            }
            Ok(())
        })
    }

    fn row(&mut self, folder: &Folder, row: &BatchesRestored) -> Result<(), SalvageError> {
        for batch in &row.batches {
            let BatchPlace::Log { position, size } = batch.place else { continue };
            let head = folder.read(position.0, HEADER_SIZE.min(size as usize))?;
            if let Err(reason) = check_reference(batch, size, &head) {
                let offsets = format!("{} to {}", batch.base_offset.0, batch.last_offset.0);
                let partition = self.names.partition(row.partition);
                let reason = format!("offsets {offsets} of {partition} should be here: {reason}");
                let location = Location::in_log(folder.identity().geometry, position.0);
                self.faults.push(Damage::new(location, reason));
            }
        }
        Ok(())
    }

    /// Checks the runs, and in them the parts that the log refers to. The space of other parts may have been freed.
    fn runs(&mut self, folder: &Folder) -> Result<(), SalvageError> {
        let shard = state(folder)?;
        let runs = folder.runs();
        for run in runs.list() {
            self.checked.runs += 1;
            if let Err(error) = runs.parts(run) {
                self.run_fault(error)?;
            }
            if shard.partitions().run(run).is_none() {
                self.note(
                    Location::new(Folder::run_name(run), 0),
                    "nothing refers to it, a start removes it",
                );
            }
        }
        for (at, partition) in shard.partitions().iter() {
            for part in partition.parts() {
                self.checked.parts += 1;
                if !runs.list().contains(&part.run) {
                    self.missing.insert(part.run);
                    continue;
                }
                let report = runs.verify(RunRow { partition: at, part: *part });
                self.checked.batches += usize::try_from(report.batches).unwrap_or(usize::MAX);
                report.faults.into_iter().try_for_each(|error| self.run_fault(error))?;
            }
        }
        for run in self.missing.clone() {
            self.fault(&Folder::run_name(run), 0, "the file is missing, and its data is nowhere else");
        }
        Ok(())
    }

    fn run_fault(&mut self, error: RunError) -> Result<(), SalvageError> {
        let damage = Damage::of_run("the runs", error)?;
        if !self.faults.iter().any(|fault| fault.location == damage.location) {
            self.faults.push(damage);
        }
        Ok(())
    }

    /// What a start would do: replay the log, then require the runs that the state refers to.
    fn start(&self, folder: &Folder) -> Result<RecoveryReport, OpenError> {
        let recovered = folder.start(&mut |_| {})?;
        match self.missing.first() {
            None => Ok(recovered),
            Some(run) => {
                let why = "the log has data in it that is nowhere else".to_owned();
                Err(OpenError::Missing { file: Folder::run_name(*run), why })
            }
        }
    }
}

/// The bytes of a segment header that its checksum covers, itself included: all but its padding.
fn header_len(block: &[u8]) -> usize {
    let pieces = explain::segment_header(block);
    pieces
        .iter()
        .filter(|piece| piece.name != "padding")
        .map(|piece| piece.size)
        .sum::<usize>()
        .min(BLOCK as usize)
}
