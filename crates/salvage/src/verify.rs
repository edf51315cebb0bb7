//! `ottla log verify`: every checksum of a data folder, and what a start would make of it.

use std::collections::BTreeSet;

use bytes::Bytes;
use clap::Args;
use ottla_layout::explain;
use ottla_layout::record::{Decoded, decode};
use ottla_layout::run::RunRow;
use ottla_layout::{BLOCK, Group};
use ottla_store::inspect::{Folder, Found, SnapshotFound};
use ottla_store::{OpenError, Recovered, RunError};
use ottla_types::record::{BatchAppended, BatchPlace, BatchesRestored, LogRecord, StoredBatch};
use ottla_wire::batch::{Batch, BatchHeader, HEADER_SIZE};
use serde_json::json;

use super::dump::describe;
use super::left::{state, unless_medium};
use super::line::counted;
use super::names::Names;
use super::{Target, place};
use crate::cli::failure::Failure;
use crate::cli::out::Out;

/// Check every checksum in a data folder, and say what a start would do.
///
/// Each fault is a line with its file and offset. The exit status is 0 if everything is whole, 1 if something is damaged, 2 if
/// the folder cannot be read at all. Nothing is changed.
#[derive(Args)]
pub(super) struct Verify {
    #[command(flatten)]
    target: Target,
    /// One JSON document instead of lines.
    #[arg(long)]
    json: bool,
}

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) file: String,
    pub(super) offset: u64,
    pub(super) reason: String,
}

/// What was looked at.
#[derive(Debug, Default)]
struct Checked {
    snapshots: usize,
    rows: usize,
    segments: usize,
    groups: usize,
    entries: usize,
    batches: usize,
    bytes: u64,
    runs: usize,
    parts: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    checked: Checked,
    pub(super) faults: Vec<Fault>,
    /// What is no fault and yet worth saying.
    notes: Vec<(String, u64, String)>,
    names: Names,
    /// Runs that are referred to and not there.
    missing: BTreeSet<u64>,
}

impl Verify {
    pub(super) fn run(self, out: &mut Out) -> Result<(), Failure> {
        let folder = self.target.open()?;
        let mut findings = check(&folder)?;
        let start = findings.start(&folder);
        if let (Err(error), true) = (&start, findings.faults.is_empty()) {
            findings.fault("the folder", 0, &error.to_string());
        }
        if self.json {
            findings.print_json(&start, out)?;
        } else {
            findings.print(&start, out)?;
        }
        match findings.faults.len() {
            0 => Ok(()),
            count => Err(Failure::damaged(format!("the folder is damaged in {}", counted(count, "place")))
                .remedy("Restore what is damaged from a copy; `ottla log salvage` saves what is left.")),
        }
    }
}

/// Checks everything in a folder.
pub(super) fn check(folder: &Folder) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    if let Some(error) = folder.identity_fault() {
        findings.fault("identity", 0, &error.to_string());
    }
    for position in folder.snapshots() {
        findings.snapshot(folder, position)?;
    }
    folder.walk(&mut |found| findings.found(folder, found))?;
    findings.references(folder)?;
    findings.runs(folder)?;
    for name in folder.temporary() {
        findings.notes.push((name.clone(), 0, "half written, a start removes it".to_owned()));
    }
    Ok(findings)
}

impl Findings {
    fn fault(&mut self, file: &str, offset: u64, reason: &str) {
        let (file, reason) = (file.to_owned(), reason.to_owned());
        self.faults.push(Fault { file, offset, reason });
    }

    fn snapshot(&mut self, folder: &Folder, position: u64) -> Result<(), Failure> {
        let name = Folder::snapshot_name(position);
        self.checked.snapshots += 1;
        folder.snapshot(position, &mut |found| {
            match found {
                SnapshotFound::Header { .. } | SnapshotFound::End { .. } => {}
                SnapshotFound::Chunk { entries, .. } => {
                    for (at, entry) in entries {
                        self.checked.rows += 1;
                        match decode(entry) {
                            Ok(decoded) => self.names.learn(&decoded.record),
                            Err(error) => self.fault(&name, at, &error.to_string()),
                        }
                    }
                }
                SnapshotFound::Damage { offset, reason } => self.fault(&name, offset, &reason),
            }
            Ok(())
        })
    }

    fn found(&mut self, folder: &Folder, found: Found<'_>) -> Result<(), Failure> {
        let geometry = folder.identity().geometry;
        let file = |position: u64| Folder::segment_name(geometry.segment_of(position));
        match found {
            Found::Segment { number, block, header, .. } => {
                self.checked.segments += 1;
                let name = Folder::segment_name(number);
                match header {
                    Err(reason) => self.fault(&name, 0, &reason),
                    Ok(_) => self.zeros(&name, block, header_len(block), 0),
                }
            }
            Found::Group { bytes, group } => {
                let name = file(group.header.position);
                self.group(&name, geometry.offset_of(group.header.position), bytes, &group);
            }
            Found::Damage(damage) => {
                self.fault(&file(damage.at), geometry.offset_of(damage.at), &describe(&damage, folder));
            }
            Found::End(end) => {
                let (at, note) = match end.torn {
                    Some((at, reason)) => {
                        (at, format!("the log ends at a torn group that was never acknowledged: {reason}"))
                    }
                    None => (end.position, "the log ends".to_owned()),
                };
                self.notes.push((file(at), geometry.offset_of(at), note));
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
                Ok(Decoded { record: LogRecord::BatchAppended(batch), payload: Some(payload) }) => {
                    self.checked.batches += 1;
                    let bytes = Bytes::copy_from_slice(&entry.bytes[payload..]);
                    self.checked.bytes += bytes.len() as u64;
                    if let Err(reason) = check_batch(&batch, &bytes) {
                        self.fault(name, at + 4 + payload as u64, &reason);
                    }
                }
                Ok(decoded) => self.names.learn(&decoded.record),
                Err(error) => self.fault(name, at, &error.to_string()),
            }
        }
        self.zeros(name, bytes, group.header.len() as usize, offset);
    }

    /// What pads a block is zero; no checksum covers it.
    fn zeros(&mut self, name: &str, bytes: &[u8], from: usize, base: u64) {
        let padding = bytes.get(from..).unwrap_or_default();
        if let Some(at) = padding.iter().position(|byte| *byte != 0) {
            let reason = "the padding is not zero here, which harms nothing";
            self.fault(name, base + (from + at) as u64, reason);
        }
    }

    /// Checks that what the newest whole snapshot refers to is where it says.
    fn references(&mut self, folder: &Folder) -> Result<(), Failure> {
        let whole = |position: &u64| {
            let name = Folder::snapshot_name(*position);
            self.faults.iter().all(|fault| fault.file != name)
        };
        let Some(position) = folder.snapshots().into_iter().rev().find(whole) else { return Ok(()) };
        folder.snapshot(position, &mut |found| {
            let SnapshotFound::Chunk { entries, .. } = found else { return Ok(()) };
            for (_, entry) in entries {
                if let Ok(Decoded { record: LogRecord::BatchesRestored(row), .. }) = decode(entry) {
                    self.row(folder, &row)?;
                }
            }
            Ok(())
        })
    }

    fn row(&mut self, folder: &Folder, row: &BatchesRestored) -> Result<(), Failure> {
        for batch in &row.batches {
            let BatchPlace::Log { position, size } = batch.place else { continue };
            let head = folder.read(position.0, HEADER_SIZE.min(size as usize))?;
            if let Err(reason) = check_reference(batch, size, &head) {
                let geometry = folder.identity().geometry;
                let file = Folder::segment_name(geometry.segment_of(position.0));
                let offsets = format!("{} to {}", batch.base_offset.0, batch.last_offset.0);
                let partition = self.names.partition(row.partition);
                let reason = format!("offsets {offsets} of {partition} should lie here: {reason}");
                self.fault(&file, geometry.offset_of(position.0), &reason);
            }
        }
        Ok(())
    }

    /// Checks the runs, and in them the parts that are still referred to: of others the room may have been given back.
    fn runs(&mut self, folder: &Folder) -> Result<(), Failure> {
        let shard = state(folder)?;
        let runs = folder.runs();
        for run in runs.list() {
            self.checked.runs += 1;
            if let Err(error) = runs.parts(run) {
                self.run_fault(error)?;
            }
            if shard.partitions().run(run).is_none() {
                self.notes.push((
                    Folder::run_name(run),
                    0,
                    "nothing refers to it, a start removes it".to_owned(),
                ));
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
            self.fault(
                &Folder::run_name(run),
                0,
                "the file is missing, and it has data that is nowhere else",
            );
        }
        Ok(())
    }

    fn run_fault(&mut self, error: RunError) -> Result<(), Failure> {
        match unless_medium(error)? {
            RunError::Damaged { file, offset, what } => {
                let known = |fault: &Fault| (fault.file.as_str(), fault.offset) == (file.as_str(), offset);
                if !self.faults.iter().any(known) {
                    self.fault(&file, offset, &what);
                }
            }
            error => self.fault("the runs", 0, &error.to_string()),
        }
        Ok(())
    }

    /// What a start would do: replay, and then look for the runs that the state refers to.
    fn start(&self, folder: &Folder) -> Result<Recovered, OpenError> {
        let recovered = folder.start(&mut |_| {})?;
        match self.missing.first() {
            None => Ok(recovered),
            Some(run) => {
                let why = "the log has data in it that is nowhere else".to_owned();
                Err(OpenError::Missing { file: Folder::run_name(*run), why })
            }
        }
    }

    fn print(&self, start: &Result<Recovered, OpenError>, out: &mut Out) -> Result<(), Failure> {
        for Fault { file, offset, reason } in &self.faults {
            out.line(format!("{}  damaged: {reason}", place(file, *offset)))?;
        }
        for (file, offset, note) in &self.notes {
            out.line(format!("{}  {note}", place(file, *offset)))?;
        }
        let Checked { snapshots, rows, segments, groups, entries, batches, bytes, runs, parts } =
            &self.checked;
        out.line(format!(
            "checked {} with {}, {} with {}, {}, {} with {}, {} of {bytes} bytes in the log",
            counted(*snapshots, "snapshot"),
            counted(*rows, "row"),
            counted(*segments, "segment"),
            counted(*groups, "group"),
            if *entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") },
            counted(*runs, "run"),
            counted(*parts, "part"),
            if *batches == 1 { "1 batch".to_owned() } else { format!("{batches} batches") },
        ))?;
        Ok(out.line(describe_start(start))?)
    }

    fn print_json(&self, start: &Result<Recovered, OpenError>, out: &mut Out) -> Result<(), Failure> {
        let fault =
            |fault: &Fault| json!({ "file": fault.file, "offset": fault.offset, "reason": fault.reason });
        let note = |(file, offset, note): &(String, u64, String)| json!({ "file": file, "offset": offset, "note": note });
        let Checked { snapshots, rows, segments, groups, entries, batches, bytes, runs, parts } =
            &self.checked;
        Ok(out.json(&json!({
            "faults": self.faults.iter().map(fault).collect::<Vec<_>>(),
            "notes": self.notes.iter().map(note).collect::<Vec<_>>(),
            "checked": {
                "snapshots": snapshots, "rows": rows, "segments": segments, "groups": groups,
                "entries": entries, "batches": batches, "bytes": bytes, "runs": runs, "parts": parts,
            },
            "starts": start.is_ok(),
            "start": describe_start(start),
        }))?)
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

/// What a start would do.
fn describe_start(start: &Result<Recovered, OpenError>) -> String {
    let recovered = match start {
        Err(error) => return format!("a start would refuse: {error}"),
        Ok(recovered) => recovered,
    };
    let mut text = "a start would serve: it reads ".to_owned();
    text += &match recovered.snapshot {
        Some(position) => format!("{} and ", Folder::snapshot_name(position.0)),
        None => String::new(),
    };
    let records = usize::try_from(recovered.records).unwrap_or(usize::MAX);
    text += &format!("{} of the log", counted(records, "record"));
    for (file, reason) in &recovered.skipped {
        text += &format!(", passes over {file} ({reason})");
    }
    if let Some(cut) = &recovered.cut {
        text += &format!(", and cuts off what is at {}", place(&cut.file, cut.offset));
    }
    text
}

/// Compares a batch with its own checksum and with what its record says of it.
pub(super) fn check_batch(record: &BatchAppended, bytes: &Bytes) -> Result<(), String> {
    let batch = Batch::only(bytes).map_err(|error| format!("the batch: {error}"))?;
    batch.check_crc().map_err(|error| format!("the batch: {error}"))?;
    let (header, summary) = (batch.header(), &record.summary);
    let pairs = [
        ("base offset", header.base_offset, record.base_offset.0),
        ("leader epoch", header.partition_leader_epoch.into(), record.leader_epoch.into()),
        ("last offset delta", header.last_offset_delta.into(), summary.last_offset_delta.into()),
        ("number of records", header.record_count.into(), summary.record_count.into()),
        ("largest timestamp", header.max_timestamp, summary.max_timestamp.0),
        ("producer id", header.producer_id, summary.producer_id.0),
        ("producer epoch", header.producer_epoch.into(), summary.producer_epoch.0.into()),
        ("base sequence", header.base_sequence.into(), summary.base_sequence.into()),
    ];
    match pairs.into_iter().find(|(_, batch, record)| batch != record) {
        None => Ok(()),
        Some((what, batch, record)) => {
            Err(format!("the {what} of the batch is {batch}, that of its record {record}"))
        }
    }
}

/// Compares the start of a batch with what refers to it.
fn check_reference(stored: &StoredBatch, size: u32, head: &[u8]) -> Result<(), String> {
    if head.is_empty() {
        return Err("the file is missing or ends before".to_owned());
    }
    let header = BatchHeader::parse(head).map_err(|error| error.to_string())?;
    let found = (header.base_offset, header.last_offset(), header.size());
    let wanted = (stored.base_offset.0, stored.last_offset.0, size as usize);
    if found == wanted { Ok(()) } else { Err("another batch lies here".to_owned()) }
}
