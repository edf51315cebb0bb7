//! The records of a partition: keys, values, headers, markers, and the outcome of their transactions.

use crate::error::HttpError;
use crate::format::{ByteText, moment};
use crate::layout::Layout;
use crate::request::PageRequest;
use crate::shard::records::{self, Fate, ReadError, RecordQuery, RecordRange};
use askama::Template;
use axum::http::StatusCode;
use ottla_wire::batch::{BatchError, BatchHeader, ControlRecord, Record, RecordSet, split};
use serde::Serialize;

/// Rows that are shown by default, and at most.
const DEFAULT_ROWS: usize = 50;
const MAX_ROWS: usize = 500;
/// Bytes that all batches of a page may take when decompressed; the next page shows the batches beyond them.
const MAX_DECOMPRESSED: usize = 16 << 20;
/// Bytes of a key or value that are shown by default, and of all rows together at most.
const DEFAULT_SHOWN: usize = 1000;
const MAX_SHOWN: usize = 4 << 20;

/// Records of a partition.
#[derive(Template, Serialize)]
#[template(path = "records.html")]
pub(crate) struct RecordsPage {
    #[serde(skip)]
    layout: Layout,
    topic: String,
    partition: i32,
    start: i64,
    last_stable_offset: i64,
    high_watermark: i64,
    /// The first offset to show.
    offset: i64,
    count: usize,
    records: Vec<RecordRow>,
    /// The first offset of the next page; the high watermark after the last record.
    next_offset: i64,
}

/// A record, or a batch that cannot be read.
#[derive(Serialize)]
struct RecordRow {
    offset: i64,
    timestamp_ms: i64,
    key: Option<ByteText>,
    value: Option<ByteText>,
    headers: Vec<HeaderRow>,
    /// The type of a control record: `COMMIT`, `ABORT`.
    control: Option<String>,
    /// The outcome of its transaction.
    fate: Fate,
    producer_id: Option<i64>,
    producer_epoch: Option<i16>,
    sequence: Option<i32>,
    /// First offset of its batch.
    batch: i64,
    compression: &'static str,
    /// Why the batch cannot be read.
    fault: Option<String>,
}

#[derive(Serialize)]
struct HeaderRow {
    name: String,
    value: Option<ByteText>,
}

pub(crate) async fn records(request: PageRequest) -> Result<RecordsPage, HttpError> {
    let topic = request.path_param("topic").to_owned();
    let partition = request.path_param("partition");
    let partition: i32 = partition
        .parse()
        .map_err(|_| HttpError::not_found(format!("{partition:?} is no partition number")))?;
    let offset = request.number::<i64>("offset")?;
    let count = request.number::<usize>("count")?.unwrap_or(DEFAULT_ROWS).clamp(1, MAX_ROWS);
    let shown = request.number::<usize>("bytes")?.unwrap_or(DEFAULT_SHOWN).clamp(1, MAX_SHOWN / count);
    let query = RecordQuery { topic: topic.clone(), partition, offset, count };
    let range = records::read(&request.app.broker, query).await;
    let range = range.map_err(|error| http_error(error, &topic, partition))?;
    let records = Rows { range: &range, count, shown, rows: Vec::new() }.read();
    let next_offset = records.last().map_or(range.high_watermark, |row| row.offset + 1);
    Ok(RecordsPage {
        layout: request.layout(format!("Topic {topic}, partition {partition}"), "Topics"),
        topic,
        partition,
        start: range.start,
        last_stable_offset: range.last_stable_offset,
        high_watermark: range.high_watermark,
        offset: range.offset,
        count,
        records,
        next_offset,
    })
}

fn http_error(error: ReadError, topic: &str, partition: i32) -> HttpError {
    match error {
        ReadError::NoPartition => {
            HttpError::not_found(format!("there is no partition {partition} of a topic named {topic:?}"))
        }
        ReadError::HostGone(gone) => gone.into(),
        ReadError::Io(error) => {
            HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the records cannot be read: {error}"))
        }
    }
}

/// Builds the rows of a page from the batches that were read.
struct Rows<'a> {
    range: &'a RecordRange,
    /// The most rows.
    count: usize,
    /// The most bytes of a key or value.
    shown: usize,
    rows: Vec<RecordRow>,
}

impl Rows<'_> {
    /// Reads batches until there are enough rows.
    fn read(mut self) -> Vec<RecordRow> {
        let mut remaining = MAX_DECOMPRESSED;
        for batch in self.range.chunks.iter().flat_map(split) {
            if self.rows.len() >= self.count {
                break;
            }
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    self.rows.push(RecordRow::broken(None, error.to_string()));
                    break;
                }
            };
            let added = match batch.records(remaining) {
                // The next page starts with this batch, so it may fit there.
                Err(_) if remaining < MAX_DECOMPRESSED => break,
                Err(error) => Err(error),
                Ok(set) => {
                    remaining = remaining.saturating_sub(set.body().len());
                    self.add(batch.header(), &set)
                }
            };
            if let Err(error) = added {
                self.rows.push(RecordRow::broken(Some(batch.header()), error.to_string()));
            }
        }
        self.rows
    }

    /// Adds the records of a batch from the page's first offset on.
    fn add(&mut self, header: &BatchHeader, set: &RecordSet) -> Result<(), BatchError> {
        for record in set.iter() {
            let record = record?;
            let offset = header.base_offset + i64::from(record.offset_delta);
            if self.rows.len() < self.count && offset >= self.range.offset {
                self.rows.push(self.row(header, &record));
            }
        }
        Ok(())
    }

    fn row(&self, header: &BatchHeader, record: &Record<'_>) -> RecordRow {
        let offset = header.base_offset + i64::from(record.offset_delta);
        let has_producer = header.producer_id >= 0;
        let has_sequence = has_producer && header.base_sequence >= 0;
        let show = |bytes: &[u8]| ByteText::new(bytes, self.shown);
        let headers = record.headers.clone().map(|header| HeaderRow {
            name: String::from_utf8_lossy(header.key).into_owned(),
            value: header.value.map(show),
        });
        let in_transaction = header.is_transactional() && !header.is_control();
        RecordRow {
            offset,
            timestamp_ms: header.timestamp(record.timestamp_delta),
            key: record.key.map(show),
            value: record.value.map(show),
            headers: headers.collect(),
            control: header.is_control().then(|| control(record)),
            fate: if in_transaction { self.range.fate(header.producer_id, offset) } else { Fate::Plain },
            producer_id: has_producer.then_some(header.producer_id),
            producer_epoch: has_producer.then_some(header.producer_epoch),
            sequence: has_sequence.then(|| header.base_sequence.wrapping_add(record.offset_delta) & i32::MAX),
            batch: header.base_offset,
            compression: header.compression().map_or("unknown", |codec| codec.name()),
            fault: None,
        }
    }
}

fn control(record: &Record<'_>) -> String {
    match ControlRecord::of(record) {
        Some(ControlRecord::End { commit: true, .. }) => "COMMIT".to_owned(),
        Some(ControlRecord::End { commit: false, .. }) => "ABORT".to_owned(),
        _ => "control record of an unknown type".to_owned(),
    }
}

impl RecordRow {
    /// The row of a batch that cannot be read, with the values of its header if that can be.
    fn broken(header: Option<&BatchHeader>, fault: String) -> RecordRow {
        RecordRow {
            offset: header.map_or(-1, BatchHeader::last_offset),
            timestamp_ms: header.map_or(-1, |header| header.max_timestamp),
            key: None,
            value: None,
            headers: Vec::new(),
            control: None,
            fate: Fate::Plain,
            producer_id: None,
            producer_epoch: None,
            sequence: None,
            batch: header.map_or(-1, |header| header.base_offset),
            compression: "unknown",
            fault: Some(fault),
        }
    }

    fn class(&self) -> &'static str {
        match (self.control.is_some(), self.fate) {
            (true, _) => "control",
            (false, Fate::Aborted) => "aborted",
            _ => "",
        }
    }

    fn fate_word(&self) -> &'static str {
        match self.fate {
            Fate::Plain => "",
            Fate::Committed => "committed",
            Fate::Aborted => "aborted",
            Fate::Open => "open",
        }
    }
}

impl RecordsPage {
    /// The first offset of the page before.
    fn previous_offset(&self) -> i64 {
        (self.offset - i64::try_from(self.count).unwrap_or(0)).max(self.start)
    }
}
