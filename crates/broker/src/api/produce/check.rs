//! The checks on the bytes of a batch, before it is submitted to the core.

use crate::host::BatchRule;
use bytes::Bytes;
use ottla_types::{BatchSummary, Millis, ProducerEpoch, ProducerId, TimestampType};
use ottla_wire::batch::{Batch, BatchError, BatchHeader, set_create_time};
use ottla_wire::codec::{CodecError, Compression};
use ottla_wire::{ErrorCode, Records};
use std::fmt::{self, Display};

/// The most bytes of a batch after decompression.
const MOST_RECORDS: usize = 128 << 20;
/// Refused records of one batch that a response names, at most.
const MOST_NAMED: usize = 1000;
/// The greatest age of the clock reading by which timestamps are checked first.
const CLOCK_AGE: Millis = Millis(60_000);

/// A batch that passed the checks.
#[derive(Debug)]
pub(super) struct CheckedBatch {
    pub(super) summary: BatchSummary,
    pub(super) payload: Bytes,
    pub(super) walked: RecordSummary,
    /// Records that the topic may refuse.
    pub(super) suspects: SuspectRecords,
    /// Whether the client sets the timestamp type to LogAppendTime.
    pub(super) stamped: bool,
}

/// The results of walking the records. Numbers are positions in the batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordSummary {
    /// The first record without a key.
    pub(super) keyless: Option<i32>,
    /// The record with the smallest timestamp, of those that have one.
    pub(super) earliest: Option<(Millis, i32)>,
    /// The record with the largest timestamp.
    pub(super) latest: Option<(Millis, i32)>,
}

impl RecordSummary {
    fn add(&mut self, number: i32, time: Millis, has_key: bool) {
        if !has_key {
            self.keyless = self.keyless.or(Some(number));
        }
        if time == Millis::NONE {
            return;
        }
        if self.earliest.is_none_or(|(earliest, _)| time < earliest) {
            self.earliest = Some((time, number));
        }
        if self.latest.is_none_or(|(latest, _)| time > latest) {
            self.latest = Some((time, number));
        }
    }

    /// The first faulty record. Of timestamps out of range, only the smallest and the largest are considered.
    fn at_fault(&self, fault: TopicViolation) -> Option<i32> {
        match fault {
            TopicViolation::Key => self.keyless,
            TopicViolation::All => Some(0),
            TopicViolation::Time { least, most } => {
                let early = self.earliest.filter(|(time, _)| *time < least);
                let late = self.latest.filter(|(time, _)| *time > most);
                early.into_iter().chain(late).map(|(_, number)| number).min()
            }
        }
    }
}

/// Records that the topic may refuse, by its settings when the batch was checked, with their numbers in the batch, in
/// order, and at most [`MOST_NAMED`] of them. The state machine decides.
#[derive(Debug, Default)]
pub(super) struct SuspectRecords {
    records: Vec<(i32, Suspicion)>,
    /// The number of records in the batch.
    count: i32,
    /// Timestamps outside these bounds are refused whatever the age of the clock reading.
    certain: (Millis, Millis),
}

/// Why the topic may refuse a record.
#[derive(Clone, Copy, Debug)]
enum Suspicion {
    /// The record has no key.
    Key,
    /// The timestamp of the record may be out of bounds.
    Time(Millis),
}

impl SuspectRecords {
    /// Collects the suspect records of a batch, if the walk found one.
    fn collect(batch: &Batch, walked: &RecordSummary, rule: &BatchRule, now: Millis) -> SuspectRecords {
        let (before, after) = rule.time_bounds.unwrap_or((Millis(i64::MAX), Millis(i64::MAX)));
        // The reading is up to CLOCK_AGE old: a timestamp before the first bound may be too early, one before the
        // second is.
        let least =
            if rule.time_bounds.is_some() { now.after(CLOCK_AGE).since(before) } else { Millis(i64::MIN) };
        let most = now.after(after);
        let certain = (now.since(before), now.after(CLOCK_AGE).after(after));
        let count = batch.header().record_count;
        let mut suspects = SuspectRecords { records: Vec::new(), count, certain };
        let outside = |time: Millis| time != Millis::NONE && (time < least || time > most);
        let times = [walked.earliest, walked.latest].into_iter().flatten().any(|(time, _)| outside(time));
        if !(times || rule.needs_keys && walked.keyless.is_some()) {
            return suspects;
        }
        let mut number = 0;
        let found = &mut suspects.records;
        // The walk cannot fail: the batch was walked to its end before.
        let _ = batch.walk(MOST_RECORDS, &mut |record| {
            let time = Millis(batch.header().timestamp(record.timestamp_delta));
            if rule.needs_keys && !record.has_key {
                found.push((number, Suspicion::Key));
            } else if outside(time) {
                found.push((number, Suspicion::Time(time)));
            }
            number += 1;
            found.len() < MOST_NAMED
        });
        suspects
    }

    /// The faulty records, each with the reason, and whether the reason of one is its timestamp.
    fn at_fault(&self, fault: TopicViolation) -> (Vec<(i32, String)>, bool) {
        let (least, most) = match fault {
            TopicViolation::All => {
                let why = "its batch says that timestamps are of the append".to_owned();
                let most = i32::try_from(MOST_NAMED).unwrap_or(i32::MAX);
                return ((0..self.count.min(most)).map(|number| (number, why.clone())).collect(), true);
            }
            TopicViolation::Time { least, most } => (least, most),
            TopicViolation::Key => self.certain,
        };
        let mut times = false;
        let name = |(number, suspicion): &(i32, Suspicion)| match *suspicion {
            Suspicion::Key => Some((*number, "the topic is compacted, and the record has no key".to_owned())),
            Suspicion::Time(time) if (least..=most).contains(&time) => None,
            Suspicion::Time(time) => {
                times = true;
                let (least, most) = (least.0, most.0);
                Some((*number, format!("timestamp {} is not between {least} and {most}", time.0)))
            }
        };
        let records = self.records.iter().filter_map(name).collect();
        (records, times)
    }
}

/// How a record violates the configuration of its topic.
#[derive(Clone, Copy, Debug)]
pub(super) enum TopicViolation {
    /// The record has no key.
    Key,
    /// The timestamp of the record is not between these.
    Time { least: Millis, most: Millis },
    /// Every record of the batch violates it.
    All,
}

/// Why a batch is refused.
pub(super) struct BatchRefusal {
    pub(super) code: ErrorCode,
    pub(super) why: Option<String>,
    /// The faulty records, each with the reason.
    pub(super) records: Vec<(i32, String)>,
    /// The violation of the topic's configuration, if that is the reason.
    pub(super) fault: Option<TopicViolation>,
    /// The text of the verdict, if it is not `why`.
    pub(super) reason: Option<Box<dyn ottla_core::Refusal + Send>>,
}

impl Display for BatchRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.reason, &self.why) {
            (Some(reason), _) => reason.fmt(f),
            (None, Some(why)) => f.write_str(why),
            (None, None) => self.code.fmt(f),
        }
    }
}

impl ottla_core::Refusal for BatchRefusal {
    fn rule(&self) -> Option<&'static str> {
        // The bytes of a batch are checked in the order of T-40.
        self.reason.as_ref().map_or(Some("T-40"), |reason| reason.rule())
    }
}

impl BatchRefusal {
    pub(super) fn new(code: ErrorCode, why: impl ToString) -> BatchRefusal {
        BatchRefusal { code, why: Some(why.to_string()), records: Vec::new(), fault: None, reason: None }
    }

    /// A violation of the configuration of a topic.
    pub(super) fn at(fault: TopicViolation, code: ErrorCode, why: impl ToString) -> BatchRefusal {
        BatchRefusal { fault: Some(fault), ..BatchRefusal::new(code, why) }
    }

    /// Names the faulty records, if they violate the topic's configuration. As in Kafka, a faulty timestamp among them
    /// decides the code.
    pub(super) fn of_records(mut self, walked: &RecordSummary, suspects: &SuspectRecords) -> BatchRefusal {
        let Some(fault) = self.fault else { return self };
        let (records, times) = suspects.at_fault(fault);
        self.records = records;
        if times {
            self.code = ErrorCode::INVALID_TIMESTAMP;
        }
        // The configuration of the topic changed between the check and the decision.
        if self.records.is_empty() {
            let why = self.why.clone().unwrap_or_default();
            self.records.extend(walked.at_fault(fault).map(|number| (number, why)));
        }
        self
    }
}

impl From<ErrorCode> for BatchRefusal {
    fn from(code: ErrorCode) -> BatchRefusal {
        BatchRefusal { code, why: None, records: Vec::new(), fault: None, reason: None }
    }
}

impl From<BatchError> for BatchRefusal {
    fn from(error: BatchError) -> BatchRefusal {
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
        let why = error.to_string();
        let records = record.into_iter().map(|number| (number, why.clone())).collect();
        BatchRefusal { code, why: Some(why), records, fault: None, reason: None }
    }
}

/// Checks the records of one partition: exactly one batch, with a valid header and valid records.
pub(super) fn check(
    records: Option<&Records>,
    version: i16,
    rule: &BatchRule,
    now: Millis,
) -> Result<CheckedBatch, BatchRefusal> {
    let none =
        || BatchRefusal::new(ErrorCode::INVALID_RECORD, "there is no record batch, and there must be one");
    let payload = records.filter(|records| !records.is_empty()).ok_or_else(none)?.to_bytes();
    framing(&payload)?;
    let batch = Batch::only(&payload)?;
    let header = batch.header();
    if version < 7 && header.compression() == Ok(Compression::Zstd) {
        return Err(BatchRefusal::new(
            ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            "zstd needs version 7 or later",
        ));
    }
    if header.base_offset != 0 {
        let why = format!("the base offset is {}, and must be 0", header.base_offset);
        return Err(BatchRefusal::new(ErrorCode::INVALID_RECORD, why));
    }
    if header.producer_id >= 0 && header.producer_epoch < 0 {
        let why = format!("the producer's epoch is {}", header.producer_epoch);
        return Err(BatchRefusal::new(ErrorCode::INVALID_PRODUCER_EPOCH, why));
    }
    let walked = contents(&batch, rule)?;
    let suspects = SuspectRecords::collect(&batch, &walked, rule, now);
    let batch = in_codec_of_topic(batch, rule)?;
    let (header, payload) = (batch.header(), batch.bytes().clone());
    let mut summary = summary(header);
    let stamped = header.is_log_append_time();
    summary.max_timestamp = walked.latest.map_or(Millis::NONE, |(latest, _)| latest.max(Millis::NONE));
    let untrue = summary.max_timestamp.0 != header.max_timestamp;
    let payload = if stamped || untrue { with_times(&payload, summary.max_timestamp) } else { payload };
    Ok(CheckedBatch { summary, walked, suspects, stamped, payload })
}

/// Checks the header and the records. A batch that is too large is refused for its size, whatever else is wrong with
/// it.
fn contents(batch: &Batch, rule: &BatchRule) -> Result<RecordSummary, BatchRefusal> {
    let is_too_large = batch.bytes().len() as i64 > rule.max_bytes;
    let judged = batch.validate_header().and_then(|()| walk(batch, rule));
    judged.map_err(|error| match error {
        _ if is_too_large => too_large(rule),
        BatchError::Codec(CodecError::TooLarge { cap, .. }) if cap == rule.max_decompressed => {
            let why = format!("its records have more than max.decompressed.message.bytes, which is {cap}");
            BatchRefusal::new(ErrorCode::INVALID_RECORD, why)
        }
        error => error.into(),
    })
}

fn too_large(rule: &BatchRule) -> BatchRefusal {
    let why = format!("the batch is larger than max.message.bytes, which is {}", rule.max_bytes);
    BatchRefusal::new(ErrorCode::MESSAGE_TOO_LARGE, why)
}

/// The batch in the codec of its topic. A batch that is too large stays as it is, and is refused for its size.
fn in_codec_of_topic(batch: Batch, rule: &BatchRule) -> Result<Batch, BatchRefusal> {
    let Some((codec, level)) = rule.compression else { return Ok(batch) };
    let most = usize::try_from(rule.max_bytes).unwrap_or(0);
    if batch.header().compression() == Ok(codec) || batch.bytes().len() > most {
        return Ok(batch);
    }
    match batch.recompress(codec, level, MOST_RECORDS, most) {
        Ok(bytes) => Ok(Batch::only(&bytes)?),
        Err(BatchError::Codec(CodecError::TooLarge { codec: which, .. })) if which == codec => {
            Err(too_large(rule))
        }
        Err(error) => Err(error.into()),
    }
}

/// The batch as CreateTime with this largest timestamp. The topic decides the timestamp type; the largest timestamp is
/// computed.
fn with_times(payload: &Bytes, max_timestamp: Millis) -> Bytes {
    let mut bytes = payload.to_vec();
    set_create_time(&mut bytes, max_timestamp.0);
    bytes.into()
}

/// The checks that Kafka makes before it reads a batch. Bytes that end inside the batch are an invalid record. A length
/// or format that no batch has is a corrupt message.
fn framing(bytes: &[u8]) -> Result<(), BatchRefusal> {
    const BEFORE_LENGTH: usize = 8;
    const COUNTED_FROM: usize = 12;
    const MAGIC_AT: usize = 16;
    /// The length of an empty record of the oldest format.
    const SHORTEST: i32 = 14;
    let cut = || BatchRefusal::new(ErrorCode::INVALID_RECORD, "the bytes end before the record batch does");
    let length = bytes.get(BEFORE_LENGTH..).and_then(|rest| rest.first_chunk()).ok_or_else(cut)?;
    let length = i32::from_be_bytes(*length);
    if length < SHORTEST {
        return Err(BatchRefusal::new(
            ErrorCode::CORRUPT_MESSAGE,
            format!("a record batch of length {length}"),
        ));
    }
    if bytes.len() - COUNTED_FROM < length as usize {
        return Err(cut());
    }
    match bytes.get(MAGIC_AT) {
        Some(0..=2) => Ok(()),
        magic => Err(BatchRefusal::new(ErrorCode::CORRUPT_MESSAGE, format!("record format {magic:?}"))),
    }
}

/// Walks the records and checks their encoding and their offsets. Returns what their keys and timestamps say.
fn walk(batch: &Batch, rule: &BatchRule) -> Result<RecordSummary, BatchError> {
    let header = batch.header();
    let is_plain = header.compression()? == Compression::None;
    let cap = if is_plain { MOST_RECORDS } else { MOST_RECORDS.min(rule.max_decompressed) };
    let (mut walked, mut expected, mut misplaced) = (RecordSummary::default(), 0, None);
    batch.walk(cap, &mut |record| {
        if record.offset_delta != expected {
            misplaced = Some(BatchError::OffsetDelta { expected, found: record.offset_delta });
            return false;
        }
        walked.add(expected, Millis(header.timestamp(record.timestamp_delta)), record.has_key);
        expected += 1;
        true
    })?;
    misplaced.map_or(Ok(walked), Err)
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
