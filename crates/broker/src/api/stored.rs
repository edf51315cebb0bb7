//! The bytes of stored batches: from memory at once, from the disk without holding up other requests.

use bytes::Bytes;
use ottla_core::partition::{LEADER_EPOCH, ReadPlan, Source};
use ottla_store::LogReader;
use ottla_types::record::{BatchPlace, Marker, StoredBatch};
use ottla_wire::batch::{EndMarker, control_batch, patch_leader_epoch};
use std::io;
use tokio::task::spawn_blocking;

/// What was read of a plan.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// Whole batches in offset order; a chunk may hold several.
    pub(crate) chunks: Vec<Bytes>,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
    /// How many offsets they span.
    pub(crate) offsets: u64,
}

/// The bytes of what a plan names, as clients see them.
pub(crate) async fn read_plan(reader: &LogReader, plan: &ReadPlan) -> io::Result<Stored> {
    let batches = all_batches(&plan.sources)?;
    let span = |batch: &StoredBatch| u64::try_from(batch.last_offset.0 - batch.base_offset.0 + 1);
    let offsets = batches.iter().map(|batch| span(batch).unwrap_or(0)).sum();
    let chunks = read(reader, &batches).await?;
    Ok(Stored { bytes: chunks.iter().map(|chunk| chunk.len() as u64).sum(), chunks, offsets })
}

/// The bytes of one source.
pub(super) async fn bytes(reader: &LogReader, source: &Source) -> io::Result<Bytes> {
    let all = read(reader, &all_batches(std::slice::from_ref(source))?).await?;
    Ok(all.into_iter().next().unwrap_or_default())
}

fn all_batches(sources: &[Source]) -> io::Result<Vec<StoredBatch>> {
    let batch = |source: &Source| match source {
        Source::Batch(batch) => Ok(*batch),
        Source::Part { part, .. } => {
            Err(io::Error::other(format!("run {} cannot be read by this version", part.run)))
        }
    };
    sources.iter().map(batch).collect()
}

/// The bytes of batches, a chunk for each.
async fn read(reader: &LogReader, batches: &[StoredBatch]) -> io::Result<Vec<Bytes>> {
    let at_hand: Vec<Option<Bytes>> = batches.iter().map(|batch| recent(reader, batch)).collect();
    if at_hand.iter().all(Option::is_some) {
        return Ok(at_hand.into_iter().flatten().collect());
    }
    let missing = |(found, batch): (&Option<Bytes>, &StoredBatch)| match batch.place {
        BatchPlace::Log { position, size } if found.is_none() => Some((position, size as usize)),
        _ => None,
    };
    let missing: Vec<_> = at_hand.iter().zip(batches).filter_map(missing).collect();
    let driven = reader.is_driven();
    let reader = reader.clone();
    let read = move || reader.read_all(&missing);
    let read = if driven { read()? } else { spawn_blocking(read).await.map_err(io::Error::other)?? };
    let mut read = read.into_iter();
    let one = |(found, batch): (Option<Bytes>, &StoredBatch)| match batch.place {
        BatchPlace::Log { .. } => found.or_else(|| read.next()),
        BatchPlace::Marker(_) => found,
    };
    let all: Option<Vec<Bytes>> = at_hand.into_iter().zip(batches).map(one).collect();
    all.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn recent(reader: &LogReader, batch: &StoredBatch) -> Option<Bytes> {
    match batch.place {
        BatchPlace::Log { position, size } => reader.recent(position, size as usize),
        BatchPlace::Marker(marker) => marker_bytes(&marker, batch.base_offset.0),
    }
}

fn marker_bytes(marker: &Marker, offset: i64) -> Option<Bytes> {
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
