//! `ottla log verify`: every checksum of a data folder, and what a start of the broker would do.

use super::line::counted;
use super::{FolderArgument, damage_text, location};
use crate::cli::failure::Failure;
use crate::cli::out::Out;
use clap::Args;
use ottla_salvage::{CheckedCounts, Folder, OpenError, RecoveryReport, Report, verify};
use serde_json::json;

/// Check every checksum of a data folder, and what a start of the broker would do.
///
/// Each fault is a line with its file and offset. The exit status is 0 if nothing is damaged, 1 if something is, 2 if
/// the folder cannot be read at all. Nothing is changed.
#[derive(Args)]
pub(super) struct Verify {
    #[command(flatten)]
    folder: FolderArgument,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(super) fn run(self, out: &mut Out) -> Result<(), Failure> {
        let report = verify(&self.folder.open()?)?;
        if self.json {
            print_json(&report, out)?;
        } else {
            print(&report, out)?;
        }
        match report.faults.len() {
            0 => Ok(()),
            count => Err(Failure::damaged(format!("the folder is damaged in {}", counted(count, "place")))
                .remedy("Restore what is damaged from a copy; `ottla log salvage` copies what can be read.")),
        }
    }
}

fn print(report: &Report, out: &mut Out) -> Result<(), Failure> {
    for fault in &report.faults {
        out.line(format!("{}  damaged: {}", fault.location, damage_text(fault)))?;
    }
    for note in &report.notes {
        out.line(format!("{}  {}", note.location, note.text))?;
    }
    let CheckedCounts { snapshots, rows, segments, groups, entries, batches, bytes, runs, parts } =
        &report.checked;
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
    Ok(out.line(describe_start(&report.start))?)
}

fn print_json(report: &Report, out: &mut Out) -> Result<(), Failure> {
    let faults = report.faults.iter().map(|fault| {
        let (file, offset) = (&fault.location.file, fault.location.offset);
        json!({ "file": file, "offset": offset, "reason": damage_text(fault) })
    });
    let notes = report.notes.iter().map(|note| {
        let (file, offset) = (&note.location.file, note.location.offset);
        json!({ "file": file, "offset": offset, "note": note.text })
    });
    let CheckedCounts { snapshots, rows, segments, groups, entries, batches, bytes, runs, parts } =
        &report.checked;
    Ok(out.json(&json!({
        "faults": faults.collect::<Vec<_>>(),
        "notes": notes.collect::<Vec<_>>(),
        "checked": {
            "snapshots": snapshots, "rows": rows, "segments": segments, "groups": groups,
            "entries": entries, "batches": batches, "bytes": bytes, "runs": runs, "parts": parts,
        },
        "starts": report.start.is_ok(),
        "start": describe_start(&report.start),
    }))?)
}

/// What a start would do.
fn describe_start(start: &Result<RecoveryReport, OpenError>) -> String {
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
        text += &format!(", skips {file} ({reason})");
    }
    if let Some(cut) = &recovered.torn {
        text += &format!(", and cuts off the log at {}", location(&cut.file, cut.offset));
    }
    text
}
