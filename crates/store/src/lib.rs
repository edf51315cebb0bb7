//! The shared log on a medium: appends, group commit, recovery, snapshots, runs, reads. It executes the plans of ottla-layout.
//! It must not know what a record means, who waits for it, or what Kafka is.
//!
//! ```text
//!   host thread ──append──▶ open group ──kick──▶ writer thread ── write, one sync ──▶ on_durable(position)
//!                                                     │ done: takes what arrived meanwhile
//!   filler thread: next segment, zeros ahead of the writer, freed segments become spares
//!   ahead thread: what readers that go forward want next; it yields to the writer's syncs
//! ```
//! A failed write or sync ends the log: nothing is retried, later appends are refused, and the host ends the process.
#![forbid(unsafe_code)]

mod backoff;
mod buffer;
#[cfg(unix)]
mod disk;
mod error;
mod files;
mod filler;
pub mod inspect;
mod log;
mod log_core;
mod medium;
mod memory;
mod options;
mod read_ahead;
mod reader;
mod recent;
mod recovery;
mod runs;
mod scan;
mod snapshot;
mod stats;
pub mod testing;
mod writer;

pub use backoff::IoBackoff;
#[cfg(unix)]
pub use disk::DiskMedium;
pub use error::{AppendError, LogFailure, OpenError, SnapshotFailure};
pub use log::{EntryRange, Log, SpaceLevel};
pub use medium::{Medium, MediumFile, ReadMode};
pub use memory::MemoryMedium;
pub use options::{Callbacks, Durability, Options};
pub use ottla_layout::run::{BatchHead, CutBatch, PartCutter};
pub use reader::LogReader;
pub use recent::MemoryReservation;
pub use recovery::{OpenLog, RecoveryReport, ReplayItem, TornGroup};
pub use runs::{PartBatch, PartEnd, PartReport, PartScan, PartSlice, ReadRange, RunError, RunWriter, Runs};
pub use snapshot::{SnapshotWriter, Snapshotter};
pub use stats::{DURATIONS, Histogram, HistogramView, LogStats};
