//! A batch with fewer records: what compaction leaves of it.
//!
//! Offsets never change. The header keeps base offset, last offset delta, leader epoch, producer and sequence number, so that the
//! batch still covers the offsets it covered; each record keeps its offset delta. New are the count, the largest timestamp of what
//! is left, length and checksum, and the base timestamp where a delete horizon takes its place.

use super::build::put_record;
use super::header::DELETE_HORIZON;
use super::{Batch, BatchError, BatchHeader, HEADER_SIZE, Record, RecordSet, seal};
use crate::codec::{Compression, compress};
use bytes::Bytes;

/// Which records of a batch stay.
#[derive(Debug)]
pub struct Selection {
    header: BatchHeader,
    set: RecordSet,
    /// For each record whether it stays.
    stay: Vec<bool>,
    left: usize,
    tombstones: usize,
}

impl Selection {
    /// How many records stay.
    pub fn left(&self) -> usize {
        self.left
    }

    /// How many of those that stay have no value.
    pub fn tombstones(&self) -> usize {
        self.tombstones
    }

    /// Whether all records stay.
    pub fn is_whole(&self) -> bool {
        self.left == self.stay.len()
    }

    /// The batch with the records that stay, compressed as before. A `horizon`, in milliseconds since 1970, becomes its delete
    /// horizon; without one it keeps the one it has. A batch of which nothing stays is [`Batch::emptied`].
    ///
    /// # Errors
    /// The codec refuses, or the batch becomes too large for its length field.
    pub fn build(&self, horizon: Option<i64>) -> Result<Bytes, BatchError> {
        if self.left == 0 {
            return empty(&self.header);
        }
        let mut header = self.header;
        if let Some(horizon) = horizon {
            header.attributes |= DELETE_HORIZON;
            header.base_timestamp = horizon;
        }
        let mut records = Vec::new();
        let mut latest = i64::MIN;
        for record in self.staying() {
            let mut record = record?;
            let timestamp = self.header.timestamp(record.timestamp_delta);
            latest = latest.max(timestamp);
            record.timestamp_delta = timestamp.wrapping_sub(header.base_timestamp);
            put_record(&mut records, &record);
        }
        header.record_count = i32::try_from(self.left).unwrap_or(i32::MAX);
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

    fn staying(&self) -> impl Iterator<Item = Result<Record<'_>, BatchError>> {
        self.set.iter().zip(&self.stay).filter(|(_, stay)| **stay).map(|(record, _)| record)
    }
}

impl Batch {
    /// Asks of every record whether it stays. At most `cap` bytes are decompressed.
    ///
    /// # Errors
    /// As [`Batch::records`], or a record is malformed.
    pub fn select(
        &self,
        cap: usize,
        mut stays: impl FnMut(&Record<'_>) -> bool,
    ) -> Result<Selection, BatchError> {
        let set = self.records(cap)?;
        let mut stay = Vec::new();
        let (mut left, mut tombstones) = (0, 0);
        for record in set.iter() {
            let record = record?;
            let stays = stays(&record);
            stay.push(stays);
            left += usize::from(stays);
            tombstones += usize::from(stays && record.value.is_none());
        }
        Ok(Selection { header: *self.header(), set, stay, left, tombstones })
    }

    /// The batch without any record, not compressed: it says which offsets it covered, and the producer's last sequence number. Its
    /// largest timestamp stays.
    ///
    /// # Errors
    /// None that can happen: the batch has a fixed size.
    pub fn emptied(&self) -> Result<Bytes, BatchError> {
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
