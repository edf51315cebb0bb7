//! Runs: immutable files of sorted batches. All batches of a part lie together, as clients see them.
//!
//! ```text
//!   header block │ part: batches, directory │ part │ … │ table of parts, padding │ footer block
//! ```
//! The table is for whoever holds a single file: the log's own records say where each part lies.

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
