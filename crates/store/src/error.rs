//! Errors: one enum for each operation.

use ottla_layout::record::DecodeError;
use ottla_layout::{GeometryError, IdentityError};
use std::io;

/// Why a log could not be opened. Nothing was changed unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the folder.
    #[error("{folder} is in use by {}: stop it, or choose another data folder", owner(.pid))]
    Locked {
        /// The folder.
        folder: String,
        /// The other process, if its id could be read.
        pid: Option<u32>,
    },
    /// The medium failed.
    #[error("{file}: {doing} failed: {source}")]
    Medium {
        /// The file, or the folder.
        file: String,
        /// What was tried.
        doing: &'static str,
        /// The medium's error.
        source: io::Error,
    },
    /// A segment size that cannot be used.
    #[error(transparent)]
    SegmentSize(#[from] GeometryError),
    /// The folder's identity cannot be used.
    #[error("{file}: {source}")]
    Identity {
        /// The file.
        file: String,
        /// What is wrong.
        source: IdentityError,
    },
    /// The folder is another shard's.
    #[error("{file}: the folder holds shard {found}, not shard {wanted}")]
    Shard {
        /// The identity file.
        file: String,
        /// The shard in the folder.
        found: u16,
        /// The requested shard.
        wanted: u16,
    },
    /// A file is missing without which the data cannot be read: the identity, the segment in which replay begins, or a
    /// run.
    #[error("{file} is missing: {why}; restore it from a copy of the folder")]
    Missing {
        /// The file.
        file: String,
        /// Why it is needed.
        why: String,
    },
    /// Every snapshot is damaged, and the first segments of the log were freed.
    #[error(
        "{file} is damaged: {reason}; without it {needed} would be needed, which was freed: restore the snapshot from a copy"
    )]
    Snapshot {
        /// The newest snapshot.
        file: String,
        /// Where and how it is damaged.
        reason: String,
        /// The segment that replay would begin with.
        needed: String,
    },
    /// Damage that a crash cannot have caused. The log is not truncated there, because acknowledged records would be
    /// lost.
    #[error(
        "{file} is damaged at offset {offset}: {what}; restore the file from a copy, nothing was changed"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Where in the file.
        offset: u64,
        /// What was found.
        what: String,
    },
    /// An undamaged entry that this program cannot read.
    #[error("{file}, entry at offset {offset}: {source}")]
    Record {
        /// The file.
        file: String,
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        source: DecodeError,
    },
}

fn owner(pid: &Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl OpenError {
    pub(crate) fn medium(file: &str, doing: &'static str) -> impl FnOnce(io::Error) -> OpenError {
        let file = file.to_owned();
        move |source| OpenError::Medium { file, doing, source }
    }
}

/// Why a record was not accepted. The log is as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// There is no space for another segment. Retry after space was freed.
    #[error("the log has no room left on its medium")]
    Full,
    /// The record is larger than half a segment.
    #[error("a record of {size} bytes is larger than {limit}, half a segment")]
    TooLarge {
        /// Bytes of the record.
        size: u64,
        /// The largest that is accepted.
        limit: u64,
    },
    /// The size in the summary of a batch is not the size of its bytes: an error of the caller.
    #[error("the summary says {summary} bytes, the batch has {batch}")]
    Inconsistent {
        /// Size in the summary.
        summary: u64,
        /// Size of the bytes.
        batch: u64,
    },
    /// A write or sync failed earlier.
    #[error("the log has ended: {0}")]
    Ended(LogFailure),
}

/// What ended the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{doing} {file} failed: {error}")]
pub struct LogFailure {
    /// The file.
    pub file: String,
    /// What was tried.
    pub doing: &'static str,
    /// The medium's error.
    pub error: String,
}

/// Why a snapshot was not written. The log and the older snapshots are as before.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFailure {
    /// The state holds records that are not durable yet.
    #[error("the log is durable up to {durable} only, the snapshot is of {wanted}")]
    NotDurable {
        /// Durable position.
        durable: u64,
        /// Position of the snapshot.
        wanted: u64,
    },
    /// The log has ended.
    #[error("the log has ended: {0}")]
    Ended(LogFailure),
    /// The medium failed, perhaps for lack of space.
    #[error("{file}: {source}")]
    Medium {
        /// The file.
        file: String,
        /// The medium's error.
        source: io::Error,
    },
    /// It was written, but reading it back gave an error or other content.
    #[error("{file}: reading the snapshot back: {why}")]
    Unreadable {
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
}
