//! A batch with some of its records removed, as compaction writes it.
//!
//! Offsets never change. The header keeps base offset, last offset delta, leader epoch, producer and sequence number,
//! so that the batch still covers the offsets it covered; each record keeps its offset delta. The count, the largest
//! timestamp of the kept records, the length and the checksum are new; so is the base timestamp if a delete horizon
//! replaces it.

use super::build::put_record;
use super::header::DELETE_HORIZON;
use super::{Batch, BatchError, BatchHeader, HEADER_SIZE, Record, RecordSet, seal};
use crate::codec::{Compression, compress};
use bytes::Bytes;

/// The records of a batch that are kept.
#[derive(Debug)]
pub struct Selection {
    header: BatchHeader,
    set: RecordSet,
    /// For each record, whether it is kept.
    is_kept: Vec<bool>,
    kept: usize,
    tombstones: usize,
}

impl Selection {
    /// The number of records that are kept.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// The number of kept records without a value.
    pub fn tombstones(&self) -> usize {
        self.tombstones
    }

    /// Whether all records are kept.
    pub fn is_whole(&self) -> bool {
        self.kept == self.is_kept.len()
    }

    /// The batch with the kept records, compressed as before. A `horizon`, in milliseconds since 1970, becomes its
    /// delete horizon; without one, the delete horizon stays as it is. If no record is kept, this is
    /// [`Batch::to_empty`].
    ///
    /// # Errors
    /// Compression fails, or the batch becomes too large for its length field.
    pub fn build(&self, horizon: Option<i64>) -> Result<Bytes, BatchError> {
        if self.kept == 0 {
            return empty(&self.header);
        }
        let mut header = self.header;
        if let Some(horizon) = horizon {
            header.attributes |= DELETE_HORIZON;
            header.base_timestamp = horizon;
        }
        let mut records = Vec::new();
        let mut latest = i64::MIN;
        for record in self.kept_records() {
            let mut record = record?;
            let timestamp = self.header.timestamp(record.timestamp_delta);
            latest = latest.max(timestamp);
            record.timestamp_delta = timestamp.wrapping_sub(header.base_timestamp);
            put_record(&mut records, &record);
        }
        header.record_count = i32::try_from(self.kept).unwrap_or(i32::MAX);
        if !header.is_log_append_time() {
            header.max_timestamp = latest;
        }
        let records = match header.compression()? {
            Compression::None => records,
            codec => compress(codec, &records)?,
        };
        let mut bytes = Vec::with_capacity(HEADER_SIZE + records.len());
        bytes.extend_from_slice(&header.to_bytes());
        bytes.extend_from_slice(&records);
        seal(&mut bytes)?;
        Ok(bytes.into())
    }

    fn kept_records(&self) -> impl Iterator<Item = Result<Record<'_>, BatchError>> {
        self.set.iter().zip(&self.is_kept).filter(|(_, is_kept)| **is_kept).map(|(record, _)| record)
    }
}

impl Batch {
    /// Selects the records for which `keep` returns true. Decompresses at most `cap` bytes.
    ///
    /// # Errors
    /// As [`Batch::records`], or a record is malformed.
    pub fn select(
        &self,
        cap: usize,
        mut keep: impl FnMut(&Record<'_>) -> bool,
    ) -> Result<Selection, BatchError> {
        let set = self.records(cap)?;
        let mut is_kept = Vec::new();
        let (mut kept, mut tombstones) = (0, 0);
        for record in set.iter() {
            let record = record?;
            let keep = keep(&record);
            is_kept.push(keep);
            kept += usize::from(keep);
            tombstones += usize::from(keep && record.value.is_none());
        }
        Ok(Selection { header: *self.header(), set, is_kept, kept, tombstones })
    }

    /// The batch without records and without compression. It still covers the same offsets, and has the producer's last
    /// sequence number and the largest timestamp.
    ///
    /// # Errors
    /// Never: the batch has a fixed size.
    pub fn to_empty(&self) -> Result<Bytes, BatchError> {
        empty(self.header())
    }
}

fn empty(header: &BatchHeader) -> Result<Bytes, BatchError> {
    const CODEC_AND_HORIZON: i16 = 0b111 | DELETE_HORIZON;
    let mut header = *header;
    header.attributes &= !CODEC_AND_HORIZON;
    header.base_timestamp = -1;
    header.record_count = 0;
    let mut bytes = header.to_bytes().to_vec();
    seal(&mut bytes)?;
    Ok(bytes.into())
}
