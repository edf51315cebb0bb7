//! Record batches of the log, compared with what the log's own records say of them.

use bytes::Bytes;
use ottla_store::OpenError;
use ottla_store::inspect::Folder;
use ottla_types::record::{BatchAppended, BatchPlace, StoredBatch};
use ottla_wire::batch::{Batch, BatchHeader};

/// Checks the checksum of a batch, and compares its header with the record that appended it.
pub(crate) fn check_batch(record: &BatchAppended, bytes: &Bytes) -> Result<(), String> {
    let batch = Batch::only(bytes).map_err(|error| format!("the batch: {error}"))?;
    batch.check_crc().map_err(|error| format!("the batch: {error}"))?;
    let (header, summary) = (batch.header(), &record.summary);
    let pairs = [
        ("base offset", header.base_offset, record.base_offset.0),
        ("leader epoch", header.partition_leader_epoch.into(), record.leader_epoch.into()),
        ("last offset delta", header.last_offset_delta.into(), summary.last_offset_delta.into()),
        ("number of records", header.record_count.into(), summary.record_count.into()),
        ("largest timestamp", header.max_timestamp, summary.max_timestamp.0),
        ("producer id", header.producer_id, summary.producer_id.0),
        ("producer epoch", header.producer_epoch.into(), summary.producer_epoch.0.into()),
        ("base sequence", header.base_sequence.into(), summary.base_sequence.into()),
    ];
    match pairs.into_iter().find(|(_, batch, record)| batch != record) {
        None => Ok(()),
        Some((what, batch, record)) => {
            Err(format!("the {what} of the batch is {batch}, that of its record {record}"))
        }
    }
}

/// Compares the header of a batch with the row of a snapshot that refers to it.
pub(crate) fn check_reference(stored: &StoredBatch, size: u32, head: &[u8]) -> Result<(), String> {
    if head.is_empty() {
        return Err("the file is missing or ends before this offset this offset".to_owned());
    }
    let header = BatchHeader::parse(head).map_err(|error| error.to_string())?;
    let found = (header.base_offset, header.last_offset(), header.size());
    let wanted = (stored.base_offset.0, stored.last_offset.0, size as usize);
    if found == wanted { Ok(()) } else { Err("another batch is here".to_owned()) }
}

/// Reads a batch of the log; none for a marker. The inner error means that another batch is there or that it is
/// damaged.
pub(crate) fn read(folder: &Folder, stored: &StoredBatch) -> Result<Result<Option<Batch>, ()>, OpenError> {
    let BatchPlace::Log { position, size } = stored.place else { return Ok(Ok(None)) };
    let bytes = Bytes::from(folder.read(position.0, size as usize)?);
    let Ok(batch) = Batch::only(&bytes) else { return Ok(Err(())) };
    let header = batch.header();
    let fits = header.base_offset == stored.base_offset.0 && header.last_offset() == stored.last_offset.0;
    Ok(if fits && batch.check_crc().is_ok() { Ok(Some(batch)) } else { Err(()) })
}
