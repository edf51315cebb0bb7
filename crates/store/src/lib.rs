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

mod ahead;
mod buffer;
mod courtesy;
#[cfg(unix)]
mod disk;
mod error;
mod files;
mod filler;
pub mod inspect;
mod log;
mod medium;
mod memory;
mod open;
mod options;
mod reader;
mod ring;
mod runs;
mod scan;
mod shared;
mod snapshot;
mod stats;
pub mod testing;
mod writer;

pub use courtesy::Courtesy;
#[cfg(unix)]
pub use disk::DiskMedium;
pub use error::{AppendError, LogFailure, OpenError, SnapshotFailure};
pub use log::{Appended, Log, Room};
pub use medium::{Medium, MediumFile};
pub use memory::MemoryMedium;
pub use open::{Cut, Opened, Recovered, Replayed};
pub use options::{Durability, Hooks, Options};
pub use ottla_layout::run::{BatchHead, CutBatch, PartCutter};
pub use reader::{Haste, LogReader};
pub use ring::Loan;
pub use runs::{PartBatch, PartEnd, PartReport, PartScan, RunError, RunWriter, Runs, Slice, Wanted};
pub use snapshot::{SnapshotWriter, Snapshotter};
pub use stats::{DURATIONS, Histogram, HistogramView, LogStats};
