//! Offsets of groups: committed ones, and those staged in transactions that are still open.
//!
//! A staged offset has three fates: its transaction commits and it becomes the committed one, unless a later record of
//! the log has committed another in the meantime (T-185); its transaction aborts; or it is deleted.

mod command;
mod expire;
mod judge;

pub use command::{
    CommitOffsets, CommitOffsetsReply, DeleteOffsets, DeleteOffsetsError, DeleteOffsetsReply, NewOffset,
    OffsetCommand, OffsetDeleteError, OffsetError, StageOffsets, StageOffsetsReply, TopicOffsets,
};

use crate::catalog::Catalog;
use crate::groups::Groups;
use crate::reach::Reach;
use crate::transactions::Transactions;
use ottla_types::record::{
    CatalogRecord, CommittedOffset, GroupDeleted, GroupRecord, LogRecord, OffsetRecord, OffsetsCommitted,
    OffsetsDeleted, OffsetsRestored, OffsetsStaged, SnapshotUnit, StagedRestored, TransactionRecord,
};
use ottla_types::{LogPosition, Millis, ProducerId, TopicId, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// An offset, and where in the log it was set: the later record wins (T-185).
#[derive(Clone, Debug, PartialEq, Eq)]
struct PositionedOffset {
    value: CommittedOffset,
    position: LogPosition,
}

type ByPartition = BTreeMap<TopicPartition, PositionedOffset>;

/// The offsets of one group.
#[derive(Debug, Default, PartialEq, Eq)]
struct GroupOffsets {
    committed: ByPartition,
    staged: BTreeMap<ProducerId, ByPartition>,
}

/// All offsets.
#[derive(Debug, Default)]
pub struct Offsets {
    groups: BTreeMap<String, GroupOffsets>,
    /// In which groups a producer has staged offsets.
    stagers: BTreeMap<ProducerId, BTreeSet<String>>,
    /// When old offsets are looked for next; none until the first event after start.
    next_expiry: Option<Millis>,
}

/// What OffsetFetch finds for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetLookup<'a> {
    /// Nothing is committed.
    None,
    /// This is committed.
    Offset(&'a CommittedOffset),
    /// Stable offsets were asked for, and an open transaction has one staged (T-181).
    Unstable,
}

/// The other machines, as far as commands for offsets need them.
pub(crate) struct Others<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) transactions: &'a Transactions,
    pub(crate) groups: &'a mut Groups,
    /// Wall time, for the records of commits.
    pub(crate) wall: Millis,
}

impl Offsets {
    /// One partition's offset (OffsetFetch). An unknown group has none (T-184).
    pub fn fetch(&self, group_id: &str, partition: TopicPartition, require_stable: bool) -> OffsetLookup<'_> {
        let Some(group) = self.groups.get(group_id) else { return OffsetLookup::None };
        group.fetch(partition, require_stable)
    }

    /// All partitions that have a committed offset (OffsetFetch without topics, T-182).
    pub fn fetch_all(
        &self,
        group_id: &str,
        require_stable: bool,
    ) -> impl Iterator<Item = (TopicPartition, OffsetLookup<'_>)> {
        let group = self.groups.get(group_id);
        group.into_iter().flat_map(move |group| {
            group.committed.keys().map(move |partition| (*partition, group.fetch(*partition, require_stable)))
        })
    }

    /// What a producer's open transaction has staged: group, partition, offset. It takes effect when the transaction
    /// commits.
    pub fn staged(
        &self,
        producer_id: ProducerId,
    ) -> impl Iterator<Item = (&str, TopicPartition, &CommittedOffset)> {
        let groups = self.stagers.get(&producer_id).into_iter().flatten();
        let staged = groups.filter_map(move |group_id| {
            Some((group_id.as_str(), self.groups.get(group_id)?.staged.get(&producer_id)?))
        });
        staged.flat_map(|(group_id, offsets)| {
            offsets.iter().map(move |(at, placed)| (group_id, *at, &placed.value))
        })
    }

    /// The producers whose open transactions have an offset staged for this partition of a group.
    pub fn stagers(&self, group_id: &str, partition: TopicPartition) -> impl Iterator<Item = ProducerId> {
        let staged = self.groups.get(group_id).into_iter().flat_map(|group| &group.staged);
        staged
            .filter(move |(_, offsets)| offsets.contains_key(&partition))
            .map(|(producer_id, _)| *producer_id)
    }

    pub(crate) fn apply(&mut self, position: LogPosition, record: &OffsetRecord, reach: &Reach) {
        let covers = |group_id: &String| reach.covers(|| SnapshotUnit::Offsets(group_id.clone()));
        match record {
            OffsetRecord::OffsetsCommitted(committed) => {
                if covers(&committed.group_id) {
                    self.apply_committed(position, committed);
                }
            }
            OffsetRecord::OffsetsStaged(staged) => {
                if covers(&staged.group_id) {
                    self.apply_staged(position, staged);
                }
            }
            OffsetRecord::OffsetsDeleted(deleted) => self.apply_deleted(deleted),
            OffsetRecord::OffsetsRestored(restored) => self.apply_restored(restored),
            OffsetRecord::StagedRestored(restored) => self.apply_staged_restored(restored),
        }
    }

    /// The offsets of a deleted topic's partitions are deleted (T-191).
    pub(crate) fn apply_catalog(&mut self, record: &CatalogRecord) {
        match record {
            CatalogRecord::TopicDeleted(deleted) => self.apply_topic_deleted(deleted.id),
            CatalogRecord::ClusterCreated(_)
            | CatalogRecord::TopicCreated(_)
            | CatalogRecord::PartitionsAdded(_)
            | CatalogRecord::TopicConfigured(_)
            | CatalogRecord::BrokerConfigured(_) => {}
        }
    }

    /// The end of a transaction decides its staged offsets (T-180).
    pub(crate) fn apply_transaction(&mut self, record: &TransactionRecord) {
        match record {
            TransactionRecord::TransactionEnded(ended) => {
                self.end_transaction(ended.marker.producer_id, ended.marker.commit);
            }
            TransactionRecord::ProducerIdsReserved(_)
            | TransactionRecord::TransactionUpdated(_)
            | TransactionRecord::TransactionExtended(_)
            | TransactionRecord::TransactionForgotten(_) => {}
        }
    }

    /// The offsets of a deleted group are deleted.
    pub(crate) fn apply_group(&mut self, record: &GroupRecord) {
        match record {
            GroupRecord::Deleted(deleted) => self.apply_group_deleted(deleted),
            GroupRecord::ClassicUpdated(_) => {}
        }
    }

    fn apply_committed(&mut self, position: LogPosition, record: &OffsetsCommitted) {
        let committed = &mut self.groups.entry(record.group_id.clone()).or_default().committed;
        for (partition, value) in &record.offsets {
            committed.insert(*partition, PositionedOffset { value: value.clone(), position });
        }
    }

    fn apply_staged(&mut self, position: LogPosition, record: &OffsetsStaged) {
        let offsets = record.offsets.iter().map(|(partition, value)| (*partition, value.clone(), position));
        self.stage(&record.group_id, record.producer_id, offsets);
    }

    fn apply_deleted(&mut self, record: &OffsetsDeleted) {
        self.edit(&record.group_id, |group| {
            record.partitions.iter().for_each(|partition| group.forget(|candidate| candidate == partition));
        });
    }

    fn apply_group_deleted(&mut self, record: &GroupDeleted) {
        self.edit(&record.group_id, |group| *group = GroupOffsets::default());
    }

    /// A topic is gone, and every offset of its partitions (T-191).
    fn apply_topic_deleted(&mut self, topic: TopicId) {
        let groups: Vec<String> = self.groups.keys().cloned().collect();
        for group_id in &groups {
            self.edit(group_id, |group| group.forget(|partition| partition.topic == topic));
        }
    }

    /// A producer's transaction ended: its staged offsets take effect, or go (T-180). Without any this does nothing
    /// (T-192).
    fn end_transaction(&mut self, producer_id: ProducerId, commit: bool) {
        for group_id in self.stagers.remove(&producer_id).unwrap_or_default() {
            self.edit(&group_id, |group| {
                let staged = group.staged.remove(&producer_id).unwrap_or_default();
                if commit {
                    group.commit_staged(staged);
                }
            });
        }
    }

    fn apply_restored(&mut self, row: &OffsetsRestored) {
        let committed = &mut self.groups.entry(row.group_id.clone()).or_default().committed;
        for (partition, value, position) in &row.offsets {
            committed.insert(*partition, PositionedOffset { value: value.clone(), position: *position });
        }
    }

    fn apply_staged_restored(&mut self, row: &StagedRestored) {
        self.stage(&row.group_id, row.producer_id, row.offsets.iter().cloned());
    }

    /// The group with offsets that follows this one, or the first.
    pub(crate) fn after(&self, after: Option<&str>) -> Option<&str> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.groups.range::<str, _>((from, Bound::Unbounded)).next().map(|(id, _)| id.as_str())
    }

    pub(crate) fn snapshot_of(&self, group_id: &str, rows: &mut Vec<LogRecord>) {
        let triples = |offsets: &ByPartition| -> Vec<(TopicPartition, CommittedOffset, LogPosition)> {
            offsets.iter().map(|(partition, at)| (*partition, at.value.clone(), at.position)).collect()
        };
        let Some(group) = self.groups.get(group_id) else { return };
        if !group.committed.is_empty() {
            let offsets = triples(&group.committed);
            rows.push(LogRecord::Offsets(OffsetRecord::OffsetsRestored(OffsetsRestored {
                group_id: group_id.to_owned(),
                offsets,
            })));
        }
        for (producer_id, staged) in &group.staged {
            rows.push(LogRecord::Offsets(OffsetRecord::StagedRestored(StagedRestored {
                group_id: group_id.to_owned(),
                producer_id: *producer_id,
                offsets: triples(staged),
            })));
        }
    }

    fn stage(
        &mut self,
        group_id: &str,
        producer_id: ProducerId,
        offsets: impl Iterator<Item = (TopicPartition, CommittedOffset, LogPosition)>,
    ) {
        self.stagers.entry(producer_id).or_default().insert(group_id.to_owned());
        let group = self.groups.entry(group_id.to_owned()).or_default();
        let staged = group.staged.entry(producer_id).or_default();
        for (partition, value, position) in offsets {
            staged.insert(partition, PositionedOffset { value, position });
        }
    }

    /// Changes a group, then forgets what became empty: the group, and who had staged in it.
    fn edit(&mut self, group_id: &str, change: impl FnOnce(&mut GroupOffsets)) {
        let Some(group) = self.groups.get_mut(group_id) else { return };
        let stagers: Vec<ProducerId> = group.staged.keys().copied().collect();
        change(group);
        for producer_id in stagers.iter().filter(|producer_id| !group.staged.contains_key(producer_id)) {
            if let Some(groups) = self.stagers.get_mut(producer_id) {
                groups.remove(group_id);
                if groups.is_empty() {
                    self.stagers.remove(producer_id);
                }
            }
        }
        if group.is_nothing() {
            self.groups.remove(group_id);
        }
    }
}

impl GroupOffsets {
    fn fetch(&self, partition: TopicPartition, require_stable: bool) -> OffsetLookup<'_> {
        if require_stable && self.is_staged(partition) {
            return OffsetLookup::Unstable;
        }
        self.committed
            .get(&partition)
            .map_or(OffsetLookup::None, |placed| OffsetLookup::Offset(&placed.value))
    }

    fn is_staged(&self, partition: TopicPartition) -> bool {
        self.staged.values().any(|staged| staged.contains_key(&partition))
    }

    /// True if the partition has an offset, committed or staged.
    fn has(&self, partition: TopicPartition) -> bool {
        self.committed.contains_key(&partition) || self.is_staged(partition)
    }

    fn is_nothing(&self) -> bool {
        self.committed.is_empty() && self.staged.is_empty()
    }

    /// Drops committed and staged offsets of some partitions.
    fn forget(&mut self, gone: impl Fn(&TopicPartition) -> bool) {
        self.committed.retain(|partition, _| !gone(partition));
        self.staged.values_mut().for_each(|staged| staged.retain(|partition, _| !gone(partition)));
        self.staged.retain(|_, staged| !staged.is_empty());
    }

    /// A staged offset takes effect unless the committed one was set by a later record (T-185).
    fn commit_staged(&mut self, staged: ByPartition) {
        for (partition, placed) in staged {
            let outdated = self.committed.get(&partition).is_some_and(|now| now.position > placed.position);
            if !outdated {
                self.committed.insert(partition, placed);
            }
        }
    }
}
