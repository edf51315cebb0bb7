//! The topics of a run, their partitions, and a record in one of them.

use bytes::Bytes;

/// The topics: the input of transformers, their output, one that no client transforms, and a compacted one.
pub(crate) const TOPICS: [&str; 4] = ["in", "out", "log", "table"];
pub(crate) const IN: usize = 0;
pub(crate) const OUT: usize = 1;
pub(crate) const LOG: usize = 2;
pub(crate) const TABLE: usize = 3;

/// A partition of one of the topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) topic: usize,
    pub(crate) partition: i32,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        TOPICS[self.topic]
    }
}

/// A record that a consumer read.
#[derive(Clone, Debug)]
pub(crate) struct ConsumedRecord {
    pub(crate) place: Place,
    pub(crate) offset: i64,
    /// The key.
    pub(crate) name: String,
    /// The value, if there is one.
    pub(crate) value: Option<Bytes>,
}
