//! An anomaly found by the judge of a whole application, with its kind as text.

use std::fmt;

/// An anomaly.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the kind of violation, such as `duplicate`.
    pub class: &'static str,
    /// The records or offsets concerned.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.what)
    }
}

pub(crate) fn violation(class: &'static str, what: String) -> Violation {
    Violation { class, what }
}
