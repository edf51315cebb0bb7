//! Checks a whole run: every page, every batch.

use crate::buffer::Pool;
use crate::runs::error::RunError;
use crate::runs::files::RunFiles;
use crate::runs::part::PartView;
use crate::runs::scan::PartScan;
use ottla_layout::run::RunRow;
use std::sync::Arc;

/// A part of a run and what was found of it.
#[derive(Debug)]
pub struct PartReport {
    /// The part, as the run's own table tells of it.
    pub row: RunRow,
    /// Batches that were read without a fault.
    pub batches: u64,
    /// The first fault.
    pub fault: Option<RunError>,
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
    let mut report = PartReport { row, batches: 0, fault: None };
    let mut bytes = 0;
    let mut read = || -> Result<(), RunError> {
        let mut scan = PartScan::new(PartView::open(files, pool, &row.part)?);
        while let Some(batch) = scan.next_batch()? {
            report.batches += 1;
            bytes += batch.bytes.len() as u64;
        }
        Ok(())
    };
    report.fault = read().err();
    if report.fault.is_none() && bytes != row.part.bytes {
        let what = format!("the directory tells of {bytes} bytes, the part has {}", row.part.bytes);
        let file = crate::runs::files::run_name(row.part.run);
        report.fault = Some(RunError::Damaged { file, offset: row.part.directory, what });
    }
    report
}
