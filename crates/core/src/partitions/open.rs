//! The transactions that hold back the last stable offset.
//!
//! ```text
//!   first batch       marker            marker durable
//!  ────────────▶ open ──────▶ settling ───────────────▶ (forgotten)
//! ```

use ottla_types::{Offset, ProducerId};
use std::collections::BTreeSet;

/// The transaction that holds back the last stable offset of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// It is open.
    Open {
        /// Its first offset on the partition.
        first_offset: Offset,
        /// Its producer.
        producer_id: ProducerId,
    },
    /// It ended, but that is not durable yet.
    Settling {
        /// Its first offset on the partition.
        first_offset: Offset,
        /// The offset of its marker.
        marker_offset: Offset,
    },
}

impl Holder {
    /// Its first offset on the partition.
    pub fn first_offset(self) -> Offset {
        match self {
            Holder::Open { first_offset, .. } | Holder::Settling { first_offset, .. } => first_offset,
        }
    }
}

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
        self.earliest().map(Holder::first_offset)
    }

    /// The earliest one.
    pub(super) fn earliest(&self) -> Option<Holder> {
        let open = self.open.first();
        let open = open.map(|(first_offset, producer_id)| Holder::Open {
            first_offset: *first_offset,
            producer_id: *producer_id,
        });
        let settling = self.settling.first();
        let settling = settling.map(|(first_offset, marker_offset)| Holder::Settling {
            first_offset: *first_offset,
            marker_offset: *marker_offset,
        });
        open.into_iter().chain(settling).min_by_key(|holder| holder.first_offset())
    }
}
