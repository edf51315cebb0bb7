//! End to end: one record at a time, from sending it until a consumer that waits for it has it.

use super::histogram::Histogram;
use super::procstat::Mark;
use super::settings::Settings;
use super::setup;
use super::template::{BatchShape, Template};
use crate::connection::Connection;
use ottla_wire::Text;
use ottla_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_wire::messages::{FetchRequest, FetchResponse};
use std::io::{Read, Write};
use std::time::Instant;

/// The last version of Fetch that names topics.
const FETCH: i16 = 12;
/// Longer than any record takes.
const MOST_WAIT: i32 = 5_000;

/// Runs the cell and prints its figures. The window begins when the fetch waits at the broker.
pub(crate) fn run(settings: &Settings) -> Result<(), String> {
    let (broker, topic) = (settings.text("broker")?, settings.text_or("topic", "load"));
    let shape = BatchShape { record: settings.number("record", 1024)?, records: 1 };
    let mut producer = Connection::open(broker)?;
    let mut template = Template::new(topic, 1, &shape, -1);
    let (id, epoch) = setup::producer(&mut producer)?;
    template.set_producer(id, epoch);
    let mut producer = producer.into_stream();
    let mut consumer = Connection::open(broker)?;
    let begin = Instant::now() + settings.millis("warm", 300)?;
    let end = begin + settings.millis("millis", 1000)?;
    let process = settings.number("pid", 0)?;
    let (mut times, mut mark) = (Histogram::new(), None);
    for sequence in 0.. {
        if Instant::now() >= end {
            break;
        }
        consumer.ask(&request(topic, i64::from(sequence)), FETCH)?;
        template.set_correlation(sequence);
        template.set(0, 0, sequence);
        if mark.is_none() && Instant::now() >= begin {
            mark = Some(Mark::now(process));
        }
        let sent = Instant::now();
        producer.write_all(template.bytes()).map_err(|e| format!("Produce: {e}"))?;
        let answer: FetchResponse = consumer.hear::<FetchRequest>(FETCH)?;
        let took = sent.elapsed();
        acknowledged(&mut producer)?;
        let rows = answer.responses.iter().flat_map(|topic| &topic.partitions);
        if rows.filter_map(|row| row.records.as_ref()).all(|records| records.is_empty()) {
            return Err(format!("record {sequence} did not arrive"));
        }
        if sent >= begin {
            times.record(took);
        }
    }
    let (count, seconds) = (times.count(), (end - begin).as_secs_f64());
    println!(
        "seconds={seconds:.6} requests={count} records={count} bytes={} late=0 samples={count} {} {}",
        count * template.batches() as u64,
        times.figures(),
        mark.map(|mark| mark.figures()).unwrap_or_default()
    );
    Ok(())
}

/// Reads the answer to Produce; that it names an error shows at the consumer.
fn acknowledged(producer: &mut std::net::TcpStream) -> Result<(), String> {
    let told = |e: std::io::Error| format!("Produce: {e}");
    let mut size = [0; 4];
    producer.read_exact(&mut size).map_err(told)?;
    let mut answer = vec![0; u32::from_be_bytes(size) as usize];
    producer.read_exact(&mut answer).map_err(told)
}

fn request(topic: &str, fetch_offset: i64) -> FetchRequest {
    let partition = FetchPartition {
        partition: 0,
        fetch_offset,
        current_leader_epoch: -1,
        last_fetched_epoch: -1,
        log_start_offset: -1,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let topic = FetchTopic { topic: Text::from(topic), partitions: vec![partition], ..Default::default() };
    FetchRequest {
        replica_id: -1,
        max_wait_ms: MOST_WAIT,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    }
}
