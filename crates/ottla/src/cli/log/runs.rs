//! The runs of a folder, part by part and batch by batch.

use std::collections::BTreeSet;

use ottla_layout::run::RunRow;
use ottla_store::RunError;
use ottla_store::inspect::Folder;
use ottla_types::{Offset, TopicPartition};
use ottla_wire::batch::BatchHeader;
use serde_json::{Value, json};

use super::dump::Printer;
use super::left::{state, unless_medium};
use super::line::{counted, records};
use super::place;
use crate::cli::failure::Failure;

/// Parts that are still referred to: the run, the partition, the first offset.
type Live = BTreeSet<(u64, TopicPartition, Offset)>;

impl Printer<'_> {
    /// Shows every run. Of a part that nothing refers to the room may have been given back, so its batches are not looked at.
    pub(super) fn runs(&mut self, folder: &Folder) -> Result<(), Failure> {
        let runs = folder.runs();
        let numbers = runs.list();
        if numbers.is_empty() {
            return Ok(());
        }
        let shard = state(folder)?;
        let partitions = shard.partitions().iter();
        let parts = partitions.flat_map(|(at, partition)| {
            partition.parts().iter().map(move |part| (part.run, at, part.base_offset))
        });
        let live: Live = parts.collect();
        for number in numbers {
            let file = Folder::run_name(number);
            let rows = match runs.parts(number) {
                Ok(rows) => rows,
                Err(error) => {
                    self.run_damage(&file, error)?;
                    continue;
                }
            };
            if !self.filter.is_set() {
                let object = json!({ "what": "run", "file": file, "offset": 0, "parts": rows.len() });
                self.show(&file, 0, &format!("run with {}", counted(rows.len(), "part")), object)?;
            }
            for row in rows {
                self.run_part(folder, &file, &row, &live)?;
            }
        }
        Ok(())
    }

    fn show(&mut self, file: &str, offset: u64, text: &str, object: Value) -> Result<(), Failure> {
        if self.show.json {
            return Ok(self.out.json_line(&object)?);
        }
        Ok(self.out.line(format!("{}  {text}", place(file, offset)))?)
    }

    fn run_damage(&mut self, file: &str, error: RunError) -> Result<(), Failure> {
        match unless_medium(error)? {
            RunError::Damaged { file, offset, what } => self.damage(&file, offset, &what),
            other => self.damage(file, 0, &other.to_string()),
        }
    }

    fn run_part(&mut self, folder: &Folder, file: &str, row: &RunRow, live: &Live) -> Result<(), Failure> {
        let RunRow { partition: at, part } = row;
        if !self.filter.fits_part(*at, part.last_offset, &self.names) {
            return Ok(());
        }
        let is_live = live.contains(&(part.run, *at, part.base_offset));
        let text = format!(
            "part {} offsets {} to {}, {} bytes, directory at 0x{:08x}{}",
            self.names.partition(*at),
            part.base_offset.0,
            part.last_offset.0,
            part.bytes,
            part.directory,
            if is_live { "" } else { ", nothing refers to it" },
        );
        let object = json!({
            "what": "part", "file": file, "offset": part.data, "name": self.names.topic(at.topic),
            "partition": at.partition, "base_offset": part.base_offset.0, "last_offset": part.last_offset.0,
            "bytes": part.bytes, "directory": part.directory, "pages": part.pages, "live": is_live,
        });
        self.show(file, part.data, &text, object)?;
        if !is_live {
            return Ok(());
        }
        let runs = folder.runs();
        let mut scan = match runs.scan(part) {
            Ok(scan) => scan,
            Err(error) => return self.run_damage(file, error),
        };
        loop {
            match scan.next_batch() {
                Ok(None) => return Ok(()),
                Ok(Some(batch)) => {
                    if !self.filter.fits_part(*at, batch.last_offset, &self.names) {
                        continue;
                    }
                    let count = BatchHeader::parse(&batch.bytes).map_or(0, |header| header.record_count);
                    let (base, last, size) = (batch.base_offset.0, batch.last_offset.0, batch.bytes.len());
                    let records_in = counted(usize::try_from(count).unwrap_or(0), "record");
                    if self.show.json {
                        self.out.json_line(&json!({
                            "what": "batch", "file": file, "base_offset": base, "last_offset": last,
                            "records": count, "bytes": size,
                        }))?;
                        continue;
                    }
                    self.out.line(format!(
                        "  offsets {base} to {last}, {records_in}, {}",
                        counted(size, "byte")
                    ))?;
                    if self.show.records {
                        for record in records(&batch.bytes) {
                            self.out.line(format!("    {record}"))?;
                        }
                    }
                }
                Err(error) => self.run_damage(file, error)?,
            }
        }
    }
}
