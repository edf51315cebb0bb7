//! The data folder of a stopped broker: reads it as values, verifies it, and salvages a damaged one into a new folder.
//! It must not know how any of this is printed, what a flag is, or how a broker serves: `ottla log` renders what it
//! returns.
//!
//! [`open`] locks a folder as a broker does and changes nothing in it. [`visit`] and [`runs`] return its contents,
//! [`verify`] checks every checksum and reports what a start of the broker would do. [`Remaining`] replays what can be
//! read of a damaged log, and [`write_folder`] writes that into a new folder.
#![forbid(unsafe_code)]

mod batch;
mod contents;
mod error;
mod location;
mod lost_offsets;
mod new_folder;
mod remaining;
mod runs;
mod topic_names;
mod verify;

pub use contents::{Entry, Header, HeaderKind, Item, LogEnd, visit};
pub use error::SalvageError;
pub use location::{Damage, Location};
pub use lost_offsets::OffsetRange;
pub use new_folder::write_folder;
pub use ottla_store::inspect::Folder;
pub use ottla_store::{OpenError, PartBatch, RecoveryReport, TornGroup};
pub use remaining::{OrphanTransaction, Remaining};
pub use runs::{Part, PartItem, Run, batches, runs};
pub use topic_names::TopicNames;
pub use verify::{CheckedCounts, Note, Report, verify};

use ottla_store::DiskMedium;
use std::path::Path;
use std::sync::Arc;

/// Locks a data folder and lists it. Nothing in it is changed.
///
/// # Errors
/// The folder cannot be read, a running broker has locked it, or neither its identity nor a segment header can be read.
pub fn open(folder: &Path) -> Result<Folder, OpenError> {
    Folder::open(Arc::new(DiskMedium::open_to_read(folder)?))
}
