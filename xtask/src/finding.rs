//! What a judge of a run says.

use std::fmt;

/// Something that must not be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) class: &'static str,
    pub(crate) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.what)
    }
}

pub(crate) fn finding(class: &'static str, what: String) -> Finding {
    Finding { class, what }
}
