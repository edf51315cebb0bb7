//! Errors of runs.

use std::io;

/// Why a run could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The run or the part was freed: the reader has to plan again.
    #[error("{file} was freed")]
    Freed {
        /// The file.
        file: String,
    },
    /// The medium failed, perhaps for lack of space.
    #[error("{file} at offset {offset}: {source}")]
    Medium {
        /// The file.
        file: String,
        /// Where in the file.
        offset: u64,
        /// The medium's error.
        source: io::Error,
    },
    /// The bytes are not what was written.
    #[error("{file} is damaged at offset {offset}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// Where in the file.
        offset: u64,
        /// What was found.
        what: String,
    },
    /// What was to be written breaks the order of a run: a fault in the caller, or in the bytes it was given.
    #[error("{file}: cannot be written: {what}")]
    InvalidInput {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
}

impl RunError {
    /// True if the operation can succeed once space is freed.
    pub fn is_shortage(&self) -> bool {
        matches!(self, RunError::Medium { source, .. } if crate::medium::is_shortage(source))
    }
}

impl From<RunError> for io::Error {
    /// `NotFound` for what was freed, `InvalidData` for damage.
    fn from(error: RunError) -> io::Error {
        let kind = match &error {
            RunError::Freed { .. } => io::ErrorKind::NotFound,
            RunError::Medium { source, .. } => source.kind(),
            RunError::Damaged { .. } => io::ErrorKind::InvalidData,
            RunError::InvalidInput { .. } => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error.to_string())
    }
}
