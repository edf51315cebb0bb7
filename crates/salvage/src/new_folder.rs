//! Writes the readable data of an old folder into a new one.
//!
//! The new log begins with the readable batches, which keep their offsets. After them it has the state as rows of a
//! snapshot, so that replay from the beginning gives the whole state. The rows refer to the batches at their new
//! positions.

use crate::SalvageError;
use crate::batch::read;
use crate::remaining::Remaining;
use ottla_store::inspect::Folder;
use ottla_store::{Callbacks, DiskMedium, Log, LogFailure, Medium, Options, PartEnd, RunError};
use ottla_types::record::{
    BatchAppended, BatchPlace, BatchesRestored, LogRecord, OffsetRecord, PartitionRecord, RunPart,
    StoredBatch,
};
use ottla_types::{
    BatchSummary, LogPosition, Millis, Offset, ProducerEpoch, ProducerId, TimestampType, TopicPartition,
};
use ottla_wire::batch::BatchHeader;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Batches in one row of a snapshot: a row must fit into half of the smallest segment.
const MAX_ROW_BATCHES: usize = 256;
/// Bytes that are appended between two flushes.
const FLUSH_EVERY: u64 = 8 << 20;

/// Writes the readable data of a folder into `to`, a folder that must be new or empty.
///
/// # Errors
/// `to` is not empty or cannot be written, or the old folder cannot be read.
pub fn write_folder(folder: &Folder, remaining: &Remaining, to: &Path) -> Result<(), SalvageError> {
    let medium = Arc::new(create(to)?);
    let identity = folder.identity();
    let options = Options {
        shard: identity.shard,
        segment_size: identity.geometry.segment_size(),
        // The headers of the copied runs have it.
        log_id: Some(identity.log_id),
        threads: false,
        recent: 0,
        ..Options::disk()
    };
    let open = || Log::open(Arc::clone(&medium) as Arc<dyn Medium>, options, Callbacks::none(), &mut |_| {});
    open()?.log.close().map_err(write_error)?;
    for run in whole_runs(remaining) {
        folder
            .copy_run(run, medium.as_ref())
            .map_err(|source| SalvageError::Copy { file: Folder::run_name(run), source })?;
    }
    let mut writer = Writer { folder, log: open()?.log, unflushed: 0 };
    let positions = writer.batches(remaining)?;
    let parts = writer.parts(remaining)?;
    let rows = remaining.shard.snapshot();
    let ranks = ranks(&rows);
    for mut row in rows {
        match &mut row {
            LogRecord::Partitions(PartitionRecord::PartitionRestored(bounds)) => {
                let end =
                    remaining.ends.get(&bounds.partition).map_or(bounds.next_offset, |end| Offset(*end));
                bounds.next_offset = bounds.next_offset.max(end);
            }
            LogRecord::Partitions(PartitionRecord::PartsRestored(row)) => {
                let at = row.partition;
                let now = |part: RunPart| match parts.get(&(at, part.base_offset)) {
                    Some(rewritten) => *rewritten,
                    None => Some(part),
                };
                row.parts = std::mem::take(&mut row.parts).into_iter().filter_map(now).collect();
            }
            _ => {}
        }
        for row in relocated(row, &positions, &ranks) {
            writer.append(&row)?;
        }
    }
    writer.log.close().map_err(write_error)
}

/// Runs with a part that can be copied as it is.
fn whole_runs(remaining: &Remaining) -> BTreeSet<u64> {
    let partitions = remaining.shard.partitions().iter();
    let parts = partitions.flat_map(|(at, partition)| partition.parts().iter().map(move |part| (at, part)));
    let whole = parts.filter(|(at, part)| !remaining.bad_parts.contains(&(*at, part.base_offset)));
    whole.map(|(_, part)| part.run).collect()
}

fn create(to: &Path) -> Result<DiskMedium, SalvageError> {
    if std::fs::read_dir(to).is_ok_and(|mut names| names.next().is_some()) {
        return Err(SalvageError::NotEmpty { folder: to.display().to_string() });
    }
    Ok(DiskMedium::open(to)?)
}

fn write_error(failure: LogFailure) -> SalvageError {
    SalvageError::Write(failure.into())
}

/// Positions of the batches in the new log, by partition and first offset.
type NewPositions = BTreeMap<(TopicPartition, Offset), LogPosition>;

/// The parts that replace damaged ones, by partition and first offset; `None` if no batch could be read.
type RewrittenParts = BTreeMap<(TopicPartition, Offset), Option<RunPart>>;

struct Writer<'f> {
    folder: &'f Folder,
    log: Log,
    unflushed: u64,
}

impl Writer<'_> {
    /// Copies every batch that can be read, in the order of the old log.
    fn batches(&mut self, remaining: &Remaining) -> Result<NewPositions, SalvageError> {
        let mut stored: Vec<(LogPosition, TopicPartition, StoredBatch)> = Vec::new();
        for (at, partition) in remaining.shard.partitions().iter() {
            let readable =
                partition.tail().filter(|one| !remaining.unreadable.contains(&(at, one.base_offset)));
            stored.extend(readable.filter_map(|one| match one.place {
                BatchPlace::Log { position, .. } => Some((position, at, one)),
                BatchPlace::Marker(_) => None,
            }));
        }
        stored.sort_unstable_by_key(|(position, ..)| *position);
        let mut positions = NewPositions::new();
        for (_, at, one) in stored {
            let Ok(Some(batch)) = read(self.folder, &one)? else {
                return Err(SalvageError::Changed);
            };
            let appended = if one.appended < Millis(0) { one.max_timestamp } else { one.appended };
            let record = record(at, batch.header(), appended, batch.bytes().clone());
            let place = self.append(&LogRecord::Partitions(PartitionRecord::BatchAppended(record)))?;
            positions.insert((at, one.base_offset), place);
        }
        Ok(positions)
    }

    /// Writes the readable batches of damaged parts into new runs, one for each old run.
    fn parts(&mut self, remaining: &Remaining) -> Result<RewrittenParts, SalvageError> {
        let mut bad: BTreeMap<u64, Vec<(TopicPartition, RunPart)>> = BTreeMap::new();
        for (at, partition) in remaining.shard.partitions().iter() {
            let parts =
                partition.parts().iter().filter(|part| remaining.bad_parts.contains(&(at, part.base_offset)));
            parts.for_each(|part| bad.entry(part.run).or_default().push((at, *part)));
        }
        let mut rewritten = RewrittenParts::new();
        let mut number = self.folder.runs().list().last().copied().unwrap_or(0);
        for parts in bad.into_values() {
            number += 1;
            let run = self.run(number, parts, &mut rewritten);
            run.map_err(|error| SalvageError::Write(error.into()))?;
        }
        Ok(rewritten)
    }

    fn run(
        &mut self,
        number: u64,
        parts: Vec<(TopicPartition, RunPart)>,
        rewritten: &mut RewrittenParts,
    ) -> Result<(), RunError> {
        let mut run = self.log.runs().writer(number)?;
        for (at, part) in parts {
            run.begin_part(at, part.base_offset)?;
            self.folder.salvage_part(&part, &mut |batch| run.push(&batch.bytes, part.appended))?;
            let RunPart { last_offset, clean, horizon, .. } = part;
            let now = run.end_part(PartEnd { last_offset, clean, horizon })?;
            rewritten.insert((at, part.base_offset), now);
        }
        run.finish().map(drop)
    }

    /// Appends a record; returns the position of its batch, or of the record if it has no batch.
    fn append(&mut self, record: &LogRecord) -> Result<LogPosition, SalvageError> {
        let appended = self.log.append(record).map_err(|error| SalvageError::Write(error.into()))?;
        self.unflushed += appended.end.0 - appended.position.0;
        if self.unflushed >= FLUSH_EVERY {
            self.unflushed = 0;
            self.log.flush().map_err(write_error)?;
        }
        Ok(appended.payload.unwrap_or(appended.position))
    }
}

/// The record that appends a stored batch to the new log.
fn record(
    partition: TopicPartition,
    header: &BatchHeader,
    at: Millis,
    payload: bytes::Bytes,
) -> BatchAppended {
    let timestamp_type = match header.is_log_append_time() {
        true => TimestampType::LogAppendTime,
        false => TimestampType::CreateTime,
    };
    let summary = BatchSummary {
        size: payload.len() as u32,
        last_offset_delta: header.last_offset_delta,
        record_count: header.record_count,
        base_timestamp: Millis(header.base_timestamp),
        max_timestamp: Millis(header.max_timestamp),
        timestamp_type,
        producer_id: ProducerId(header.producer_id),
        producer_epoch: ProducerEpoch(header.producer_epoch),
        base_sequence: header.base_sequence,
        transactional: header.is_transactional(),
        control: header.is_control(),
    };
    let (base_offset, leader_epoch) = (Offset(header.base_offset), header.partition_leader_epoch);
    BatchAppended { partition, base_offset, leader_epoch, at, summary, payload }
}

/// The positions by which committed offsets are ordered (T-185), mapped to small numbers in the same order, so that
/// every position of the new log is higher.
fn ranks(rows: &[LogRecord]) -> BTreeMap<LogPosition, LogPosition> {
    let mut positions = BTreeMap::new();
    for row in rows {
        let offsets = match row {
            LogRecord::Offsets(OffsetRecord::OffsetsRestored(row)) => &row.offsets,
            LogRecord::Offsets(OffsetRecord::StagedRestored(row)) => &row.offsets,
            _ => continue,
        };
        positions.extend(offsets.iter().map(|(_, _, position)| (*position, LogPosition(0))));
    }
    let ranked = positions.into_keys().zip(1..);
    ranked.map(|(position, rank)| (position, LogPosition(rank))).collect()
}

/// A row with the new positions of its batches, without lost batches.
fn relocated(
    row: LogRecord,
    positions: &NewPositions,
    ranks: &BTreeMap<LogPosition, LogPosition>,
) -> Vec<LogRecord> {
    let rank = |position: &mut LogPosition| {
        if let Some(rank) = ranks.get(position) {
            *position = *rank;
        }
    };
    match row {
        LogRecord::Partitions(PartitionRecord::BatchesRestored(BatchesRestored { partition, batches })) => {
            let relocate = |mut one: StoredBatch| {
                if let BatchPlace::Log { position, .. } = &mut one.place {
                    *position = *positions.get(&(partition, one.base_offset))?;
                }
                Some(one)
            };
            let kept: Vec<StoredBatch> = batches.into_iter().filter_map(relocate).collect();
            let rows = kept.chunks(MAX_ROW_BATCHES).map(|batches| {
                LogRecord::Partitions(PartitionRecord::BatchesRestored(BatchesRestored {
                    partition,
                    batches: batches.to_vec(),
                }))
            });
            rows.collect()
        }
        LogRecord::Offsets(OffsetRecord::OffsetsRestored(mut row)) => {
            row.offsets.iter_mut().for_each(|(_, _, position)| rank(position));
            vec![LogRecord::Offsets(OffsetRecord::OffsetsRestored(row))]
        }
        LogRecord::Offsets(OffsetRecord::StagedRestored(mut row)) => {
            row.offsets.iter_mut().for_each(|(_, _, position)| rank(position));
            vec![LogRecord::Offsets(OffsetRecord::StagedRestored(row))]
        }
        // It only separates the chunks of a snapshot.
        LogRecord::SnapshotReached(_) => Vec::new(),
        row => vec![row],
    }
}
