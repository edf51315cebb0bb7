//! The bytes of stored batches: from memory at once, from the disk without holding up other requests.

use bytes::Bytes;
use ottla_core::partition::LEADER_EPOCH;
use ottla_store::LogReader;
use ottla_types::record::{BatchPlace, Marker, StoredBatch};
use ottla_wire::batch::{EndMarker, control_batch, patch_leader_epoch};
use std::io;

/// The bytes of a batch as clients see them.
pub(super) async fn bytes(reader: &LogReader, batch: &StoredBatch) -> io::Result<Bytes> {
    let all = read(reader, std::slice::from_ref(batch)).await?;
    Ok(all.into_iter().next().unwrap_or_default())
}

/// The bytes of batches, a chunk for each.
pub(crate) async fn read(reader: &LogReader, batches: &[StoredBatch]) -> io::Result<Vec<Bytes>> {
    let at_hand: Vec<Option<Bytes>> = batches.iter().map(|batch| recent(reader, batch)).collect();
    if at_hand.iter().all(Option::is_some) {
        return Ok(at_hand.into_iter().flatten().collect());
    }
    let driven = reader.is_driven();
    let (reader, batches) = (reader.clone(), batches.to_vec());
    let read = move || {
        let one = |(found, batch): (Option<Bytes>, &StoredBatch)| match (found, batch.place) {
            (Some(bytes), _) => Ok(bytes),
            (None, BatchPlace::Log { position, size }) => reader.read(position, size as usize),
            (None, BatchPlace::Marker(_)) => Err(io::ErrorKind::InvalidData.into()),
        };
        at_hand.into_iter().zip(&batches).map(one).collect()
    };
    if driven {
        return read();
    }
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
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
