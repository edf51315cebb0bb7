//! Runs: written by one job at a time, read by anybody, removed when the record that let them go is durable.
//!
//! ```text
//!   writer(number) ── .tmp ── sync, rename, sync names ──▶ a record refers to it ──▶ read, scan
//!                                  a record lets it go ──▶ remove: waits for that record, then the file goes
//! ```

mod access_counts;
mod error;
mod files;
mod pages;
mod part;
mod read;
pub(crate) mod salvage;
mod scan;
mod verify;
mod writer;

use crate::buffer::Pool;
use crate::error::OpenError;
use crate::log_core::{Freed, LogCore};
use crate::medium::ReadMode;
pub use error::RunError;
pub(crate) use files::{RunFiles, run_name};
use ottla_layout::run::RunRow;
use ottla_types::record::RunPart;
use ottla_types::{Millis, Offset};
use part::PartView;
pub(crate) use part::SHIFT;
pub use read::{PartBatch, PartSlice, ReadRange};
pub use scan::PartScan;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
pub use verify::PartReport;
pub use writer::{PartEnd, RunWriter};

/// Runs whose ends are looked at when the folder is opened; those of the others are when they are first read.
const CHECKED: usize = 128;

/// The runs of a log. Clones share everything.
#[derive(Clone)]
pub struct Runs {
    files: Arc<RunFiles>,
    pool: Arc<Pool>,
    /// The log, unless the folder is only looked at.
    log: Option<Arc<LogCore>>,
}

impl std::fmt::Debug for Runs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runs").field("numbers", &self.list()).finish_non_exhaustive()
    }
}

impl Runs {
    pub(crate) fn new(shared: Arc<LogCore>) -> Runs {
        Runs { files: Arc::clone(&shared.files.runs), pool: Arc::clone(&shared.pool), log: Some(shared) }
    }

    /// The runs of a folder that is only looked at: nothing is freed.
    pub(crate) fn of_folder(files: &Arc<RunFiles>) -> Runs {
        Runs { files: Arc::clone(files), pool: Pool::new(4 << 20), log: None }
    }

    fn free_later(&self, freed: Vec<Freed>) {
        if let Some(log) = &self.log {
            log.free_later(freed);
        }
    }

    /// Numbers of the runs that are there, in order.
    pub fn list(&self) -> Vec<u64> {
        self.files.list()
    }

    /// A number that no run had since the folder was opened.
    pub fn next_number(&self) -> u64 {
        self.files.next_number()
    }

    /// Begins to write run `number`, which must be new.
    pub fn writer(&self, number: u64) -> Result<RunWriter, RunError> {
        RunWriter::create(&self.files, &self.pool, number)
    }

    /// Reads whole batches of a part. Blocks while the medium reads.
    ///
    /// Heads of batches are checked against the directory; the checksums of the batches themselves are left to who gets them.
    pub fn read(&self, part: &RunPart, wanted: ReadRange) -> Result<PartSlice, RunError> {
        self.read_with(part, wanted, ReadMode::Blocking)
    }

    /// As [`Runs::read`], but fails with `WouldBlock` in mode.
    pub fn read_with(
        &self,
        part: &RunPart,
        wanted: ReadRange,
        mode: ReadMode,
    ) -> Result<PartSlice, RunError> {
        PartView::open(&self.files, &self.pool, part, mode)?.slice(&wanted)
    }

    /// The first batch from offset `from` on, ending before `to`, that has a timestamp of `time` or later.
    pub fn find_time(
        &self,
        part: &RunPart,
        time: Millis,
        from: Offset,
        to: Offset,
    ) -> Result<Option<PartBatch>, RunError> {
        self.view(part)?.find_time(time, from, to)
    }

    /// The first batch that has the largest timestamp of those that end before `to`; nothing if none has a timestamp.
    pub fn latest_time(&self, part: &RunPart, to: Offset) -> Result<Option<PartBatch>, RunError> {
        self.view(part)?.latest_time(to)
    }

    /// Goes through a part in large reads, around the page cache where that is possible, checking everything.
    pub fn scan(&self, part: &RunPart) -> Result<PartScan, RunError> {
        Ok(PartScan::new(self.view(part)?))
    }

    /// The parts that run `number` was written with. Some may have been freed.
    pub fn parts(&self, number: u64) -> Result<Vec<RunRow>, RunError> {
        verify::table(&self.files, number)
    }

    /// Reads all of a part and tells every fault.
    pub fn verify(&self, row: RunRow) -> PartReport {
        verify::check_part(&self.files, &self.pool, row)
    }

    fn view(&self, part: &RunPart) -> Result<PartView, RunError> {
        PartView::open(&self.files, &self.pool, part, ReadMode::Blocking)
    }

    /// Removes runs that nothing refers to any more, once all that was appended so far is durable.
    pub fn remove(&self, numbers: &[u64]) {
        self.free_later(numbers.iter().map(|number| Freed::Run(*number)).collect());
    }

    /// Gives back the room of a range of run `number` that nothing refers to any more, once all that was appended so far is
    /// durable. Where the medium cannot do that, the room comes back with the run's end.
    pub fn punch(&self, number: u64, range: Range<u64>) {
        self.free_later(vec![Freed::Range(number, range)]);
    }

    /// The bytes of a part in its run, directory included where it has pages: what [`Runs::punch`] can give back when the part is let go.
    pub fn extent(part: &RunPart) -> Range<u64> {
        part::extent(part)
    }

    /// To be called after a replay, with the numbers of all runs that the state refers to: checks that they are there, and
    /// removes all others. Returns those.
    pub fn settle(&self, referenced: &BTreeSet<u64>) -> Result<Vec<u64>, OpenError> {
        let found: BTreeSet<u64> = self.list().into_iter().collect();
        if let Some(missing) = referenced.difference(&found).next() {
            let why = "the log has data in it that is nowhere else".to_owned();
            return Err(OpenError::Missing { file: run_name(*missing), why });
        }
        for number in referenced.iter().rev().take(CHECKED) {
            self.files.open(*number).map_err(|error| match error {
                RunError::Damaged { file, offset, what } => OpenError::Damaged { file, offset, what },
                RunError::Medium { file, source, .. } => OpenError::Medium { file, doing: "opening", source },
                other => OpenError::Missing { file: run_name(*number), why: other.to_string() },
            })?;
        }
        let surplus: Vec<u64> = found.difference(referenced).copied().collect();
        for number in &surplus {
            let file = run_name(*number);
            self.files.retire(*number).map_err(OpenError::medium(&file, "removing"))?;
        }
        Ok(surplus)
    }
}
