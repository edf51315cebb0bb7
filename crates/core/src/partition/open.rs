//! The transactions that hold back the last stable offset.
//!
//! ```text
//!   first batch       marker            marker durable
//!  ────────────▶ open ──────▶ settling ───────────────▶ (forgotten)
//! ```

use ottla_types::{Offset, ProducerId};
use std::collections::BTreeSet;

/// Transactions by their first offset on the partition.
#[derive(Debug, Default)]
pub(super) struct OpenTransactions {
    open: BTreeSet<(Offset, ProducerId)>,
    /// First offset and marker offset of those that ended, until the marker is durable.
    settling: BTreeSet<(Offset, Offset)>,
}

impl OpenTransactions {
    pub(super) fn begin(&mut self, first: Offset, producer: ProducerId) {
        self.open.insert((first, producer));
    }

    pub(super) fn end(&mut self, first: Offset, producer: ProducerId, marker: Offset) {
        self.open.remove(&(first, producer));
        self.settling.insert((first, marker));
    }

    /// Everything below `end` is durable.
    pub(super) fn settle(&mut self, end: Offset) {
        self.settling.retain(|(_, marker)| *marker >= end);
    }

    /// The first offset of the earliest one.
    pub(super) fn first(&self) -> Option<Offset> {
        let open = self.open.first().map(|(first, _)| *first);
        let settling = self.settling.first().map(|(first, _)| *first);
        open.into_iter().chain(settling).min()
    }
}
