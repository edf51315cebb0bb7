//! The bytes of stored batches: from memory at once, from the disk without holding up other requests.

use bytes::Bytes;
use ottla_core::partition::{LEADER_EPOCH, ReadPlan, Source};
use ottla_store::{Haste, LogReader, Wanted};
use ottla_types::record::{BatchPlace, Marker, RunPart, StoredBatch};
use ottla_types::{Millis, Offset};
use ottla_wire::batch::{EndMarker, control_batch, patch_leader_epoch};
use std::io;
use tokio::task::spawn_blocking;

/// How often something is planned again that was freed before it was read. Each time it lies somewhere else, or is deleted.
pub(crate) const TRIES: usize = 8;

/// Bytes that are copied without handing them to another thread, if they are at hand.
const AT_ONCE: u64 = 2 << 20;

/// What was read of a plan.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// Whole batches in offset order; a chunk may hold several.
    pub(crate) chunks: Vec<Bytes>,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
    /// How many offsets they span.
    pub(crate) offsets: u64,
    /// The last offset that was read, or that is known to hold nothing; none if nothing was planned.
    pub(crate) last: Option<Offset>,
}

/// The bytes of what a plan names, as clients see them. No bytes do not mean that there are none behind [`Stored::last`].
///
/// # Errors
/// `NotFound`: a segment or a run was freed since the plan was made. Plan again.
pub(crate) async fn read_plan(reader: &LogReader, plan: &ReadPlan) -> io::Result<Stored> {
    let at_hand: Vec<Option<Bytes>> = plan.sources.iter().map(|source| recent(reader, source)).collect();
    let blocks = at_hand.iter().any(Option::is_none) && !reader.is_driven();
    let reading = || Reading::new(reader.clone(), plan);
    if !blocks {
        return reading().all(&at_hand, Haste::Waits);
    }
    // A hand-over to another thread and back can take as long as a copy out of the page cache.
    if plan.most <= AT_ONCE {
        match reading().all(&at_hand, Haste::AtOnce) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
    let reading = reading();
    spawn_blocking(move || reading.all(&at_hand, Haste::Waits)).await.map_err(io::Error::other)?
}

/// The batch in a source that may hold the first record of a time or later, from an offset on; none if none in it does.
///
/// # Errors
/// As [`read_plan`].
pub(super) async fn find_time(reader: &LogReader, source: Source, time: Millis) -> io::Result<Option<Bytes>> {
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

/// The reading of a plan, source after source.
struct Reading {
    reader: LogReader,
    sources: Vec<Source>,
    max_bytes: u64,
    first_whole: bool,
    stored: Stored,
}

impl Reading {
    fn new(reader: LogReader, plan: &ReadPlan) -> Reading {
        let ReadPlan { max_bytes, first_whole, .. } = *plan;
        Reading { reader, sources: plan.sources.clone(), max_bytes, first_whole, stored: Stored::default() }
    }

    /// Reads what is not at hand. Blocks, or fails with `WouldBlock` in haste.
    fn all(mut self, at_hand: &[Option<Bytes>], haste: Haste) -> io::Result<Stored> {
        let missing = |(source, found): (&Source, &Option<Bytes>)| match source {
            Source::Batch(StoredBatch { place: BatchPlace::Log { position, size }, .. })
                if found.is_none() =>
            {
                Some((*position, *size as usize))
            }
            _ => None,
        };
        let missing: Vec<_> = self.sources.iter().zip(at_hand).filter_map(missing).collect();
        // What was freed in the middle of this may have been read in part: nothing of it counts.
        let mut read =
            if missing.is_empty() { Vec::new() } else { self.reader.read_all_in(&missing, haste)? }
                .into_iter();
        for (source, found) in std::mem::take(&mut self.sources).iter().zip(at_hand) {
            let more = match source {
                Source::Batch(batch) => {
                    let bytes = found.clone().or_else(|| read.next()).ok_or(io::ErrorKind::InvalidData)?;
                    self.push(bytes, batch.base_offset, batch.last_offset)
                }
                Source::Part { part, from, to } => self.part(part, *from, *to, haste)?,
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

    /// Takes bytes if they fit. False if nothing can follow.
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

    /// Reads as much of a part as fits. False if there is more in it.
    fn part(&mut self, part: &RunPart, from: Offset, to: Offset, haste: Haste) -> io::Result<bool> {
        let max_bytes = usize::try_from(self.left()).unwrap_or(usize::MAX);
        let wanted = Wanted { from, to, max_bytes, first_whole: self.must() };
        let slice = self.reader.runs().read_in(part, wanted, haste)?;
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

/// The batch of a marker as clients see it.
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
