//! The log of a shard: appends, group commit, recovery, snapshots, runs, reads. It executes the plans of ottla-layout.
//! It must not know what a record means, who waits for it, or what Kafka is.
//!
//! ```text
//!   host thread ──append──▶ open group ──kick──▶ writer thread ──seal, submit──▶ group store ──▶ on_durable(position)
//!                                                     ▲                              │ finished
//!                                                     └── takes what arrived ◀───────┘
//!   fill thread: the store's background work (next segment, zeros ahead of the writer), freeing of segments and runs
//!   ahead thread: reads ahead for sequential readers; it pauses while the writer's syncs are slow
//! ```
//! Two traits separate the log from its storage. The trait in [`group_store`] stores groups; the log, its writer and
//! its readers use only the trait. The trait in [`blob`] stores snapshots and runs. Both are implemented by files on a
//! [`Medium`] (a disk, memory, or memory with faults): `segments` and `blob/files.rs`. Recovery reads segment files
//! directly.
//!
//! A module uses only modules that come before it in the order that xtask/tidy.toml declares.
//!
//! A failed write or sync ends the log: nothing is retried, later appends are refused, and the host ends the process.
#![forbid(unsafe_code)]

mod access_counts;
mod backoff;
mod blob;
mod buffer;
mod error;
mod free;
mod group_store;
pub mod inspect;
mod log;
mod log_core;
mod medium;
mod names;
mod options;
mod read_ahead;
mod reader;
mod recent;
mod recovery;
mod runs;
mod segments;
mod snapshot;
mod stats;
pub mod testing;

pub use backoff::IoBackoff;
pub use error::{AppendError, LogFailure, OpenError, SnapshotFailure};
pub use group_store::SpaceLevel;
pub use log::{EntryRange, Log};
#[cfg(unix)]
pub use medium::DiskMedium;
pub use medium::{Medium, MediumFile, MemoryMedium, ReadMode};
pub use options::{Callbacks, Durability, Options};
pub use ottla_layout::run::{BatchHead, CutBatch, PartCutter};
pub use reader::LogReader;
pub use recent::MemoryReservation;
pub use recovery::{OpenLog, RecoveryReport, ReplayItem, TornGroup};
pub use runs::{PartBatch, PartEnd, PartReport, PartScan, PartSlice, ReadRange, RunError, RunWriter, Runs};
pub use snapshot::{SnapshotWriter, Snapshotter};
pub use stats::{DURATIONS, Histogram, HistogramView, LogStats};
