//! Checks a whole run: every page, every batch.

use crate::buffer::Pool;
use crate::medium::ReadMode;
use crate::names::run_name;
use crate::runs::error::RunError;
use crate::runs::files::RunFiles;
use crate::runs::part::{PartView, extent};
use crate::runs::scan::PartScan;
use ottla_layout::run::RunRow;
use std::ops::Range;
use std::sync::Arc;

/// The outcome of checking a part of a run.
#[derive(Debug)]
pub struct PartReport {
    /// The part, as in the run's own table.
    pub row: RunRow,
    /// Batches that were read without a fault.
    pub batches: u64,
    /// The damage, by place. Between the batches around a damaged place, offsets may be lost.
    pub faults: Vec<RunError>,
    /// The part has only zeros: it was freed, which is correct if the log does not refer to it any more.
    pub freed: bool,
}

/// Reads the table of parts of a run.
pub(crate) fn table(files: &RunFiles, number: u64) -> Result<Vec<RunRow>, RunError> {
    let run = files.open(number)?;
    let mut bytes = vec![0; run.footer.table_len()];
    run.fill(&mut bytes, run.footer.table)?;
    run.id.check_table(&run.footer, &bytes).map_err(|fault| run.damaged(run.footer.table, fault))
}

/// Reads all of a part.
pub(crate) fn check_part(files: &Arc<RunFiles>, pool: &Arc<Pool>, row: RunRow) -> PartReport {
    let mut report = PartReport { row, batches: 0, faults: Vec::new(), freed: false };
    match PartView::open(files, pool, &row.part, ReadMode::Blocking) {
        Ok(view) => report.read(PartScan::new(view)),
        Err(error) => report.faults.push(error),
    }
    report.freed = !report.faults.is_empty() && is_zero(files, &row).unwrap_or(false);
    report
}

impl PartReport {
    fn read(&mut self, mut scan: PartScan) {
        let mut bytes = 0;
        loop {
            match scan.next_batch() {
                Ok(Some(batch)) => {
                    self.batches += 1;
                    bytes += batch.bytes.len() as u64;
                }
                Ok(None) => break,
                Err(error) => self.faults.push(error),
            }
        }
        let part = &self.row.part;
        if self.faults.is_empty() && bytes != part.bytes {
            let what = format!("the directory tells of {bytes} bytes, the part has {}", part.bytes);
            self.faults.push(RunError::Damaged { file: run_name(part.run), offset: part.directory, what });
        }
    }
}

fn is_zero(files: &RunFiles, row: &RunRow) -> Result<bool, RunError> {
    let run = files.open(row.part.run)?;
    let mut block = vec![0; 64 << 10];
    let Range { mut start, end } = extent(&row.part);
    while start < end.min(run.footer.length) {
        let piece = (end - start).min(block.len() as u64) as usize;
        run.fill(&mut block[..piece], start)?;
        if block[..piece].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        start += piece as u64;
    }
    Ok(true)
}
