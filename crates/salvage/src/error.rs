//! Why a folder could not be read or written.

use ottla_store::{OpenError, RunError};
use std::io;

/// Why a folder could not be read, or a new one not be written. Damage is no error: it is reported as a value.
#[derive(Debug, thiserror::Error)]
pub enum SalvageError {
    /// The folder cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A run cannot be read because the medium failed.
    #[error(transparent)]
    Run(RunError),
    /// The new folder has files in it already.
    #[error("{folder} is not empty")]
    NotEmpty {
        /// The folder.
        folder: String,
    },
    /// A run could not be copied into the new folder.
    #[error("{file} could not be copied: {source}")]
    Copy {
        /// The file of the run.
        file: String,
        /// The error of one of the two media.
        source: io::Error,
    },
    /// A batch that was readable before cannot be read any more.
    #[error("a batch changed while it was copied")]
    Changed,
    /// The new folder could not be written.
    #[error("the new folder could not be written: {0}")]
    Write(Box<dyn std::error::Error + Send + Sync>),
}
