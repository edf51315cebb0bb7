//! How far a snapshot that is read back has come: until it is complete, records change only the units it has reached.

use ottla_types::record::{SnapshotReached, SnapshotUnit};

/// The last unit of the snapshot that was restored; [`SnapshotUnit::All`] except while a snapshot is read back.
#[derive(Debug)]
pub(crate) struct Reach {
    unit: SnapshotUnit,
}

impl Reach {
    /// No snapshot is being read back.
    pub(crate) const ALL: Reach = Reach { unit: SnapshotUnit::All };

    /// A piece of a snapshot is complete.
    pub(crate) fn advance(&mut self, reached: &SnapshotReached) {
        self.unit = reached.unit.clone();
    }

    /// True if a record may create this unit. A unit that the snapshot has not reached comes with a later piece, which
    /// holds what the record did to it.
    pub(crate) fn covers(&self, unit: impl FnOnce() -> SnapshotUnit) -> bool {
        self.unit == SnapshotUnit::All || unit() <= self.unit
    }
}
