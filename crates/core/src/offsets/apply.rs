//! What the records of groups and their offsets change.

use crate::shard::{Applied, Shard};
use ottla_types::TopicPartition;
use ottla_types::record::{CommittedOffset, GroupUpdated, LogRecord, SnapshotUnit};

impl Shard {
    /// Applies the records of groups and offsets; others are not its business.
    pub(crate) fn apply_offsets(&mut self, at: Applied, record: &LogRecord) {
        match record {
            LogRecord::GroupUpdated(updated) => self.apply_group(updated),
            LogRecord::GroupDeleted(deleted) => {
                self.groups.apply_deleted(deleted);
                self.offsets.apply_group_deleted(deleted);
            }
            LogRecord::OffsetsCommitted(committed) => {
                self.apply_simple_group(&committed.group_id, &committed.offsets);
                if self.covers(|| SnapshotUnit::Offsets(committed.group_id.clone())) {
                    self.offsets.apply_committed(at.position, committed);
                }
            }
            LogRecord::OffsetsStaged(staged) => {
                self.apply_simple_group(&staged.group_id, &staged.offsets);
                if self.covers(|| SnapshotUnit::Offsets(staged.group_id.clone())) {
                    self.offsets.apply_staged(at.position, staged);
                }
            }
            LogRecord::OffsetsDeleted(deleted) => self.offsets.apply_deleted(deleted),
            LogRecord::OffsetsRestored(restored) => self.offsets.apply_restored(restored),
            LogRecord::StagedRestored(restored) => self.offsets.apply_staged_restored(restored),
            _ => {}
        }
    }

    fn apply_group(&mut self, updated: &GroupUpdated) {
        if self.covers(|| SnapshotUnit::Group(updated.group_id.clone())) {
            self.groups.apply_updated(updated);
        }
    }

    fn apply_simple_group(&mut self, group_id: &str, offsets: &[(TopicPartition, CommittedOffset)]) {
        if self.covers(|| SnapshotUnit::Group(group_id.to_owned())) {
            self.groups.apply_offsets(group_id, offsets);
        }
    }
}
