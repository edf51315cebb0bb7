//! What a broker asks of the bytes of a batch before anybody else looks at it.

use bytes::Bytes;
use ottla_types::{BatchSummary, Millis, ProducerEpoch, ProducerId, TimestampType};
use ottla_wire::batch::{Batch, BatchError, BatchHeader, set_create_time};
use ottla_wire::codec::{CodecError, Compression};
use ottla_wire::{ErrorCode, Records};
use std::fmt::{self, Display};

/// A batch may not hold more than this when decompressed, in bytes.
const MOST_RECORDS: usize = 128 << 20;

/// A sound batch.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) summary: BatchSummary,
    pub(super) payload: Bytes,
    /// The first record without a key.
    pub(super) keyless: Option<i32>,
}

/// Why a batch is not taken.
pub(super) struct Refusal {
    pub(super) code: ErrorCode,
    pub(super) why: Option<String>,
    /// The record at fault.
    pub(super) record: Option<i32>,
    /// What a verdict says, if it is more than `why`.
    pub(super) reason: Option<Box<dyn ottla_core::Refusal + Send>>,
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.reason, &self.why) {
            (Some(reason), _) => reason.fmt(f),
            (None, Some(why)) => f.write_str(why),
            (None, None) => self.code.fmt(f),
        }
    }
}

impl ottla_core::Refusal for Refusal {
    fn rule(&self) -> Option<&'static str> {
        // What is wrong with the bytes of a batch is found in the order of T-40.
        self.reason.as_ref().map_or(Some("T-40"), |reason| reason.rule())
    }
}

impl Refusal {
    pub(super) fn new(code: ErrorCode, why: impl ToString) -> Refusal {
        Refusal { code, why: Some(why.to_string()), record: None, reason: None }
    }

    /// Names the record at fault, where the topic's need of keys is the reason.
    pub(super) fn of_record(mut self, keyless: Option<i32>) -> Refusal {
        if self.code == ErrorCode::INVALID_RECORD {
            self.record = keyless;
        }
        self
    }
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Refusal {
        Refusal { code, why: None, record: None, reason: None }
    }
}

impl From<BatchError> for Refusal {
    fn from(error: BatchError) -> Refusal {
        let code = match &error {
            BatchError::Short { .. } | BatchError::Length(_) | BatchError::Crc { .. } => {
                ErrorCode::CORRUPT_MESSAGE
            }
            BatchError::UnknownCodec(_) => ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            BatchError::Codec(CodecError::TooLarge { .. }) => ErrorCode::MESSAGE_TOO_LARGE,
            _ => ErrorCode::INVALID_RECORD,
        };
        let record = match &error {
            BatchError::Record { record, .. } => Some(*record),
            BatchError::OffsetDelta { expected, .. } => Some(*expected),
            _ => None,
        };
        Refusal { code, why: Some(error.to_string()), record, reason: None }
    }
}

/// Checks the records of one partition: exactly one batch, sound inside and out.
pub(super) fn check(records: Option<&Records>, version: i16) -> Result<Checked, Refusal> {
    let none = || Refusal::new(ErrorCode::INVALID_RECORD, "there is no record batch, and there must be one");
    let payload = records.filter(|records| !records.is_empty()).ok_or_else(none)?.to_bytes();
    framing(&payload)?;
    let batch = Batch::only(&payload)?;
    let header = batch.header();
    if version < 7 && header.compression() == Ok(Compression::Zstd) {
        return Err(Refusal::new(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7 or later"));
    }
    if header.base_offset != 0 {
        let why = format!("the base offset is {}, and must be 0", header.base_offset);
        return Err(Refusal::new(ErrorCode::INVALID_RECORD, why));
    }
    if header.producer_id >= 0 && header.producer_epoch < 0 {
        let why = format!("the producer's epoch is {}", header.producer_epoch);
        return Err(Refusal::new(ErrorCode::INVALID_PRODUCER_EPOCH, why));
    }
    batch.validate_header()?;
    let keyless = first_keyless(&batch)?;
    let summary = summary(header);
    let payload = if header.is_log_append_time() { with_own_times(&payload) } else { payload };
    Ok(Checked { summary, keyless, payload })
}

/// Whose time records carry is the topic's to say, not the client's.
fn with_own_times(payload: &Bytes) -> Bytes {
    let mut bytes = payload.to_vec();
    set_create_time(&mut bytes);
    bytes.into()
}

/// What Kafka looks at before it looks into a batch: bytes that end before the batch does are no batch at all, a length or a format
/// that no batch has is damage.
fn framing(bytes: &[u8]) -> Result<(), Refusal> {
    const BEFORE_LENGTH: usize = 8;
    const COUNTED_FROM: usize = 12;
    const MAGIC_AT: usize = 16;
    /// Of the oldest format.
    const SHORTEST: i32 = 14;
    let cut = || Refusal::new(ErrorCode::INVALID_RECORD, "the bytes end before the record batch does");
    let length = bytes.get(BEFORE_LENGTH..).and_then(|rest| rest.first_chunk()).ok_or_else(cut)?;
    let length = i32::from_be_bytes(*length);
    if length < SHORTEST {
        return Err(Refusal::new(ErrorCode::CORRUPT_MESSAGE, format!("a record batch of length {length}")));
    }
    if bytes.len() - COUNTED_FROM < length as usize {
        return Err(cut());
    }
    match bytes.get(MAGIC_AT) {
        Some(0..=2) => Ok(()),
        magic => Err(Refusal::new(ErrorCode::CORRUPT_MESSAGE, format!("record format {magic:?}"))),
    }
}

/// Walks the records: their form, their numbering, and which is the first without a key.
fn first_keyless(batch: &Batch) -> Result<Option<i32>, BatchError> {
    let set = batch.records(MOST_RECORDS)?;
    let mut keyless = None;
    for (expected, record) in (0..).zip(set.iter()) {
        let record = record?;
        if record.offset_delta != expected {
            return Err(BatchError::OffsetDelta { expected, found: record.offset_delta });
        }
        if record.key.is_none() {
            keyless = keyless.or(Some(expected));
        }
    }
    Ok(keyless)
}

fn summary(header: &BatchHeader) -> BatchSummary {
    BatchSummary {
        size: u32::try_from(header.size()).unwrap_or(u32::MAX),
        last_offset_delta: header.last_offset_delta,
        record_count: header.record_count,
        base_timestamp: Millis(header.base_timestamp),
        max_timestamp: Millis(header.max_timestamp),
        timestamp_type: TimestampType::CreateTime,
        producer_id: ProducerId(header.producer_id),
        producer_epoch: ProducerEpoch(header.producer_epoch),
        base_sequence: header.base_sequence,
        transactional: header.is_transactional(),
        control: header.is_control(),
    }
}
