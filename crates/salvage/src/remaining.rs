//! What is left of a damaged log: the state that its whole records make, and which batches of it can be read.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use ottla_core::{Applied, Shard};
use ottla_layout::record::{Decoded, decode, kind_name};
use ottla_layout::run::RunRow;
use ottla_store::inspect::{Folder, Past};
use ottla_store::{Appended, Replayed, RunError};
use ottla_types::record::{BatchAppended, BatchPlace, LogRecord, StoredBatch};
use ottla_types::{LogPosition, Offset, TopicPartition};
use ottla_wire::batch::{Batch, BatchHeader};

use super::ledger::{Ledger, Range};
use super::names::Names;
use super::verify::check_batch;
use crate::cli::failure::Failure;

/// What a log comes to.
pub(super) struct Left {
    pub(super) shard: Shard,
    pub(super) names: Names,
    /// The offset that the next record of each partition takes: never one that was given before, as far as anything tells.
    pub(super) ends: BTreeMap<TopicPartition, i64>,
    /// Lost offsets of partitions.
    pub(super) lost: BTreeMap<TopicPartition, Vec<Range>>,
    /// Kinds of entries in damaged groups that could still be told, and were left out: how many of each.
    pub(super) dropped: BTreeMap<&'static str, u64>,
    /// Batches in damaged groups that their own checksums proved.
    pub(super) rescued: u64,
    /// Batches that the state refers to and that cannot be read, by partition and offset.
    pub(super) unreadable: BTreeSet<(TopicPartition, Offset)>,
    /// Parts of runs that are not whole, and so cannot be taken over as they are.
    pub(super) bad_parts: BTreeSet<(TopicPartition, Offset)>,
    /// Damaged stretches of the log.
    pub(super) stretches: u64,
    /// What else cannot be read.
    pub(super) unread: Vec<String>,
}

impl Left {
    /// Reads a folder past all that is damaged.
    pub(super) fn of(folder: &Folder) -> Result<Left, Failure> {
        let mut reading = Reading::of(folder)?;
        let unreadable = reading.unreadable()?;
        let bad_parts = reading.bad_parts()?;
        let Reading { shard, names, mut ledger, dropped, rescued, stretches, unread, .. } = reading;
        let ends = ledger.ends();
        let lost = ledger.lost(shard.partitions());
        Ok(Left { shard, names, ends, lost, dropped, rescued, unreadable, bad_parts, stretches, unread })
    }

    /// True if something is not as it was.
    pub(super) fn is_damaged(&self) -> bool {
        self.stretches > 0 || !self.lost.is_empty() || !self.unread.is_empty()
    }

    /// Transactions that hold readers back and that no transactional id will end: partition, producer, first offset.
    pub(super) fn orphans(&self) -> Vec<(TopicPartition, i64, i64)> {
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
                    found.push((at, producer.producer_id.0, first.0));
                }
            }
        }
        found
    }
}

struct Reading<'f> {
    folder: &'f Folder,
    shard: Shard,
    names: Names,
    ledger: Ledger,
    dropped: BTreeMap<&'static str, u64>,
    rescued: u64,
    stretches: u64,
    unread: Vec<String>,
}

/// The state that what is left of a log makes, without a look at the batches.
pub(super) fn state(folder: &Folder) -> Result<Shard, Failure> {
    Ok(Reading::of(folder)?.shard)
}

impl<'f> Reading<'f> {
    fn of(folder: &'f Folder) -> Result<Reading<'f>, Failure> {
        let mut reading = Reading {
            folder,
            shard: Shard::new(Default::default()),
            names: Names::default(),
            ledger: Ledger::default(),
            dropped: BTreeMap::new(),
            rescued: 0,
            stretches: 0,
            unread: Vec::new(),
        };
        let mut failed = None;
        folder.replay(&mut |past| {
            if let Err(failure) = reading.past(past) {
                failed.get_or_insert(failure);
            }
        })?;
        failed.map_or(Ok(reading), Err)
    }

    fn past(&mut self, past: Past) -> Result<(), Failure> {
        match past {
            Past::Replayed(Replayed::Snapshot(row)) => {
                self.names.learn(&row);
                self.ledger.row(&row);
                self.shard.restore(&row);
            }
            Past::Replayed(Replayed::Entry(at, record)) => self.apply(at, &record),
            Past::Unread(error) => self.unread.push(error.to_string()),
            Past::Damage { from, to } => {
                self.stretches += 1;
                for (position, entry) in self.folder.scraps(from, to)? {
                    self.scrap(position, entry);
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, at: Appended, record: &LogRecord) {
        self.names.learn(record);
        self.ledger.record(record);
        let payload = at.payload.unwrap_or(at.position);
        self.shard.apply(Applied { position: at.position, payload }, record);
    }

    /// Takes an entry of a damaged group if it is a batch that its own checksum and its place in the partition prove.
    fn scrap(&mut self, position: u64, entry: Vec<u8>) {
        let entry = Bytes::from(entry);
        let decoded = decode(&entry).ok();
        let batch = match &decoded {
            Some(Decoded { record: LogRecord::BatchAppended(batch), payload: Some(payload) }) => {
                let next = self.ledger.next(batch.partition);
                (next == Some(batch.base_offset.0)).then_some((batch, *payload))
            }
            _ => None,
        };
        let Some((batch, payload)) = batch else {
            if let Some(kind) = entry.first().and_then(|tag| kind_name(*tag)) {
                *self.dropped.entry(kind).or_default() += 1;
            }
            decoded.iter().for_each(|decoded| self.markers(&decoded.record));
            return;
        };
        let bytes = entry.slice(payload..);
        if check_batch(batch, &bytes).is_err() {
            self.spoiled(batch, &bytes);
            return;
        }
        self.rescued += 1;
        let at = Appended {
            position: LogPosition(position),
            payload: Some(LogPosition(position + 4 + payload as u64)),
            end: LogPosition(position + 4 + entry.len() as u64),
        };
        let record = LogRecord::BatchAppended(batch.clone());
        self.apply(at, &record);
    }

    /// Markers that nothing proves are left out, and yet they took the offsets that follow.
    fn markers(&mut self, record: &LogRecord) {
        let places = match record {
            LogRecord::TransactionEnded(ended) => ended.partitions.clone(),
            LogRecord::MarkerAppended(marker) => vec![(marker.partition, marker.offset)],
            _ => return,
        };
        for (at, offset) in places {
            if self.ledger.next(at) == Some(offset.0) {
                self.ledger.lose(at, (offset.0, offset.0));
            }
        }
    }

    /// A batch that is spoiled still tells which offsets it had: its record says that it follows the one before, and at least one of
    /// base offset and number is the same in its own header.
    fn spoiled(&mut self, batch: &BatchAppended, bytes: &[u8]) {
        let (base, delta) = (batch.base_offset.0, batch.summary.last_offset_delta);
        let told = BatchHeader::parse(bytes)
            .is_ok_and(|header| header.base_offset == base || header.last_offset_delta == delta);
        if told && delta >= 0 {
            self.ledger.lose(batch.partition, (base, base + i64::from(delta)));
        }
    }

    /// Looks at every batch that the state refers to.
    fn unreadable(&mut self) -> Result<BTreeSet<(TopicPartition, Offset)>, Failure> {
        let mut found = BTreeSet::new();
        for (at, partition) in self.shard.partitions().iter() {
            for batch in partition.tail() {
                if read(self.folder, &batch)?.is_err() {
                    found.insert((at, batch.base_offset));
                    self.ledger.lose(at, (batch.base_offset.0, batch.last_offset.0));
                }
            }
        }
        Ok(found)
    }

    /// Looks at every part that the state refers to.
    fn bad_parts(&mut self) -> Result<BTreeSet<(TopicPartition, Offset)>, Failure> {
        let runs = self.folder.runs();
        let tables = runs.list().into_iter().map(|run| (run, runs.parts(run).is_ok()));
        let tables: BTreeMap<u64, bool> = tables.collect();
        let mut found = BTreeSet::new();
        for (at, partition) in self.shard.partitions().iter() {
            for part in partition.parts() {
                let report = runs.verify(RunRow { partition: at, part: *part });
                let faults: Vec<_> =
                    report.faults.into_iter().map(unless_medium).collect::<Result<_, _>>()?;
                if faults.is_empty() && tables.get(&part.run) == Some(&true) {
                    continue;
                }
                found.insert((at, part.base_offset));
                let lost = self.folder.part_left(part, &mut |_| Ok(()));
                let lost = lost.map_err(|error| Failure::unreadable(error.to_string()))?;
                lost.into_iter().for_each(|(from, to)| self.ledger.lose(at, (from.0, to.0)));
            }
        }
        Ok(found)
    }
}

/// Whether a medium failed: then nothing is known.
pub(super) fn unless_medium(error: RunError) -> Result<RunError, Failure> {
    match error {
        RunError::Medium { .. } => Err(Failure::unreadable(error.to_string())),
        error => Ok(error),
    }
}

/// The bytes of a batch in the log, none for a marker; or that they are not what they should be.
pub(super) fn read(folder: &Folder, stored: &StoredBatch) -> Result<Result<Option<Batch>, ()>, Failure> {
    let BatchPlace::Log { position, size } = stored.place else { return Ok(Ok(None)) };
    let bytes = Bytes::from(folder.read(position.0, size as usize)?);
    let Ok(batch) = Batch::only(&bytes) else { return Ok(Err(())) };
    let header = batch.header();
    let fits = header.base_offset == stored.base_offset.0 && header.last_offset() == stored.last_offset.0;
    Ok(if fits && batch.check_crc().is_ok() { Ok(Some(batch)) } else { Err(()) })
}
