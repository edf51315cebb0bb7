//! Replays a damaged log: the state that its intact entries make, the batches that can be read, and the offsets that
//! are lost.

use crate::batch::{check_batch, read};
use crate::lost_offsets::{LostOffsets, OffsetRange};
use crate::topic_names::TopicNames;
use crate::{Damage, SalvageError};
use bytes::Bytes;
use ottla_core::{RecordPosition, Shard};
use ottla_layout::record::{DecodedRecord, decode, kind_name};
use ottla_layout::run::RunRow;
use ottla_store::inspect::{Folder, SalvageItem};
use ottla_store::{EntryRange, ReplayItem};
use ottla_types::record::{BatchAppended, LogRecord, PartitionRecord, TransactionRecord};
use ottla_types::{LogPosition, Offset, TopicPartition};
use ottla_wire::batch::BatchHeader;
use std::collections::{BTreeMap, BTreeSet};

/// What can be read of a damaged log, and what is lost of it.
#[derive(Debug)]
pub struct Remaining {
    /// Names of the topics.
    pub names: TopicNames,
    /// Offsets that are lost, by partition.
    pub lost: BTreeMap<TopicPartition, Vec<OffsetRange>>,
    /// Entries of damaged groups that were left out, because no checksum proves them: how many of each kind, if the
    /// kind can be read.
    pub dropped: BTreeMap<&'static str, u64>,
    /// How many batches of damaged groups were kept, because their own checksums prove them.
    pub rescued: u64,
    /// How many ranges of the log are damaged.
    pub damaged_ranges: u64,
    /// Why snapshots or other files cannot be read.
    pub unread: Vec<String>,
    /// The state that the entries make.
    pub(crate) shard: Shard,
    /// The offset that the next record of each partition takes. As far as the readable data shows, it was never
    /// assigned.
    pub(crate) ends: BTreeMap<TopicPartition, i64>,
    /// Batches that the state refers to and that cannot be read, by partition and offset.
    pub(crate) unreadable: BTreeSet<(TopicPartition, Offset)>,
    /// Parts of runs that are not whole and cannot be copied as they are, by partition and first offset.
    pub(crate) bad_parts: BTreeSet<(TopicPartition, Offset)>,
}

/// An open transaction that no transactional id will end. Readers with read_committed cannot read past it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrphanTransaction {
    /// The partition.
    pub partition: TopicPartition,
    /// Its producer.
    pub producer_id: i64,
    /// Its first offset in the partition.
    pub first_offset: i64,
}

impl Remaining {
    /// Replays a folder, skips damage, and reads every batch that the state refers to.
    ///
    /// # Errors
    /// The medium fails.
    pub fn of(folder: &Folder) -> Result<Remaining, SalvageError> {
        let mut recovery = Recovery::of(folder)?;
        let unreadable = recovery.unreadable()?;
        let bad_parts = recovery.bad_parts()?;
        let Recovery { shard, names, mut lost_offsets, dropped, rescued, damaged_ranges, unread, .. } =
            recovery;
        let ends = lost_offsets.next_offsets();
        let lost = lost_offsets.into_ranges(shard.partitions());
        Ok(Remaining {
            shard,
            names,
            ends,
            lost,
            dropped,
            rescued,
            unreadable,
            bad_parts,
            damaged_ranges,
            unread,
        })
    }

    /// True if anything is lost or damaged.
    pub fn is_damaged(&self) -> bool {
        self.damaged_ranges > 0 || !self.lost.is_empty() || !self.unread.is_empty()
    }

    /// True if the state has this partition; lost offsets may be of topics whose creation is lost too.
    pub fn has_partition(&self, at: TopicPartition) -> bool {
        self.shard.partitions().get(at).is_some()
    }

    /// Transactions that stay open permanently unless an operator aborts them.
    pub fn orphans(&self) -> Vec<OrphanTransaction> {
        let mut found = Vec::new();
        for (at, partition) in self.shard.partitions().iter() {
            for producer in partition.producers() {
                let Some(first) = producer.transaction_start else { continue };
                let mut open = self.shard.transactions().open();
                let owned = open.any(|transaction| {
                    transaction.state().producer_id == producer.producer_id
                        && transaction.partitions().contains(&at)
                });
                if !owned {
                    let producer_id = producer.producer_id.0;
                    found.push(OrphanTransaction { partition: at, producer_id, first_offset: first.0 });
                }
            }
        }
        found
    }
}

struct Recovery<'f> {
    folder: &'f Folder,
    shard: Shard,
    names: TopicNames,
    lost_offsets: LostOffsets,
    dropped: BTreeMap<&'static str, u64>,
    rescued: u64,
    damaged_ranges: u64,
    unread: Vec<String>,
}

/// The state that the intact entries of a log make. Its batches are not read.
pub(crate) fn state(folder: &Folder) -> Result<Shard, SalvageError> {
    Ok(Recovery::of(folder)?.shard)
}

impl<'f> Recovery<'f> {
    fn of(folder: &'f Folder) -> Result<Recovery<'f>, SalvageError> {
        let mut recovery = Recovery {
            folder,
            shard: Shard::new(Default::default()),
            names: TopicNames::default(),
            lost_offsets: LostOffsets::default(),
            dropped: BTreeMap::new(),
            rescued: 0,
            damaged_ranges: 0,
            unread: Vec::new(),
        };
        let mut failed = None;
        folder.replay(&mut |past| {
            if let Err(failure) = recovery.step(past) {
                failed.get_or_insert(failure);
            }
        })?;
        failed.map_or(Ok(recovery), Err)
    }

    fn step(&mut self, past: SalvageItem) -> Result<(), SalvageError> {
        match past {
            SalvageItem::Replayed(ReplayItem::Snapshot(row)) => {
                self.names.learn(&row);
                self.lost_offsets.restore(&row);
                self.shard.restore(&row);
            }
            SalvageItem::Replayed(ReplayItem::Entry(at, record)) => self.apply(at, &record),
            SalvageItem::Unreadable(error) => self.unread.push(error.to_string()),
            SalvageItem::Damage { from, to } => {
                self.damaged_ranges += 1;
                for (position, entry) in self.folder.fragments(from, to)? {
                    self.recover_entry(position, entry);
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, at: EntryRange, record: &LogRecord) {
        self.names.learn(record);
        self.lost_offsets.apply(record);
        let payload = at.payload.unwrap_or(at.position);
        self.shard.apply(RecordPosition { position: at.position, payload }, record);
    }

    /// Applies an entry of a damaged group if it is a batch with a valid checksum that begins at the next offset of its
    /// partition.
    fn recover_entry(&mut self, position: u64, entry: Vec<u8>) {
        let entry = Bytes::from(entry);
        let decoded = decode(&entry).ok();
        let batch = match &decoded {
            Some(DecodedRecord {
                record: LogRecord::Partitions(PartitionRecord::BatchAppended(batch)),
                payload: Some(payload),
            }) => {
                let next = self.lost_offsets.next(batch.partition);
                (next == Some(batch.base_offset.0)).then_some((batch, *payload))
            }
            _ => None,
        };
        let Some((batch, payload)) = batch else {
            if let Some(kind) = entry.first().and_then(|tag| kind_name(*tag)) {
                *self.dropped.entry(kind).or_default() += 1;
            }
            decoded.iter().for_each(|decoded| self.lose_markers(&decoded.record));
            return;
        };
        let bytes = entry.slice(payload..);
        if check_batch(batch, &bytes).is_err() {
            self.lose_batch(batch, &bytes);
            return;
        }
        self.rescued += 1;
        let at = EntryRange {
            position: LogPosition(position),
            payload: Some(LogPosition(position + 4 + payload as u64)),
            end: LogPosition(position + 4 + entry.len() as u64),
        };
        let record = LogRecord::Partitions(PartitionRecord::BatchAppended(batch.clone()));
        self.apply(at, &record);
    }

    /// Adds the offsets of a marker that is left out: it took the next offset of its partition.
    fn lose_markers(&mut self, record: &LogRecord) {
        let places = match record {
            LogRecord::Transactions(TransactionRecord::TransactionEnded(ended)) => ended.partitions.clone(),
            LogRecord::Partitions(PartitionRecord::MarkerAppended(marker)) => {
                vec![(marker.partition, marker.offset)]
            }
            _ => return,
        };
        for (at, offset) in places {
            if self.lost_offsets.next(at) == Some(offset.0) {
                self.lost_offsets.add(at, (offset.0, offset.0));
            }
        }
    }

    /// Adds the offsets of a damaged batch: its record says that it begins at the next offset, and its own header
    /// agrees in the base offset or in the number of records.
    fn lose_batch(&mut self, batch: &BatchAppended, bytes: &[u8]) {
        let (base, delta) = (batch.base_offset.0, batch.summary.last_offset_delta);
        let is_plausible = BatchHeader::parse(bytes)
            .is_ok_and(|header| header.base_offset == base || header.last_offset_delta == delta);
        if is_plausible && delta >= 0 {
            self.lost_offsets.add(batch.partition, (base, base + i64::from(delta)));
        }
    }

    /// Reads every batch that the state refers to; returns those that cannot be read.
    fn unreadable(&mut self) -> Result<BTreeSet<(TopicPartition, Offset)>, SalvageError> {
        let mut found = BTreeSet::new();
        for (at, partition) in self.shard.partitions().iter() {
            for batch in partition.tail() {
                if read(self.folder, &batch)?.is_err() {
                    found.insert((at, batch.base_offset));
                    self.lost_offsets.add(at, (batch.base_offset.0, batch.last_offset.0));
                }
            }
        }
        Ok(found)
    }

    /// Reads every part that the state refers to; returns those that are damaged.
    fn bad_parts(&mut self) -> Result<BTreeSet<(TopicPartition, Offset)>, SalvageError> {
        let runs = self.folder.runs();
        let tables = runs.list().into_iter().map(|run| (run, runs.parts(run).is_ok()));
        let tables: BTreeMap<u64, bool> = tables.collect();
        let mut found = BTreeSet::new();
        for (at, partition) in self.shard.partitions().iter() {
            for part in partition.parts() {
                let report = runs.verify(RunRow { partition: at, part: *part });
                let name = Folder::run_name(part.run);
                let faults = report.faults.into_iter().map(|error| Damage::of_run(&name, error));
                let faults: Vec<_> = faults.collect::<Result<_, _>>()?;
                if faults.is_empty() && tables.get(&part.run) == Some(&true) {
                    continue;
                }
                found.insert((at, part.base_offset));
                let lost = self.folder.salvage_part(part, &mut |_| Ok(()));
                let lost = lost.map_err(SalvageError::Run)?;
                lost.into_iter().for_each(|(from, to)| self.lost_offsets.add(at, (from.0, to.0)));
            }
        }
        Ok(found)
    }
}
