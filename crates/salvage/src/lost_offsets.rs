//! Finds lost offsets: tracks the offsets of each partition while the log is replayed.

use ottla_core::partitions::Partitions;
use ottla_types::record::{CatalogRecord, LogRecord, OffsetRecord, PartitionRecord, TransactionRecord};
use ottla_types::{Offset, TopicPartition};
use std::collections::BTreeMap;

/// The first and the last of consecutive lost offsets.
pub type OffsetRange = (i64, i64);

/// The offset that each partition expects next, and the offsets lost so far. If a batch begins above the expected
/// offset, the offsets between are lost.
#[derive(Debug, Default)]
pub(crate) struct LostOffsets {
    next: BTreeMap<TopicPartition, i64>,
    lost: BTreeMap<TopicPartition, Vec<OffsetRange>>,
    /// The highest offset that a group committed in each partition: records existed before it.
    committed: BTreeMap<TopicPartition, i64>,
    /// Batches of topics whose creation was not replayed.
    unknown_topics: BTreeMap<TopicPartition, Vec<OffsetRange>>,
}

impl LostOffsets {
    /// Applies a row of a snapshot.
    pub(crate) fn restore(&mut self, row: &LogRecord) {
        match row {
            LogRecord::Partitions(PartitionRecord::PartitionRestored(row)) => {
                self.next.insert(row.partition, row.next_offset.0);
            }
            LogRecord::Offsets(OffsetRecord::OffsetsRestored(row)) => {
                row.offsets.iter().for_each(|(at, offset, _)| self.commit(*at, offset.offset));
            }
            // Only the rows above have the next offset of a partition or a committed offset.
            LogRecord::Partitions(
                PartitionRecord::PartsRestored(_)
                | PartitionRecord::BatchesRestored(_)
                | PartitionRecord::ProducerRestored(_)
                | PartitionRecord::AbortedRestored(_)
                | PartitionRecord::BatchAppended(_)
                | PartitionRecord::MarkerAppended(_)
                | PartitionRecord::LogStartMoved(_)
                | PartitionRecord::ProducersExpired(_)
                | PartitionRecord::PartsInstalled(_),
            )
            | LogRecord::Offsets(
                OffsetRecord::StagedRestored(_)
                | OffsetRecord::OffsetsCommitted(_)
                | OffsetRecord::OffsetsStaged(_)
                | OffsetRecord::OffsetsDeleted(_),
            )
            | LogRecord::Catalog(_)
            | LogRecord::Transactions(_)
            | LogRecord::Groups(_)
            | LogRecord::Acls(_)
            | LogRecord::Users(_)
            | LogRecord::Quotas(_)
            | LogRecord::SnapshotReached(_) => {}
        }
    }

    fn commit(&mut self, at: TopicPartition, offset: Offset) {
        let highest = self.committed.entry(at).or_insert(0);
        *highest = (*highest).max(offset.0);
    }

    /// Applies a record of the log.
    pub(crate) fn apply(&mut self, record: &LogRecord) {
        match record {
            LogRecord::Catalog(CatalogRecord::TopicCreated(created)) => {
                self.add_partitions(created.id, created.partitions)
            }
            LogRecord::Catalog(CatalogRecord::PartitionsAdded(added)) => {
                self.add_partitions(added.id, added.partitions)
            }
            LogRecord::Catalog(CatalogRecord::TopicDeleted(deleted)) => {
                self.next.retain(|at, _| at.topic != deleted.id);
                self.lost.retain(|at, _| at.topic != deleted.id);
                self.committed.retain(|at, _| at.topic != deleted.id);
                self.unknown_topics.retain(|at, _| at.topic != deleted.id);
            }
            LogRecord::Offsets(OffsetRecord::OffsetsCommitted(committed)) => {
                committed.offsets.iter().for_each(|(at, offset)| self.commit(*at, offset.offset));
            }
            LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) => {
                let last = batch.base_offset.plus(i64::from(batch.summary.last_offset_delta));
                self.append(batch.partition, batch.base_offset, last);
            }
            LogRecord::Partitions(PartitionRecord::MarkerAppended(marker)) => {
                self.append(marker.partition, marker.offset, marker.offset)
            }
            LogRecord::Transactions(TransactionRecord::TransactionEnded(ended)) => {
                ended.partitions.iter().for_each(|(at, offset)| self.append(*at, *offset, *offset));
            }
            LogRecord::Partitions(PartitionRecord::LogStartMoved(moved)) => {
                if let Some(next) = self.next.get_mut(&moved.partition) {
                    *next = (*next).max(moved.log_start.0);
                }
            }
            // These records do not assign offsets.
            LogRecord::Catalog(
                CatalogRecord::ClusterCreated(_)
                | CatalogRecord::TopicConfigured(_)
                | CatalogRecord::BrokerConfigured(_),
            )
            | LogRecord::Offsets(
                OffsetRecord::OffsetsStaged(_)
                | OffsetRecord::OffsetsDeleted(_)
                | OffsetRecord::OffsetsRestored(_)
                | OffsetRecord::StagedRestored(_),
            )
            | LogRecord::Partitions(
                PartitionRecord::ProducersExpired(_)
                | PartitionRecord::PartsInstalled(_)
                | PartitionRecord::PartitionRestored(_)
                | PartitionRecord::PartsRestored(_)
                | PartitionRecord::BatchesRestored(_)
                | PartitionRecord::ProducerRestored(_)
                | PartitionRecord::AbortedRestored(_),
            )
            | LogRecord::Transactions(
                TransactionRecord::ProducerIdsReserved(_)
                | TransactionRecord::TransactionUpdated(_)
                | TransactionRecord::TransactionExtended(_)
                | TransactionRecord::TransactionForgotten(_),
            )
            | LogRecord::Groups(_)
            | LogRecord::Acls(_)
            | LogRecord::Users(_)
            | LogRecord::Quotas(_)
            | LogRecord::SnapshotReached(_) => {}
        }
    }

    fn add_partitions(&mut self, topic: ottla_types::TopicId, count: i32) {
        for partition in 0..count {
            self.next.entry(TopicPartition { topic, partition }).or_insert(0);
        }
    }

    fn append(&mut self, at: TopicPartition, base: Offset, last: Offset) {
        let Some(next) = self.next.get_mut(&at) else {
            self.unknown_topics.entry(at).or_default().push((base.0, last.0));
            return;
        };
        if base.0 > *next {
            self.lost.entry(at).or_default().push((*next, base.0 - 1));
        }
        *next = (*next).max(last.0 + 1);
    }

    /// The offset that a partition's next record should take, if the partition is known.
    pub(crate) fn next(&self, at: TopicPartition) -> Option<i64> {
        self.next.get(&at).copied()
    }

    /// Adds lost offsets that a damaged entry mentions.
    pub(crate) fn add(&mut self, at: TopicPartition, range: OffsetRange) {
        self.lost.entry(at).or_default().push(range);
        if let Some(next) = self.next.get_mut(&at) {
            *next = (*next).max(range.1 + 1);
        }
    }

    /// The offset that the next record of each partition takes. Records below a committed offset that were not replayed
    /// are lost.
    pub(crate) fn next_offsets(&mut self) -> BTreeMap<TopicPartition, i64> {
        for (at, committed) in std::mem::take(&mut self.committed) {
            if let Some(next) = self.next(at).filter(|next| *next < committed) {
                self.add(at, (next, committed - 1));
            }
        }
        self.next.clone()
    }

    /// The lost offsets of each partition, from its log start on, and those of unknown topics.
    pub(crate) fn into_ranges(
        mut self,
        partitions: &Partitions,
    ) -> BTreeMap<TopicPartition, Vec<OffsetRange>> {
        for (at, ranges) in self.unknown_topics {
            // With a snapshot in several chunks, a partition can become known after its records.
            if partitions.get(at).is_none() {
                self.lost.entry(at).or_default().extend(ranges);
            }
        }
        let merged = self.lost.into_iter().map(|(at, ranges)| {
            let start = partitions.get(at).map_or(0, |partition| partition.log_start().0);
            (at, merge(ranges, start))
        });
        merged.filter(|(_, ranges)| !ranges.is_empty()).collect()
    }
}

/// Sorts ranges, merges adjacent ones, and cuts off what is before `start`.
fn merge(mut ranges: Vec<OffsetRange>, start: i64) -> Vec<OffsetRange> {
    ranges.sort_unstable();
    let mut merged: Vec<OffsetRange> = Vec::new();
    for (from, to) in
        ranges.into_iter().map(|(from, to)| (from.max(start), to)).filter(|(from, to)| from <= to)
    {
        match merged.last_mut() {
            Some(last) if from <= last.1 + 1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_merged_and_cut_where_the_log_starts() {
        assert_eq!(merge(vec![(5, 6), (1, 2), (3, 3), (9, 9)], 2), [(2, 3), (5, 6), (9, 9)]);
        assert_eq!(merge(vec![(1, 2)], 3), []);
    }
}
