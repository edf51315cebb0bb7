//! The header of a record batch: 61 bytes before the records.

use super::BatchError;
use crate::codec::Compression;
use bytes::Bytes;

/// The size of the header in bytes.
pub const HEADER_SIZE: usize = 61;

/// The bytes of base offset and batch length, which the batch length does not count.
const LENGTH_EXCLUDES: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const MAX_TIMESTAMP_AT: usize = 35;

const CODEC_BITS: i16 = 0b111;
const LOG_APPEND_TIME: i16 = 1 << 3;
pub(super) const TRANSACTIONAL: i16 = 1 << 4;
pub(super) const CONTROL: i16 = 1 << 5;
pub(super) const DELETE_HORIZON: i16 = 1 << 6;

/// The header of a record batch, field by field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the first record; the broker writes it.
    pub base_offset: i64,
    /// The bytes after this field.
    pub batch_length: i32,
    /// The leader epoch of the append, -1 for unknown; the broker writes it.
    pub partition_leader_epoch: i32,
    /// CRC-32C of everything from the attributes on.
    pub crc: u32,
    /// Codec and flags.
    pub attributes: i16,
    /// The offset of the last record less the base offset. Kept when compaction removes records.
    pub last_offset_delta: i32,
    /// The timestamp that deltas count from, in milliseconds; -1 for none; the delete horizon if that bit is set.
    pub base_timestamp: i64,
    /// The largest timestamp.
    pub max_timestamp: i64,
    /// The producer, -1 for none.
    pub producer_id: i64,
    /// Its epoch, -1 for none.
    pub producer_epoch: i16,
    /// The sequence number of the first record, -1 for none.
    pub base_sequence: i32,
    /// The number of records.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads a header. The batch need not be complete, its header must be.
    ///
    /// # Errors
    /// Fewer than 61 bytes, another format than 2, or a length below that of an empty batch.
    pub fn parse(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
        // The format number is at the same position in every format, so it is checked first.
        if let Some(magic) = bytes.get(MAGIC_AT).filter(|magic| **magic != 2) {
            return Err(BatchError::Magic(*magic as i8));
        }
        let short = BatchError::Short { needed: HEADER_SIZE, left: bytes.len() };
        let raw: &[u8; HEADER_SIZE] = bytes.first_chunk().ok_or(short)?;
        let header = BatchHeader {
            base_offset: i64::from_be_bytes(part(raw, 0)),
            batch_length: i32::from_be_bytes(part(raw, 8)),
            partition_leader_epoch: i32::from_be_bytes(part(raw, 12)),
            crc: u32::from_be_bytes(part(raw, CRC_AT)),
            attributes: i16::from_be_bytes(part(raw, ATTRIBUTES_AT)),
            last_offset_delta: i32::from_be_bytes(part(raw, 23)),
            base_timestamp: i64::from_be_bytes(part(raw, 27)),
            max_timestamp: i64::from_be_bytes(part(raw, MAX_TIMESTAMP_AT)),
            producer_id: i64::from_be_bytes(part(raw, 43)),
            producer_epoch: i16::from_be_bytes(part(raw, 51)),
            base_sequence: i32::from_be_bytes(part(raw, 53)),
            record_count: i32::from_be_bytes(part(raw, 57)),
        };
        if header.size() < HEADER_SIZE {
            return Err(BatchError::Length(header.batch_length));
        }
        Ok(header)
    }

    /// The header as bytes.
    pub fn to_bytes(&self) -> [u8; HEADER_SIZE] {
        let mut raw = [0; HEADER_SIZE];
        let mut put = |at: usize, bytes: &[u8]| raw[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.base_offset.to_be_bytes());
        put(8, &self.batch_length.to_be_bytes());
        put(12, &self.partition_leader_epoch.to_be_bytes());
        put(MAGIC_AT, &[2]);
        put(CRC_AT, &self.crc.to_be_bytes());
        put(ATTRIBUTES_AT, &self.attributes.to_be_bytes());
        put(23, &self.last_offset_delta.to_be_bytes());
        put(27, &self.base_timestamp.to_be_bytes());
        put(MAX_TIMESTAMP_AT, &self.max_timestamp.to_be_bytes());
        put(43, &self.producer_id.to_be_bytes());
        put(51, &self.producer_epoch.to_be_bytes());
        put(53, &self.base_sequence.to_be_bytes());
        put(57, &self.record_count.to_be_bytes());
        raw
    }

    /// The size of the whole batch in bytes.
    pub fn size(&self) -> usize {
        usize::try_from(self.batch_length).map_or(0, |length| length + LENGTH_EXCLUDES)
    }

    /// The offset of the last record.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(self.last_offset_delta.into())
    }

    /// The codec.
    ///
    /// # Errors
    /// Its number is not defined.
    pub fn compression(&self) -> Result<Compression, BatchError> {
        let number = (self.attributes & CODEC_BITS) as u8;
        Compression::from_number(number).ok_or(BatchError::UnknownCodec(number))
    }

    /// Sets the codec; the records are not touched.
    pub(super) fn set_compression(&mut self, codec: Compression) {
        self.attributes = (self.attributes & !CODEC_BITS) | i16::from(codec.number());
    }

    /// Whether the timestamp of every record is that of the append, which is the largest timestamp.
    pub fn is_log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    /// Whether the batch is part of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// Whether the batch holds a control record.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Whether the base timestamp is the delete horizon.
    pub fn has_delete_horizon(&self) -> bool {
        self.attributes & DELETE_HORIZON != 0
    }

    /// The time after which compaction removes the tombstones or the marker of this batch, in milliseconds since 1970;
    /// none if it is not set.
    pub fn delete_horizon(&self) -> Option<i64> {
        self.has_delete_horizon().then_some(self.base_timestamp)
    }

    /// The timestamp of a record in this batch.
    pub fn timestamp(&self, timestamp_delta: i64) -> i64 {
        if self.is_log_append_time() {
            self.max_timestamp
        } else {
            self.base_timestamp.saturating_add(timestamp_delta)
        }
    }

    /// Compares the checksum with that of the batch's bytes.
    ///
    /// # Errors
    /// They differ.
    pub fn check_crc(&self, batch: &[u8]) -> Result<(), BatchError> {
        let found = crc(batch);
        if found == self.crc { Ok(()) } else { Err(BatchError::Crc { stated: self.crc, found }) }
    }
}

fn part<const N: usize>(raw: &[u8; HEADER_SIZE], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&raw[at..at + N]);
    out
}

fn crc(batch: &[u8]) -> u32 {
    crc32c::crc32c(batch.get(ATTRIBUTES_AT..).unwrap_or_default())
}

fn put(batch: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = batch.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Writes the base offset into a batch; the checksum does not cover it.
pub fn patch_base_offset(batch: &mut [u8], base_offset: i64) {
    put(batch, 0, &base_offset.to_be_bytes());
}

/// Writes the leader epoch into a batch; the checksum does not cover it.
pub fn patch_leader_epoch(batch: &mut [u8], leader_epoch: i32) {
    put(batch, LENGTH_EXCLUDES, &leader_epoch.to_be_bytes());
}

/// The batch with another base offset and leader epoch, in two chunks: sixteen new bytes, and the rest shared.
pub fn with_offset_and_epoch(batch: &Bytes, base_offset: i64, leader_epoch: i32) -> [Bytes; 2] {
    let mut head = batch.get(..MAGIC_AT).unwrap_or(batch).to_vec();
    patch_base_offset(&mut head, base_offset);
    patch_leader_epoch(&mut head, leader_epoch);
    [Bytes::from(head), batch.slice(batch.len().min(MAGIC_AT)..)]
}

/// Makes the append time the timestamp of every record: sets the bit, the largest timestamp and a new checksum.
pub fn set_log_append_time(batch: &mut [u8], now: i64) {
    let Some([high, low]) = batch.get(ATTRIBUTES_AT..ATTRIBUTES_AT + 2) else { return };
    let attributes = i16::from_be_bytes([*high, *low]) | LOG_APPEND_TIME;
    put(batch, ATTRIBUTES_AT, &attributes.to_be_bytes());
    put(batch, MAX_TIMESTAMP_AT, &now.to_be_bytes());
    let crc = crc(batch);
    put(batch, CRC_AT, &crc.to_be_bytes());
}

/// Makes every record use its own timestamp: clears the bit, and sets the largest timestamp and a new checksum.
pub fn set_create_time(batch: &mut [u8], max_timestamp: i64) {
    let Some([high, low]) = batch.get(ATTRIBUTES_AT..ATTRIBUTES_AT + 2) else { return };
    let attributes = i16::from_be_bytes([*high, *low]) & !LOG_APPEND_TIME;
    put(batch, ATTRIBUTES_AT, &attributes.to_be_bytes());
    put(batch, MAX_TIMESTAMP_AT, &max_timestamp.to_be_bytes());
    let crc = crc(batch);
    put(batch, CRC_AT, &crc.to_be_bytes());
}

/// Sets length and checksum of a batch that is otherwise complete.
///
/// # Errors
/// The batch is too large for the length field.
pub fn seal(batch: &mut [u8]) -> Result<(), BatchError> {
    let length = batch.len().saturating_sub(LENGTH_EXCLUDES);
    let length = i32::try_from(length).map_err(|_| BatchError::TooLarge(batch.len()))?;
    put(batch, 8, &length.to_be_bytes());
    let crc = crc(batch);
    put(batch, CRC_AT, &crc.to_be_bytes());
    Ok(())
}
