//! Storage that can be freed, and the queue for it. Storage is freed only when the record that released it is durable.

use std::ops::Range;

/// A segment, a run, or a range of a run that no record refers to any more.
#[derive(Clone, Debug)]
pub(crate) enum FreeTarget {
    Segment(u64),
    Run(u64),
    /// A range of a run.
    RunRange(u64, Range<u64>),
}

/// Frees storage after the records that released it are durable.
pub(crate) trait FreeQueue: Send + Sync {
    /// Frees the targets once everything that was appended so far is durable.
    fn free_later(&self, targets: Vec<FreeTarget>);
}
