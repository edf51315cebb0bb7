//! Fetching: a thread for each connection, one request at a time as Kafka's consumers do, every checksum compared.

use super::histogram::Histogram;
use super::procstat::Mark;
use super::settings::Settings;
use super::setup;
use crate::connection::Connection;
use bytes::Bytes;
use ottla_wire::batch::Batch;
use ottla_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_wire::messages::{FetchRequest, FetchResponse};
use ottla_wire::{ErrorCode, Text};
use std::thread;
use std::time::Instant;

/// The last version that names topics.
const VERSION: i16 = 12;

/// What a connection reads and until when.
#[derive(Clone)]
struct Plan {
    broker: String,
    topic: Text,
    partitions: Vec<i32>,
    from: i64,
    max_bytes: i32,
    partition_bytes: i32,
    /// Begin again when everything is read.
    again: bool,
    /// Wait for records that producers write meanwhile.
    follow: bool,
    /// When to begin and to end counting; none: until everything is read.
    window: Option<(Instant, Instant)>,
}

struct FetchFigures {
    bytes: u64,
    records: u64,
    requests: u64,
    times: Histogram,
}

/// Runs the cell and prints its figures.
pub(crate) fn run(settings: &Settings) -> Result<(), String> {
    let count: usize = settings.number("connections", 1)?;
    let millis: u64 = settings.number("millis", 1000)?;
    let targets = setup::targets(settings)?;
    let begin = Instant::now() + settings.millis("warm", 300)?;
    let window = (millis > 0).then_some((begin, begin + settings.millis("millis", 1000)?));
    let max_bytes = settings.number("max", 4 << 20)?;
    let plan = Plan {
        broker: settings.text("broker")?.to_owned(),
        topic: Text::from(settings.text_or("topic", "load")),
        partitions: Vec::new(),
        from: settings.number("from", 0)?,
        max_bytes,
        partition_bytes: settings.number("each", max_bytes)?,
        again: window.is_some(),
        follow: settings.number("follow", 0)? > 0,
        window,
    };
    let process = settings.number("pid", 0)?;
    let (started, mark) = (Instant::now(), Mark::now(process));
    let (done, mark) = thread::scope(|scope| {
        let readers: Vec<_> = (0..count.max(1))
            .map(|number| {
                let mut plan = plan.clone();
                plan.partitions = targets.iter().copied().skip(number).step_by(count.max(1)).collect();
                scope.spawn(move || read(&plan))
            })
            .collect();
        let mut mark = mark;
        if let Some((begin, end)) = window {
            thread::sleep(begin.saturating_duration_since(Instant::now()));
            mark = Mark::now(process);
            thread::sleep(end.saturating_duration_since(Instant::now()));
        }
        let figures = window.is_some().then(|| mark.figures());
        let done: Vec<_> = readers
            .into_iter()
            .map(|reader| reader.join().unwrap_or_else(|_| Err("a reader panicked".to_owned())))
            .collect();
        (done, figures.unwrap_or_else(|| mark.figures()))
    });
    let seconds = match window {
        Some((begin, end)) => (end - begin).as_secs_f64(),
        None => started.elapsed().as_secs_f64(),
    };
    let mut whole = FetchFigures { bytes: 0, records: 0, requests: 0, times: Histogram::new() };
    for read in done {
        let read = read?;
        whole.bytes += read.bytes;
        whole.records += read.records;
        whole.requests += read.requests;
        whole.times.add(&read.times);
    }
    let FetchFigures { bytes, records, requests, times } = whole;
    let quantiles = times.figures();
    println!(
        "seconds={seconds:.6} requests={requests} records={records} bytes={bytes} late=0 samples={requests} {quantiles} {mark}"
    );
    Ok(())
}

fn read(plan: &Plan) -> Result<FetchFigures, String> {
    let mut connection = Connection::open(&plan.broker)?;
    let mut places: Vec<(i32, i64)> =
        plan.partitions.iter().map(|partition| (*partition, plan.from)).collect();
    let mut done = FetchFigures { bytes: 0, records: 0, requests: 0, times: Histogram::new() };
    loop {
        let asked = Instant::now();
        if plan.window.is_some_and(|(_, end)| asked >= end) {
            return Ok(done);
        }
        let answer = connection.exchange(&plan.request(&places), VERSION)?;
        let (bytes, records) = take(&answer, &mut places)?;
        let now = Instant::now();
        if plan.window.is_none_or(|(begin, end)| asked >= begin && now < end) {
            done.bytes += bytes;
            done.records += records;
            done.requests += 1;
            done.times.record(now - asked);
        }
        if bytes == 0 && plan.follow {
            continue;
        }
        if bytes == 0 && plan.again {
            places.iter_mut().for_each(|(_, offset)| *offset = plan.from);
        } else if bytes == 0 {
            return Ok(done);
        }
    }
}

impl Plan {
    fn request(&self, places: &[(i32, i64)]) -> FetchRequest {
        let partition = |(partition, fetch_offset): &(i32, i64)| FetchPartition {
            partition: *partition,
            fetch_offset: *fetch_offset,
            current_leader_epoch: -1,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: self.partition_bytes,
            ..Default::default()
        };
        let topic = FetchTopic {
            topic: self.topic.clone(),
            partitions: places.iter().map(partition).collect(),
            ..Default::default()
        };
        FetchRequest {
            replica_id: -1,
            max_wait_ms: if self.follow { 500 } else { 0 },
            min_bytes: i32::from(self.follow),
            max_bytes: self.max_bytes,
            session_epoch: -1,
            topics: vec![topic],
            ..Default::default()
        }
    }
}

/// Reads the head of every batch, as a consumer does, and advances the position. Returns bytes and records.
fn take(answer: &FetchResponse, places: &mut [(i32, i64)]) -> Result<(u64, u64), String> {
    let (mut bytes, mut count) = (0, 0);
    if answer.error_code != 0 {
        return Err(format!("Fetch answered error {}", answer.error_code));
    }
    for row in answer.responses.iter().flat_map(|topic| &topic.partitions) {
        if row.error_code != 0 {
            let why = ErrorCode(row.error_code);
            return Err(format!("Fetch of partition {} answered {why:?}", row.partition_index));
        }
        let records = row.records.as_ref().map(|records| records.to_bytes()).unwrap_or_default();
        let place = places.iter_mut().find(|(partition, _)| *partition == row.partition_index);
        let (_, offset) = place.ok_or("Fetch answered with a partition that was not asked for")?;
        let mut rest: Bytes = records;
        // What lies behind the last whole batch is cut off by the size that was asked for.
        while let Ok(batch) = Batch::first(&rest) {
            batch.check_crc().map_err(|e| format!("partition {}: {e}", row.partition_index))?;
            let size = batch.bytes().len();
            bytes += size as u64;
            count += batch.header().record_count as u64;
            *offset = batch.header().last_offset() + 1;
            rest = rest.slice(size..);
        }
    }
    Ok((bytes, count))
}
