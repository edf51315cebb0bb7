//! Runs: immutable files of rewritten batches, written by one job at a time, read by any thread, and removed when the
//! record that releases them is durable.
//!
//! ```text
//!   writer(number) ──▶ finish: durable, published ──▶ a record refers to it ──▶ read, scan
//!                                  a record releases it ──▶ remove: waits for that record, then the run is deleted
//! ```

mod error;
mod files;
mod open_run;
mod pages;
mod part;
mod read;
mod salvage;
mod scan;
mod verify;
mod writer;

pub use error::RunError;
pub(crate) use files::RunFiles;
pub use read::{PartBatch, PartSlice, ReadRange};
pub(crate) use salvage::salvage_part;
pub use scan::PartScan;
pub use verify::PartReport;
pub use writer::{PartEnd, RunWriter};

use crate::buffer::Pool;
use crate::error::OpenError;
use crate::free::{FreeQueue, FreeTarget};
use crate::medium::ReadMode;
use crate::names::run_name;
use ottla_layout::run::RunRow;
use ottla_types::record::RunPart;
use ottla_types::{Millis, Offset};
use part::PartView;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Runs whose header and footer are checked when the log is opened. Those of the others are checked by the first read.
const CHECKED: usize = 128;

/// The runs of a log. Clones share everything.
#[derive(Clone)]
pub struct Runs {
    files: Arc<RunFiles>,
    pool: Arc<Pool>,
    /// None if the runs can only be read.
    queue: Option<Arc<dyn FreeQueue>>,
}

impl std::fmt::Debug for Runs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runs").field("numbers", &self.list()).finish_non_exhaustive()
    }
}

impl Runs {
    /// Without a queue the runs can only be read.
    pub(crate) fn new(files: Arc<RunFiles>, pool: Arc<Pool>, queue: Option<Arc<dyn FreeQueue>>) -> Runs {
        Runs { files, pool, queue }
    }

    fn free_later(&self, targets: Vec<FreeTarget>) {
        if let Some(queue) = &self.queue {
            queue.free_later(targets);
        }
    }

    /// Numbers of the existing runs, in order.
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
    /// The heads of the batches are checked against the directory. The checksums of the batches are not: the client
    /// checks them.
    pub fn read(&self, part: &RunPart, wanted: ReadRange) -> Result<PartSlice, RunError> {
        self.read_with(part, wanted, ReadMode::Blocking)
    }

    /// As [`Runs::read`], but a non-blocking read fails with `WouldBlock` if it would have to wait.
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

    /// Reads a part sequentially in large reads that bypass the page cache where that is possible, and checks
    /// everything.
    pub fn scan(&self, part: &RunPart) -> Result<PartScan, RunError> {
        Ok(PartScan::new(self.view(part)?))
    }

    /// The parts that run `number` was written with. Some may have been freed.
    pub fn parts(&self, number: u64) -> Result<Vec<RunRow>, RunError> {
        verify::table(&self.files, number)
    }

    /// Reads all of a part and reports every fault.
    pub fn verify(&self, row: RunRow) -> PartReport {
        verify::check_part(&self.files, &self.pool, row)
    }

    fn view(&self, part: &RunPart) -> Result<PartView, RunError> {
        PartView::open(&self.files, &self.pool, part, ReadMode::Blocking)
    }

    /// Removes runs that nothing refers to any more, once all that was appended so far is durable.
    pub fn remove(&self, numbers: &[u64]) {
        self.free_later(numbers.iter().map(|number| FreeTarget::Run(*number)).collect());
    }

    /// Frees the space of a range of run `number` that nothing refers to any more, once all that was appended so far is
    /// durable. On a medium that cannot do that, the space is freed with the run.
    pub fn punch(&self, number: u64, range: Range<u64>) {
        self.free_later(vec![FreeTarget::RunRange(number, range)]);
    }

    /// The bytes of a part in its run, directory included if it has its own pages. [`Runs::punch`] can free them when
    /// the part is released.
    pub fn extent(part: &RunPart) -> Range<u64> {
        part::extent(part)
    }

    /// Checks after a replay that all runs exist to which the state refers, and removes all others. Returns the numbers
    /// of the removed ones.
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
