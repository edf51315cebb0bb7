//! `ottla log dump`: the runs, part by part and batch by batch.

use super::line::{counted, records};
use super::location;
use super::printer::Printer;
use crate::cli::failure::Failure;
use ottla_salvage::{Folder, Part, PartBatch, PartItem, batches, runs};
use ottla_wire::batch::BatchHeader;
use serde_json::{Value, json};

/// Prints every run. The batches of a part that the log does not refer to are left out: its space may have been freed.
pub(super) fn print_runs(printer: &mut Printer<'_>, folder: &Folder) -> Result<(), Failure> {
    for run in runs(folder)? {
        let run = run?;
        let parts = match run.parts {
            Ok(parts) => parts,
            Err(damage) => {
                printer.damage(&damage)?;
                continue;
            }
        };
        let file = &run.file;
        if !printer.filter.is_set() {
            let object = json!({ "what": "run", "file": file, "offset": 0, "parts": parts.len() });
            printer.show(file, 0, &format!("run with {}", counted(parts.len(), "part")), object)?;
        }
        for part in &parts {
            printer.run_part(folder, file, part)?;
        }
    }
    Ok(())
}

impl Printer<'_> {
    fn show(&mut self, file: &str, offset: u64, text: &str, object: Value) -> Result<(), Failure> {
        if self.show.json {
            return Ok(self.out.json_line(&object)?);
        }
        Ok(self.out.line(format!("{}  {text}", location(file, offset)))?)
    }

    fn run_part(&mut self, folder: &Folder, file: &str, run_part: &Part) -> Result<(), Failure> {
        let Part { partition: at, part, is_referenced } = run_part;
        if !self.filter.fits_part(*at, part.last_offset, &self.names) {
            return Ok(());
        }
        let text = format!(
            "part {} offsets {} to {}, {} bytes, directory at 0x{:08x}{}",
            self.names.partition(*at),
            part.base_offset.0,
            part.last_offset.0,
            part.bytes,
            part.directory,
            if *is_referenced { "" } else { ", nothing refers to it" },
        );
        let object = json!({
            "what": "part", "file": file, "offset": part.data, "name": self.names.topic(at.topic),
            "partition": at.partition, "base_offset": part.base_offset.0, "last_offset": part.last_offset.0,
            "bytes": part.bytes, "directory": part.directory, "pages": part.pages, "live": is_referenced,
        });
        self.show(file, part.data, &text, object)?;
        if !*is_referenced {
            return Ok(());
        }
        for item in batches(folder, run_part) {
            match item? {
                PartItem::Batch(batch) => {
                    if self.filter.fits_part(*at, batch.last_offset, &self.names) {
                        self.run_batch(file, &batch)?;
                    }
                }
                PartItem::Damage(damage) => self.damage(&damage)?,
            }
        }
        Ok(())
    }

    fn run_batch(&mut self, file: &str, batch: &PartBatch) -> Result<(), Failure> {
        let count = BatchHeader::parse(&batch.bytes).map_or(0, |header| header.record_count);
        let (base, last, size) = (batch.base_offset.0, batch.last_offset.0, batch.bytes.len());
        if self.show.json {
            return Ok(self.out.json_line(&json!({
                "what": "batch", "file": file, "base_offset": base, "last_offset": last,
                "records": count, "bytes": size,
            }))?);
        }
        let (count, size) = (counted(usize::try_from(count).unwrap_or(0), "record"), counted(size, "byte"));
        self.out.line(format!("  offsets {base} to {last}, {count}, {size}"))?;
        if self.show.records {
            for record in records(&batch.bytes) {
                self.out.line(format!("    {record}"))?;
            }
        }
        Ok(())
    }
}
