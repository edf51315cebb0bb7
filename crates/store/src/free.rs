//! What can be freed, and the queue that frees it: nothing is freed before the record that let it go is durable.

use std::ops::Range;

/// Something that no record refers to any more.
#[derive(Clone, Debug)]
pub(crate) enum FreeTarget {
    Segment(u64),
    Run(u64),
    /// A range of a run.
    RunRange(u64, Range<u64>),
}

/// Frees things in time.
pub(crate) trait FreeQueue: Send + Sync {
    /// Frees the targets once everything that was appended so far is durable.
    fn free_later(&self, targets: Vec<FreeTarget>);
}
