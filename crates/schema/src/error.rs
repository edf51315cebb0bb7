//! Why a schema is refused.

use thiserror::Error;

/// Why a schema is refused: the place inside the file, and what is wrong there.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{place}: {problem}")]
pub struct SchemaError {
    /// The message and field, such as `FetchRequest.Topics.Partitions`.
    pub place: String,
    /// What is wrong.
    pub problem: String,
}

pub(crate) fn error<T>(place: &str, problem: impl Into<String>) -> Result<T, SchemaError> {
    Err(SchemaError { place: place.to_owned(), problem: problem.into() })
}
