//! What the records of groups and their offsets change.

use crate::shard::{Applied, Shard};
use ottla_types::record::LogRecord;

impl Shard {
    /// Applies the records of groups and offsets; others are not its business.
    pub(crate) fn apply_offsets(&mut self, at: Applied, record: &LogRecord) {
        match record {
            LogRecord::GroupUpdated(updated) => self.groups.apply_updated(updated),
            LogRecord::GroupDeleted(deleted) => {
                self.groups.apply_deleted(deleted);
                self.offsets.apply_group_deleted(deleted);
            }
            LogRecord::OffsetsCommitted(committed) => {
                self.groups.apply_offsets(&committed.group_id, &committed.offsets);
                self.offsets.apply_committed(at.position, committed);
            }
            LogRecord::OffsetsStaged(staged) => {
                self.groups.apply_offsets(&staged.group_id, &staged.offsets);
                self.offsets.apply_staged(at.position, staged);
            }
            LogRecord::OffsetsDeleted(deleted) => self.offsets.apply_deleted(deleted),
            LogRecord::OffsetsRestored(restored) => self.offsets.apply_restored(restored),
            LogRecord::StagedRestored(restored) => self.offsets.apply_staged_restored(restored),
            _ => {}
        }
    }
}
