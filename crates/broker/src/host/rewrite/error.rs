//! Why a job of rewriting fails.

use ottla_store::RunError;
use std::io;

/// Why a job failed.
#[derive(Debug, thiserror::Error)]
pub(in crate::host) enum JobError {
    /// The broker stops.
    #[error("the broker stops")]
    Stopped,
    /// The tail is so full that rewriting it is more urgent.
    #[error("it gave way to the tail of the log")]
    GaveWay,
    /// The system gives no thread.
    #[error("no thread for it: {0}")]
    Thread(io::Error),
    /// The log cannot be read.
    #[error("the log cannot be read: {0}")]
    Log(#[from] io::Error),
    /// A batch in the log is not the one that was appended.
    #[error("the log at position {position} is damaged: {what}")]
    Damaged {
        /// Where the batch lies.
        position: u64,
        /// What was found.
        what: String,
    },
    /// The system gives no random bytes.
    #[error("no secret for the digests of keys: {0}")]
    Secret(String),
    /// A run cannot be read or written.
    #[error(transparent)]
    Run(#[from] RunError),
}
