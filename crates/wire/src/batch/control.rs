//! Control batches: the markers that end a transaction in a partition.

use super::{BatchBuilder, BatchError, NewRecord, Record};
use crate::codec::Compression;
use bytes::Bytes;

const ABORT: i16 = 0;
const COMMIT: i16 = 1;

/// The end of a producer's transaction in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndMarker {
    /// Commit, or abort.
    pub commit: bool,
    /// The producer.
    pub producer_id: i64,
    /// The epoch of the marker.
    pub producer_epoch: i16,
    /// The epoch of the coordinator that wrote it.
    pub coordinator_epoch: i32,
}

/// The batch of a marker (T-120): one record at `offset`, control and transactional, no sequence number.
///
/// # Errors
/// Never: the batch has a fixed size.
pub fn control_batch(marker: &EndMarker, offset: i64, timestamp: i64) -> Result<Bytes, BatchError> {
    let mut key = [0; 4];
    let kind = if marker.commit { COMMIT } else { ABORT };
    key[2..].copy_from_slice(&kind.to_be_bytes());
    let mut value = [0; 6];
    value[2..].copy_from_slice(&marker.coordinator_epoch.to_be_bytes());
    let mut builder = BatchBuilder::new(Compression::None)
        .producer(marker.producer_id, marker.producer_epoch, -1)
        .transactional(true)
        .control(true)
        .base_offset(offset);
    builder.push(&NewRecord { timestamp, key: Some(&key), value: Some(&value), headers: &[] });
    builder.build()
}

/// The content of a control record. Later versions of key and value only append bytes, which are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlRecord {
    /// A transaction was committed or aborted.
    End {
        /// Commit, or abort.
        commit: bool,
        /// The epoch of the coordinator; -1 if the value is too short for it.
        coordinator_epoch: i32,
    },
    /// Another type of control record, by its number. Consumers skip it.
    Other(i16),
}

impl ControlRecord {
    /// Reads a record of a control batch; `None` if its key is too short to have a type.
    pub fn of(record: &Record<'_>) -> Option<ControlRecord> {
        let kind = record.key?.get(2..4)?.first_chunk()?;
        let kind = i16::from_be_bytes(*kind);
        if kind != ABORT && kind != COMMIT {
            return Some(ControlRecord::Other(kind));
        }
        let epoch = record.value.and_then(|value| value.get(2..6)?.first_chunk());
        let coordinator_epoch = epoch.map_or(-1, |epoch| i32::from_be_bytes(*epoch));
        Some(ControlRecord::End { commit: kind == COMMIT, coordinator_epoch })
    }
}
