//! Building batches.

use super::header::{CONTROL, TRANSACTIONAL};
use super::{BatchError, BatchHeader, HEADER_SIZE, Header, Record, seal, varint};
use crate::codec::{Compression, compress};
use bytes::Bytes;

/// A record to be put into a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewRecord<'a> {
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value, or null.
    pub value: Option<&'a [u8]>,
    /// The headers in order.
    pub headers: &'a [Header<'a>],
}

/// Collects records and makes one batch of them.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    compression: Compression,
    header: BatchHeader,
    /// Space for the header, then the uncompressed records.
    bytes: Vec<u8>,
}

impl BatchBuilder {
    /// A batch without records, without a producer, at offset 0 and an unknown leader epoch.
    pub fn new(compression: Compression) -> BatchBuilder {
        let header = BatchHeader {
            base_offset: 0,
            batch_length: 0,
            partition_leader_epoch: -1,
            crc: 0,
            attributes: i16::from(compression.number()),
            last_offset_delta: -1,
            base_timestamp: -1,
            max_timestamp: -1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: 0,
        };
        BatchBuilder { compression, header, bytes: vec![0; HEADER_SIZE] }
    }

    /// Sets the producer, its epoch, and the sequence number of the first record.
    #[must_use]
    pub fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> BatchBuilder {
        self.header.producer_id = id;
        self.header.producer_epoch = epoch;
        self.header.base_sequence = base_sequence;
        self
    }

    /// Makes the batch part of a transaction, or not.
    #[must_use]
    pub fn transactional(self, on: bool) -> BatchBuilder {
        self.flag(TRANSACTIONAL, on)
    }

    /// Makes the batch a control batch, or not.
    #[must_use]
    pub fn control(self, on: bool) -> BatchBuilder {
        self.flag(CONTROL, on)
    }

    /// Sets the offset of the first record.
    #[must_use]
    pub fn base_offset(mut self, offset: i64) -> BatchBuilder {
        self.header.base_offset = offset;
        self
    }

    fn flag(mut self, flag: i16, on: bool) -> BatchBuilder {
        if on {
            self.header.attributes |= flag;
        } else {
            self.header.attributes &= !flag;
        }
        self
    }

    /// Adds a record at the end.
    pub fn push(&mut self, record: &NewRecord<'_>) {
        let header = &mut self.header;
        if header.record_count == 0 {
            header.base_timestamp = record.timestamp;
            header.max_timestamp = record.timestamp;
        }
        header.max_timestamp = header.max_timestamp.max(record.timestamp);
        header.record_count += 1;
        header.last_offset_delta += 1;
        let timestamp_delta = record.timestamp.wrapping_sub(header.base_timestamp);
        let offset_delta = i64::from(header.last_offset_delta);
        let size = 1 + varint::size(timestamp_delta) + varint::size(offset_delta) + body_size(record);
        let out = &mut self.bytes;
        varint::put(out, size as i64);
        out.push(0);
        varint::put(out, timestamp_delta);
        varint::put(out, offset_delta);
        put_nullable(out, record.key);
        put_nullable(out, record.value);
        put_headers(out, record.headers.iter().copied());
    }

    /// The number of records so far.
    pub fn len(&self) -> usize {
        self.header.record_count as usize
    }

    /// Whether there is no record so far.
    pub fn is_empty(&self) -> bool {
        self.header.record_count == 0
    }

    /// The size of the batch if it were not compressed, in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Makes the batch: compresses the records, and fills in header, length and checksum.
    ///
    /// # Errors
    /// The batch is too large for the length field, or compression fails.
    pub fn build(mut self) -> Result<Bytes, BatchError> {
        if self.compression != Compression::None {
            let compressed = compress(self.compression, self.bytes.get(HEADER_SIZE..).unwrap_or_default())?;
            self.bytes.truncate(HEADER_SIZE);
            self.bytes.extend_from_slice(&compressed);
        }
        if let Some(place) = self.bytes.first_chunk_mut() {
            *place = self.header.to_bytes();
        }
        seal(&mut self.bytes)?;
        Ok(Bytes::from(self.bytes))
    }
}

/// Appends a record with unchanged deltas.
pub(super) fn put_record(out: &mut Vec<u8>, record: &Record<'_>) {
    let (timestamp_delta, offset_delta) = (record.timestamp_delta, i64::from(record.offset_delta));
    let key_value = nullable_size(record.key) + nullable_size(record.value);
    let body = key_value + headers_size(record.headers.clone());
    let size = 1 + varint::size(timestamp_delta) + varint::size(offset_delta) + body;
    varint::put(out, size as i64);
    out.push(record.attributes as u8);
    varint::put(out, timestamp_delta);
    varint::put(out, offset_delta);
    put_nullable(out, record.key);
    put_nullable(out, record.value);
    put_headers(out, record.headers.clone());
}

fn body_size(record: &NewRecord<'_>) -> usize {
    let key_value = nullable_size(record.key) + nullable_size(record.value);
    key_value + headers_size(record.headers.iter().copied())
}

fn headers_size<'a>(headers: impl ExactSizeIterator<Item = Header<'a>>) -> usize {
    let count = varint::size(headers.len() as i64);
    let size = |header: Header<'_>| nullable_size(Some(header.key)) + nullable_size(header.value);
    count + headers.map(size).sum::<usize>()
}

fn put_headers<'a>(out: &mut Vec<u8>, headers: impl ExactSizeIterator<Item = Header<'a>>) {
    varint::put(out, headers.len() as i64);
    for header in headers {
        put_nullable(out, Some(header.key));
        put_nullable(out, header.value);
    }
}

fn nullable_size(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| varint::size(bytes.len() as i64) + bytes.len())
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            varint::put(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
        None => varint::put(out, -1),
    }
}
