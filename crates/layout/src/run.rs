//! Runs: immutable files of sorted batches. All batches of a part are adjacent, as clients see them.
//!
//! ```text
//!   header block │ part: batches, directory │ part │ … │ table of parts, padding │ footer block
//! ```
//! The log's own records say where each part lies. The table serves a reader that has a single file.
//!
//! The life of a run: written by one job ─▶ published ─▶ referred to by records ─▶ parts are freed one by one ─▶
//! deleted when no record refers to it. Its bytes never change.

mod batch;
mod cut;
mod directory;
mod file;
#[cfg(test)]
mod tests;

pub use batch::{BATCH_HEAD, BatchFault, BatchHead, Batches};
pub use cut::{CutBatch, PartCutter};
pub use directory::{
    DirectoryPage, DirectoryWriter, PAGE, PAGE_ENTRIES, PageFault, SMALL_DIRECTORY, SMALL_PART, STRETCH,
    Stretch, walk_stretch,
};
pub use file::{RUN_FORMAT, RunFault, RunFooter, RunId, RunRow};
