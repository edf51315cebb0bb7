//! A snapshot in pieces, taken while the log grows, and how it is restored.
//!
//! ```text
//!   the log     ──┬──── records ────┬── records ──┬──────────▶
//!   the pieces    a                 b             c
//! ```
//!
//! The state is a list of units in one order: the broker, topics, partitions, transactional ids, groups, offsets. A
//! piece holds the units that come after those of the piece before, as they are when it is taken, and says how far it
//! reached. On restore each piece is applied at its place between the records of the log, and until all are
//! there, records change only what was reached: a unit that is not there yet comes with its piece, with all that
//! happened to it. So at every place the restored state is the live one of that time, cut off where the pieces ended. A
//! record that changes a unit may look at units before it, never at later ones.

use super::Shard;
use crate::effect::RecordPosition;
use crate::reach::Reach;
use ottla_types::record::{
    AclRecord, CatalogRecord, GroupRecord, LogRecord, OffsetRecord, PartitionRecord, SnapshotReached,
    SnapshotUnit, TransactionRecord, UserRecord,
};
use ottla_types::{LogPosition, TopicId, TopicPartition};

impl Shard {
    /// The next piece of a snapshot: the units that follow `after`, or all there are from the first one, until the rows
    /// hold `most` things or the state ends. The last row, a [`SnapshotReached`], tells how far that is.
    pub fn snapshot_piece(
        &self,
        after: Option<&SnapshotUnit>,
        most: usize,
    ) -> (Vec<LogRecord>, SnapshotUnit) {
        let mut rows = Vec::new();
        let mut things = 0;
        let mut unit = self.unit_after(after);
        while unit != SnapshotUnit::All {
            let before = rows.len();
            self.unit_rows(&unit, &mut rows);
            things += rows.iter().skip(before).map(weight).sum::<usize>() + 1;
            if things >= most {
                break;
            }
            unit = self.unit_after(Some(&unit));
        }
        rows.push(LogRecord::SnapshotReached(SnapshotReached { unit: unit.clone() }));
        (rows, unit)
    }

    /// The durable state as records that rebuild it, given one after the other to [`Shard::restore`].
    pub fn snapshot(&self) -> Vec<LogRecord> {
        self.snapshot_piece(None, usize::MAX).0
    }

    /// Takes a row of a snapshot. Rows of a later piece come after the records of the log before it.
    pub fn restore(&mut self, row: &LogRecord) {
        match row {
            LogRecord::SnapshotReached(reached) => self.reach.advance(reached),
            // The partitions of a topic have rows of their own.
            LogRecord::Catalog(record @ CatalogRecord::TopicCreated(_)) => {
                self.catalog.apply(record, &Reach::ALL);
            }
            row => {
                let reach = std::mem::replace(&mut self.reach, Reach::ALL);
                let nowhere = LogPosition(0);
                self.apply(RecordPosition { position: nowhere, payload: nowhere }, row);
                self.reach = reach;
            }
        }
    }

    fn unit_after(&self, after: Option<&SnapshotUnit>) -> SnapshotUnit {
        match after {
            None => SnapshotUnit::Broker,
            Some(SnapshotUnit::Broker) => self.topic_after(None),
            Some(SnapshotUnit::Topic(id)) => self.topic_after(Some(*id)),
            Some(SnapshotUnit::Partition(at)) => self.partition_after(Some(*at)),
            Some(SnapshotUnit::TransactionalId(id)) => self.transactional_id_after(Some(id)),
            Some(SnapshotUnit::Group(id)) => self.group_after(Some(id)),
            Some(SnapshotUnit::Offsets(id)) => self.offsets_after(Some(id)),
            Some(SnapshotUnit::All) => SnapshotUnit::All,
        }
    }

    fn topic_after(&self, after: Option<TopicId>) -> SnapshotUnit {
        let next = self.catalog.topic_after(after);
        next.map_or_else(|| self.partition_after(None), SnapshotUnit::Topic)
    }

    fn partition_after(&self, after: Option<TopicPartition>) -> SnapshotUnit {
        let next = self.partitions.after(after);
        next.map_or_else(|| self.transactional_id_after(None), SnapshotUnit::Partition)
    }

    fn transactional_id_after(&self, after: Option<&str>) -> SnapshotUnit {
        let next = self.transactions.after(after).map(str::to_owned);
        next.map_or_else(|| self.group_after(None), SnapshotUnit::TransactionalId)
    }

    fn group_after(&self, after: Option<&str>) -> SnapshotUnit {
        let next = self.groups.after(after).map(str::to_owned);
        next.map_or_else(|| self.offsets_after(None), SnapshotUnit::Group)
    }

    fn offsets_after(&self, after: Option<&str>) -> SnapshotUnit {
        let next = self.offsets.after(after).map(str::to_owned);
        next.map_or(SnapshotUnit::All, SnapshotUnit::Offsets)
    }

    fn unit_rows(&self, unit: &SnapshotUnit, rows: &mut Vec<LogRecord>) {
        match unit {
            SnapshotUnit::Broker => {
                self.catalog.snapshot_broker(rows);
                self.transactions.snapshot_ids(rows);
                self.acls.snapshot(rows);
                self.users.snapshot(rows);
                self.quotas.snapshot(rows);
            }
            SnapshotUnit::Topic(id) => self.catalog.snapshot_topic(*id, rows),
            SnapshotUnit::Partition(at) => self.partitions.snapshot_of(*at, rows),
            SnapshotUnit::TransactionalId(id) => self.transactions.snapshot_of(id, rows),
            SnapshotUnit::Group(id) => self.groups.snapshot_of(id, rows),
            SnapshotUnit::Offsets(id) => self.offsets.snapshot_of(id, rows),
            SnapshotUnit::All => {}
        }
    }
}

/// How many items a row holds, itself not counted.
fn weight(row: &LogRecord) -> usize {
    match row {
        LogRecord::Catalog(_) | LogRecord::Quotas(_) | LogRecord::SnapshotReached(_) => 0,
        LogRecord::Acls(AclRecord::AclsChanged(row)) => row.added.len(),
        LogRecord::Users(UserRecord::ScramChanged(row)) => row.stored.len(),
        LogRecord::Partitions(row) => partition_weight(row),
        LogRecord::Transactions(row) => match row {
            TransactionRecord::TransactionUpdated(row) => row.partitions.len(),
            TransactionRecord::ProducerIdsReserved(_)
            | TransactionRecord::TransactionExtended(_)
            | TransactionRecord::TransactionEnded(_)
            | TransactionRecord::TransactionForgotten(_) => 0,
        },
        LogRecord::Groups(row) => match row {
            GroupRecord::ClassicUpdated(row) => row.members.len(),
            GroupRecord::Deleted(_) => 0,
        },
        LogRecord::Offsets(row) => match row {
            OffsetRecord::OffsetsRestored(row) => row.offsets.len(),
            OffsetRecord::StagedRestored(row) => row.offsets.len(),
            OffsetRecord::OffsetsCommitted(_)
            | OffsetRecord::OffsetsStaged(_)
            | OffsetRecord::OffsetsDeleted(_) => 0,
        },
    }
}

fn partition_weight(row: &PartitionRecord) -> usize {
    match row {
        PartitionRecord::BatchesRestored(row) => row.batches.len(),
        PartitionRecord::AbortedRestored(row) => row.aborted.len(),
        PartitionRecord::PartsRestored(row) => row.parts.len(),
        PartitionRecord::ProducerRestored(row) => row.state.batches.len(),
        PartitionRecord::PartitionRestored(_)
        | PartitionRecord::BatchAppended(_)
        | PartitionRecord::MarkerAppended(_)
        | PartitionRecord::LogStartMoved(_)
        | PartitionRecord::ProducersExpired(_)
        | PartitionRecord::PartsInstalled(_) => 0,
    }
}
