//! Record batches, format 2: the header, the records inside, building and stamping.
//!
//! A batch is 61 bytes of header and then its records, or one compressed blob of them. The checksum covers everything
//! from the attributes on, so a broker can set the base offset and the leader epoch without a new checksum.

mod build;
mod control;
mod error;
mod header;
mod recompress;
mod record;
mod select;
mod varint;
mod walk;

pub use build::{BatchBuilder, NewRecord};
pub use control::{ControlRecord, EndMarker, control_batch};
pub use error::BatchError;
pub use header::{
    BatchHeader, HEADER_SIZE, patch_base_offset, patch_leader_epoch, seal, set_create_time,
    set_log_append_time, with_offset_and_epoch,
};
pub use record::{Header, Headers, Record, RecordIter, RecordSet};
pub use select::Selection;

pub use walk::RecordSummary;

use bytes::Bytes;

/// One whole batch: its parsed header and its bytes.
#[derive(Clone, Debug)]
pub struct Batch {
    header: BatchHeader,
    bytes: Bytes,
}

impl Batch {
    /// Parses the batch at the start of `bytes`. Does not check its checksum or records.
    ///
    /// # Errors
    /// The header is malformed, or the batch does not end within `bytes`.
    pub fn first(bytes: &Bytes) -> Result<Batch, BatchError> {
        let header = BatchHeader::parse(bytes)?;
        let size = header.size();
        if size > bytes.len() {
            return Err(BatchError::Short { needed: size, left: bytes.len() });
        }
        Ok(Batch { header, bytes: bytes.slice(..size) })
    }

    /// Parses `bytes` as exactly one batch.
    ///
    /// # Errors
    /// As [`Batch::first`], or bytes follow the batch.
    pub fn only(bytes: &Bytes) -> Result<Batch, BatchError> {
        let batch = Batch::first(bytes)?;
        match bytes.len() - batch.bytes.len() {
            0 => Ok(batch),
            left => Err(BatchError::TrailingBytes(left)),
        }
    }

    /// The header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// All bytes of the batch.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Compares the checksum.
    ///
    /// # Errors
    /// It is not that of the bytes.
    pub fn check_crc(&self) -> Result<(), BatchError> {
        self.header.check_crc(&self.bytes)
    }

    /// The records, decompressed to at most `cap` bytes.
    ///
    /// # Errors
    /// The codec is undefined, the data is not data of the codec, or it is larger than the limit.
    pub fn records(&self, cap: usize) -> Result<RecordSet, BatchError> {
        RecordSet::open(&self.header, self.bytes.slice(HEADER_SIZE..), cap)
    }

    /// Checks the header of a batch from a client: the checksum, a positive record count, a last offset delta that fits
    /// the count, no control bit, and a sequence number if there is a producer id.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn validate_header(&self) -> Result<(), BatchError> {
        let header = &self.header;
        self.check_crc()?;
        header.compression()?;
        if header.record_count <= 0 {
            return Err(BatchError::Count(header.record_count));
        }
        if header.last_offset_delta != header.record_count - 1 {
            let (count, delta) = (header.record_count, header.last_offset_delta);
            return Err(BatchError::LastOffsetDelta { count, delta });
        }
        if header.is_control() {
            return Err(BatchError::Control);
        }
        if header.producer_id >= 0 && (header.base_sequence < 0 || header.producer_epoch < 0) {
            return Err(BatchError::Sequence(header.base_sequence));
        }
        Ok(())
    }

    /// Checks that the records are well formed, that their offset deltas are 0, 1, 2 and so on, and that their number
    /// is the count of the header.
    ///
    /// # Errors
    /// The first record that fails, or as [`Batch::records`].
    pub fn validate_records(&self, cap: usize) -> Result<(), BatchError> {
        let set = self.records(cap)?;
        for (expected, record) in (0..).zip(set.iter()) {
            let found = record?.offset_delta;
            if found != expected {
                return Err(BatchError::OffsetDelta { expected, found });
            }
        }
        Ok(())
    }
}

/// The batches of a records field, in order. The iteration ends before an incomplete batch at the end, as in a Fetch
/// response with a size limit. [`Batches::tail`] has the bytes of that batch.
pub fn split(records: &Bytes) -> Batches {
    Batches { rest: records.clone(), failed: false }
}

/// See [`split`].
#[derive(Debug)]
pub struct Batches {
    rest: Bytes,
    failed: bool,
}

impl Batches {
    /// The bytes that were not yet returned as batches. After the last batch these are the bytes of an incomplete one.
    pub fn tail(&self) -> &Bytes {
        &self.rest
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.failed {
            return None;
        }
        match Batch::first(&self.rest) {
            Ok(batch) => {
                self.rest = self.rest.slice(batch.bytes.len()..);
                Some(Ok(batch))
            }
            Err(BatchError::Short { .. }) => None,
            Err(why) => {
                self.failed = true;
                Some(Err(why))
            }
        }
    }
}
