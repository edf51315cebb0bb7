//! A snapshot in pieces, taken while the log goes on, and the way back.
//!
//! ```text
//!   the log     ──┬──── records ────┬── records ──┬──────────▶
//!   the pieces    a                 b             c
//! ```
//!
//! The state is a list of units in one order: the broker, topics, partitions, transactional ids, groups, offsets. A piece holds
//! the units that come after those of the piece before, as they are when it is taken, and says how far it reached. On the way
//! back each piece is restored at its place between the records of the log, and until all are there, records change only what
//! was reached: a unit that is not there yet comes with its piece, with all that happened to it. So at every place the restored
//! state is the live one of that time, cut off where the pieces ended. A record that changes a unit may look at units before it,
//! never at later ones.

use crate::shard::{Applied, Shard};
use ottla_types::record::{ClusterCreated, LogRecord, SnapshotReached, SnapshotUnit};
use ottla_types::{LogPosition, TopicId, TopicPartition};

impl Shard {
    /// The next piece of a snapshot: the units that follow `after`, or all there are from the first one, until the rows hold
    /// `most` things or the state ends. The last row, a [`SnapshotReached`], tells how far that is.
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
            LogRecord::SnapshotReached(SnapshotReached { unit }) => self.reached = unit.clone(),
            // Its partitions have rows of their own.
            LogRecord::TopicCreated(created) => self.catalog.apply_created(created),
            row => {
                let reached = std::mem::replace(&mut self.reached, SnapshotUnit::All);
                let nowhere = LogPosition(0);
                self.apply(Applied { position: nowhere, payload: nowhere }, row);
                self.reached = reached;
            }
        }
    }

    /// Whether a record may make this unit: always, but while a snapshot that is read back has not reached it.
    pub(crate) fn covers(&self, unit: impl FnOnce() -> SnapshotUnit) -> bool {
        self.reached == SnapshotUnit::All || unit() <= self.reached
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
                if let Some(cluster_id) = self.cluster_id().map(str::to_owned) {
                    rows.push(LogRecord::ClusterCreated(ClusterCreated { cluster_id }));
                }
                self.catalog.snapshot_broker(rows);
                self.transactions.snapshot_ids(rows);
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

/// How many things a row holds beside itself.
fn weight(row: &LogRecord) -> usize {
    match row {
        LogRecord::BatchesRestored(row) => row.batches.len(),
        LogRecord::AbortedRestored(row) => row.aborted.len(),
        LogRecord::PartsRestored(row) => row.parts.len(),
        LogRecord::ProducerRestored(row) => row.state.batches.len(),
        LogRecord::TransactionUpdated(row) => row.partitions.len(),
        LogRecord::GroupUpdated(row) => row.members.len(),
        LogRecord::OffsetsRestored(row) => row.offsets.len(),
        LogRecord::StagedRestored(row) => row.offsets.len(),
        _ => 0,
    }
}
