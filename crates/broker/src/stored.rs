//! Reads the bytes of stored batches: from memory directly, from the disk on a blocking thread.

use bytes::Bytes;
use ottla_core::catalog::LEADER_EPOCH;
use ottla_core::partitions::{ReadPlan, Source};
use ottla_store::{LogReader, ReadMode, ReadRange};
use ottla_types::record::{BatchPlace, Marker, RunPart, StoredBatch};
use ottla_types::{Millis, Offset};
use ottla_wire::batch::{EndMarker, control_batch, patch_leader_epoch};
use std::io;
use tokio::task::spawn_blocking;

/// How often a read is planned again because its segment or run was freed before it was read. Each time the data has
/// moved, or is deleted.
pub(crate) const MAX_REPLANS: usize = 8;

/// Up to this many bytes are read on the calling thread if that does not block.
const MOST_IN_PLACE: u64 = 2 << 20;

/// What was read of a plan.
#[derive(Debug, Default)]
pub(crate) struct StoredBatches {
    /// Whole batches in offset order; a chunk may hold several.
    pub(crate) chunks: Vec<Bytes>,
    /// Bytes of all chunks.
    pub(crate) bytes: u64,
    /// Offsets that the batches span.
    pub(crate) offsets: u64,
    /// The last offset that was read, or that is known to hold no record; none if nothing was planned.
    pub(crate) last: Option<Offset>,
}

/// Reads a plan, as clients see its batches. An empty result does not mean that there are no batches behind
/// [`StoredBatches::last`].
///
/// # Errors
/// `NotFound`: a segment or a run was freed since the plan was made. Plan again.
pub(crate) async fn read_plan(reader: &LogReader, plan: &ReadPlan) -> io::Result<StoredBatches> {
    let in_memory: Vec<Option<Bytes>> = plan.sources.iter().map(|source| recent(reader, source)).collect();
    let blocks = in_memory.iter().any(Option::is_none) && !reader.is_driven();
    let reading = || PlanReader::new(reader.clone(), plan);
    if !blocks {
        return reading().all(&in_memory, ReadMode::Blocking);
    }
    // Switching to another thread and back can take as long as a copy out of the page cache.
    if plan.most <= MOST_IN_PLACE {
        match reading().all(&in_memory, ReadMode::NonBlocking) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
    let reading = reading();
    spawn_blocking(move || reading.all(&in_memory, ReadMode::Blocking)).await.map_err(io::Error::other)?
}

/// The batch of a source that may hold the first record with this timestamp or a later one; none if no batch of it
/// does.
///
/// # Errors
/// As [`read_plan`].
pub(crate) async fn find_time(reader: &LogReader, source: Source, time: Millis) -> io::Result<Option<Bytes>> {
    if let Some(bytes) = recent(reader, &source) {
        return Ok(Some(bytes));
    }
    let driven = reader.is_driven();
    let reader = reader.clone();
    let find = move || match source {
        Source::Batch(StoredBatch { place: BatchPlace::Log { position, size }, .. }) => {
            reader.read(position, size as usize).map(Some)
        }
        Source::Batch(_) => Err(io::ErrorKind::InvalidData.into()),
        Source::Part { part, from, to } => {
            let found = reader.runs().find_time(&part, time, from, to)?;
            Ok(found.map(|batch| batch.bytes))
        }
    };
    if driven { find() } else { spawn_blocking(find).await.map_err(io::Error::other)? }
}

/// Reads a plan, source after source.
struct PlanReader {
    reader: LogReader,
    sources: Vec<Source>,
    max_bytes: u64,
    first_whole: bool,
    stored: StoredBatches,
}

impl PlanReader {
    fn new(reader: LogReader, plan: &ReadPlan) -> PlanReader {
        let ReadPlan { max_bytes, first_whole, .. } = *plan;
        PlanReader {
            reader,
            sources: plan.sources.clone(),
            max_bytes,
            first_whole,
            stored: StoredBatches::default(),
        }
    }

    /// Reads the sources that are not in memory. Blocks, or fails with `WouldBlock` under [`ReadMode::NonBlocking`].
    fn all(mut self, in_memory: &[Option<Bytes>], mode: ReadMode) -> io::Result<StoredBatches> {
        let missing = |(source, found): (&Source, &Option<Bytes>)| match source {
            Source::Batch(StoredBatch { place: BatchPlace::Log { position, size }, .. })
                if found.is_none() =>
            {
                Some((*position, *size as usize))
            }
            _ => None,
        };
        let missing: Vec<_> = self.sources.iter().zip(in_memory).filter_map(missing).collect();
        // An error drops everything: a segment that was freed during the read may have been read in part.
        let mut read =
            if missing.is_empty() { Vec::new() } else { self.reader.read_all_with(&missing, mode)? }
                .into_iter();
        for (source, found) in std::mem::take(&mut self.sources).iter().zip(in_memory) {
            let more = match source {
                Source::Batch(batch) => {
                    let bytes = found.clone().or_else(|| read.next()).ok_or(io::ErrorKind::InvalidData)?;
                    self.push(bytes, batch.base_offset, batch.last_offset)
                }
                Source::Part { part, from, to } => self.part(part, *from, *to, mode)?,
            };
            if !more {
                break;
            }
        }
        Ok(self.stored)
    }

    fn left(&self) -> u64 {
        self.max_bytes.saturating_sub(self.stored.bytes)
    }

    fn must(&self) -> bool {
        self.first_whole && self.stored.chunks.is_empty()
    }

    /// Adds bytes if they fit. False if nothing more can follow.
    fn push(&mut self, bytes: Bytes, first: Offset, last: Offset) -> bool {
        if bytes.len() as u64 > self.left() && !self.must() {
            return false;
        }
        self.stored.bytes += bytes.len() as u64;
        self.stored.offsets += u64::try_from(last.0 - first.0 + 1).unwrap_or(0);
        self.stored.last = Some(last);
        self.stored.chunks.push(bytes);
        true
    }

    /// Reads as much of a part as fits. False if the part holds more.
    fn part(&mut self, part: &RunPart, from: Offset, to: Offset, mode: ReadMode) -> io::Result<bool> {
        let max_bytes = usize::try_from(self.left()).unwrap_or(usize::MAX);
        let wanted = ReadRange { from, to, max_bytes, first_whole: self.must() };
        let slice = self.reader.runs().read_with(part, wanted, mode)?;
        if !slice.bytes.is_empty() {
            self.push(slice.bytes, slice.first, slice.last);
        }
        if slice.complete {
            self.stored.last = Some(part.last_offset.min(to.plus(-1)));
        }
        Ok(slice.complete)
    }
}

fn recent(reader: &LogReader, source: &Source) -> Option<Bytes> {
    let Source::Batch(batch) = source else { return None };
    match batch.place {
        BatchPlace::Log { position, size } => reader.recent(position, size as usize),
        BatchPlace::Marker(marker) => marker_bytes(&marker, batch.base_offset.0),
    }
}

/// The control batch of a transaction marker, as clients see it.
pub(crate) fn marker_bytes(marker: &Marker, offset: i64) -> Option<Bytes> {
    let end = EndMarker {
        commit: marker.commit,
        producer_id: marker.producer_id.0,
        producer_epoch: marker.producer_epoch.0,
        coordinator_epoch: marker.coordinator_epoch,
    };
    let mut batch = control_batch(&end, offset, marker.at.0).ok()?.to_vec();
    patch_leader_epoch(&mut batch, LEADER_EPOCH);
    Some(batch.into())
}
