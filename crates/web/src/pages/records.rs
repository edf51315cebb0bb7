//! The records of a partition, opened: keys, values, headers, markers, and what became of their transactions.

use super::text::{Shown, moment};
use crate::asked::{Asked, Refusal};
use crate::shell::Shell;
use askama::Template;
use bytes::Bytes;
use ottla_core::Shard;
use ottla_core::partition::{Isolation, Partition, ReadPlan};
use ottla_types::record::AbortedTransaction;
use ottla_types::{Offset, ProducerId};
use ottla_wire::batch::{BatchError, BatchHeader, ControlRecord, Record, RecordSet, split};
use serde::Serialize;
use std::collections::BTreeMap;

/// Rows shown unless asked otherwise, and at most.
const ROWS: usize = 50;
const MOST_ROWS: usize = 500;
/// Bytes of batches that are read for a page, but for a single batch that is larger.
const MOST_BYTES: u64 = 1 << 20;
/// The most that all batches of a page may be decompressed to: what is left waits for the next page.
const MOST_OPENED: usize = 16 << 20;
/// Bytes of a key or value that are shown unless asked otherwise, and at most of all rows together.
const SHOWN: usize = 1000;
const MOST_SHOWN: usize = 4 << 20;

/// Records of a partition.
#[derive(Template, Serialize)]
#[template(path = "records.html")]
pub(crate) struct RecordsPage {
    #[serde(skip)]
    shell: Shell,
    topic: String,
    partition: i32,
    start: i64,
    last_stable_offset: i64,
    high_watermark: i64,
    /// The offset that was asked for.
    offset: i64,
    count: usize,
    records: Vec<Row>,
    /// Where to read on; the high watermark if nothing is left.
    next_offset: i64,
}

/// A record, or a batch that cannot be opened.
#[derive(Serialize)]
struct Row {
    offset: i64,
    timestamp_ms: i64,
    key: Option<Shown>,
    value: Option<Shown>,
    headers: Vec<HeaderRow>,
    /// What a control record says: `COMMIT`, `ABORT`.
    control: Option<String>,
    /// What became of its transaction.
    fate: Fate,
    producer_id: Option<i64>,
    producer_epoch: Option<i16>,
    sequence: Option<i32>,
    /// First offset of its batch.
    batch: i64,
    compression: &'static str,
    /// Why the batch cannot be opened.
    fault: Option<String>,
}

#[derive(Serialize)]
struct HeaderRow {
    name: String,
    value: Option<Shown>,
}

/// What became of a record's transaction.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    /// It is in none.
    Plain,
    /// It committed.
    Committed,
    /// It aborted: read_committed readers skip the record.
    Aborted,
    /// It is open: read_committed readers wait.
    Open,
}

/// What the shard knows of the records that are asked for.
struct Plan {
    start: Offset,
    last_stable: Offset,
    high_watermark: Offset,
    offset: Offset,
    read: ReadPlan,
    aborted: Vec<AbortedTransaction>,
    /// First offsets of open transactions.
    open: BTreeMap<ProducerId, Offset>,
}

pub(crate) async fn records(asked: Asked) -> Result<RecordsPage, Refusal> {
    let topic = asked.part("topic").to_owned();
    let partition: i32 = asked
        .part("partition")
        .parse()
        .map_err(|_| Refusal::missing(format!("{:?} is no partition number", asked.part("partition"))))?;
    let offset = asked.number::<i64>("offset")?;
    let count = asked.number::<usize>("count")?.unwrap_or(ROWS).clamp(1, MOST_ROWS);
    let shown = asked.number::<usize>("bytes")?.unwrap_or(SHOWN).clamp(1, MOST_SHOWN / count);
    let name = topic.clone();
    let look = asked.app.broker.host().read(move |shard, _| plan(shard, &name, partition, offset, count));
    let plan = look.await?.ok_or_else(|| {
        Refusal::missing(format!("there is no partition {partition} of a topic named {topic:?}"))
    })?;
    let chunks = asked.app.broker.read_plan(&plan.read).await.map_err(|error| {
        Refusal::new(
            axum::http::StatusCode::INTERNAL_SERVER_ERROR,
            format!("the records cannot be read: {error}"),
        )
    })?;
    let records = plan.open(&chunks, count, shown);
    let after = records.last().map_or(plan.high_watermark.0, |row| row.offset + 1);
    Ok(RecordsPage {
        shell: asked.shell(format!("Topic {topic}, partition {partition}"), "Topics"),
        topic,
        partition,
        start: plan.start.0,
        last_stable_offset: plan.last_stable.0,
        high_watermark: plan.high_watermark.0,
        offset: plan.offset.0,
        count,
        records,
        next_offset: after,
    })
}

/// Where the asked records lie: from an offset on, or the last ones if none is given. Offsets out of range are put in range.
fn plan(shard: &Shard, topic: &str, partition: i32, offset: Option<i64>, count: usize) -> Option<Plan> {
    let at = shard.catalog().partition_named(topic, partition)?;
    let partition = shard.partitions().get(at)?;
    let (start, high_watermark) = (partition.log_start(), partition.high_watermark());
    let last = high_watermark.0 - i64::try_from(count).unwrap_or(i64::MAX);
    let offset = Offset(offset.unwrap_or(last)).min(high_watermark).max(start);
    let read = partition.read(offset, MOST_BYTES, true, Isolation::Uncommitted).ok()?;
    let last = read.last_offset().unwrap_or(offset);
    let open = partition.producers().filter_map(|state| Some((state.producer_id, state.transaction_start?)));
    Some(Plan {
        start,
        last_stable: partition.last_stable(),
        high_watermark,
        offset,
        aborted: Partition::aborted_between(partition, offset, last),
        read,
        open: open.collect(),
    })
}

impl Plan {
    /// Opens batches until there are enough rows.
    fn open(&self, chunks: &[Bytes], count: usize, shown: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut left = MOST_OPENED;
        for batch in chunks.iter().flat_map(split) {
            if rows.len() >= count {
                break;
            }
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    rows.push(Row::broken(None, error.to_string()));
                    break;
                }
            };
            let walked = match batch.records(left) {
                // It may fit when it comes first.
                Err(_) if left < MOST_OPENED => break,
                Err(error) => Err(error),
                Ok(set) => {
                    left = left.saturating_sub(set.body().len());
                    self.walk(batch.header(), &set, (count, shown), &mut rows)
                }
            };
            if let Err(error) = walked {
                rows.push(Row::broken(Some(batch.header()), error.to_string()));
            }
        }
        rows
    }

    /// Adds the wanted records of a batch, up to so many rows and shown bytes.
    fn walk(
        &self,
        header: &BatchHeader,
        set: &RecordSet,
        (count, shown): (usize, usize),
        rows: &mut Vec<Row>,
    ) -> Result<(), BatchError> {
        for record in set.iter() {
            let record = record?;
            if rows.len() < count && header.base_offset + i64::from(record.offset_delta) >= self.offset.0 {
                rows.push(self.row(header, &record, shown));
            }
        }
        Ok(())
    }

    fn row(&self, header: &BatchHeader, record: &Record<'_>, shown: usize) -> Row {
        let offset = header.base_offset + i64::from(record.offset_delta);
        let has_producer = header.producer_id >= 0;
        let has_sequence = has_producer && header.base_sequence >= 0;
        let show = |bytes: &[u8]| Shown::new(bytes, shown);
        let headers = record.headers.clone().map(|header| HeaderRow {
            name: String::from_utf8_lossy(header.key).into_owned(),
            value: header.value.map(show),
        });
        Row {
            offset,
            timestamp_ms: header.timestamp(record.timestamp_delta),
            key: record.key.map(show),
            value: record.value.map(show),
            headers: headers.collect(),
            control: header.is_control().then(|| control(record)),
            fate: self.fate(header, offset),
            producer_id: has_producer.then_some(header.producer_id),
            producer_epoch: has_producer.then_some(header.producer_epoch),
            sequence: has_sequence.then(|| header.base_sequence.wrapping_add(record.offset_delta) & i32::MAX),
            batch: header.base_offset,
            compression: header.compression().map_or("unknown", |codec| codec.name()),
            fault: None,
        }
    }

    fn fate(&self, header: &BatchHeader, offset: i64) -> Fate {
        if !header.is_transactional() || header.is_control() {
            return Fate::Plain;
        }
        let producer = ProducerId(header.producer_id);
        if self.open.get(&producer).is_some_and(|first| first.0 <= offset) {
            return Fate::Open;
        }
        let holds = |one: &AbortedTransaction| {
            one.producer_id == producer && (one.first_offset.0..one.marker_offset.0).contains(&offset)
        };
        if self.aborted.iter().any(holds) { Fate::Aborted } else { Fate::Committed }
    }
}

fn control(record: &Record<'_>) -> String {
    match ControlRecord::of(record) {
        Some(ControlRecord::End { commit: true, .. }) => "COMMIT".to_owned(),
        Some(ControlRecord::End { commit: false, .. }) => "ABORT".to_owned(),
        _ => "control record of an unknown type".to_owned(),
    }
}

impl Row {
    /// A batch that cannot be opened, with its header if that can be.
    fn broken(header: Option<&BatchHeader>, fault: String) -> Row {
        Row {
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
    /// Where the page before begins.
    fn previous_offset(&self) -> i64 {
        (self.offset - i64::try_from(self.count).unwrap_or(0)).max(self.start)
    }
}
