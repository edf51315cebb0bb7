//! Stock clients: Kafka's own perf tools, and a C program with librdkafka (e2e/bench/data/perf.c).

use super::case::Case;
use super::cells::Client;
use super::figures::Sample;
use super::sides::Side;
use crate::bench::peers::{self, cpu};
use crate::bench::txn::workers;
use crate::{kafka, process};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Neither tool takes so long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Records of 1 KiB that are consumed; there are a few more.
const CONSUMED: u32 = 200_000;

/// Gets ready what the clients need.
pub(super) fn prepare() -> Result<(), String> {
    kafka::fetch_tools()?;
    workers::librdkafka(&source(), &program()).map(drop)
}

fn source() -> PathBuf {
    process::root().join("e2e/bench/data/perf.c")
}

fn program() -> PathBuf {
    process::root().join("target/bench/perf-librdkafka")
}

/// Produces records with acks=all and all else the client's default, the first fifth not counted.
pub(super) fn produce(case: &Case<'_>, client: Client, record: u32) -> Result<Sample, String> {
    // No client can be asked to stop after a time, so a slow one gets less to do.
    let count: u32 = match case.broker.side {
        Side::KafkaFlush => 10_000,
        _ if record < 1000 => 1_500_000,
        _ => 300_000,
    };
    let (broker, topic, warm) = (&case.broker.address, &case.topic, count / 5);
    let mut command = match client {
        Client::Java => java(
            "ProducerPerformance",
            &format!(
                "--bootstrap-server {broker} --topic {topic} --num-records {count} --warmup-records {warm} --throughput -1 \
             --record-size {record} --command-property acks=all"
            ),
        )?,
        Client::Librdkafka => {
            let mut command = Command::new(program());
            command.args(["produce", broker, topic, &record.to_string(), &count.to_string()]);
            command
        }
    };
    run(case, &mut command, |said| match client {
        Client::Java => produced(said, record),
        Client::Librdkafka => Sample::read(said),
    })
}

/// Consumes what is there from the beginning.
pub(super) fn consume(case: &Case<'_>, client: Client) -> Result<Sample, String> {
    let (broker, topic) = (&case.broker.address, &case.topic);
    let mut command = match client {
        Client::Java => java(
            "ConsumerPerformance",
            &format!(
                "--bootstrap-server {broker} --topic {topic} --num-records {CONSUMED} --hide-header --timeout 20000"
            ),
        )?,
        Client::Librdkafka => {
            let mut command = Command::new(program());
            command.args(["consume", broker, topic, "0", &CONSUMED.to_string()]);
            command
        }
    };
    run(case, &mut command, |said| match client {
        Client::Java => consumed(said),
        Client::Librdkafka => Sample::read(said),
    })
}

fn java(class: &str, words: &str) -> Result<Command, String> {
    let mut command = peers::java(&kafka::fetch_tools()?);
    command.arg(format!("org.apache.kafka.tools.{class}")).args(words.split_whitespace());
    Ok(command)
}

/// Runs a client to its end. The broker's CPU time is that of the whole run.
fn run(
    case: &Case<'_>,
    command: &mut Command,
    read: impl Fn(&str) -> Result<Sample, String>,
) -> Result<Sample, String> {
    let before = cpu(case.broker.process)?;
    let output = process::capture(command, PATIENCE)?;
    if !output.status.is_some_and(|status| status.success()) {
        return Err(format!("{}{}", output.stdout.trim(), output.stderr.trim()));
    }
    let mut sample = read(&output.stdout)?;
    sample.set("whole_cpu", cpu(case.broker.process)?.saturating_sub(before).as_secs_f64());
    Ok(sample)
}

/// `N records sent, R records/sec (M MB/sec), A ms avg latency, X ms max latency, P ms 50th, ... P ms 99th, ...`: the
/// last such line, that of the time after the warm-up.
fn produced(said: &str, record: u32) -> Result<Sample, String> {
    let odd = || format!("the producer tool said: {said}");
    let line = said.lines().rfind(|line| line.contains("50th")).ok_or_else(odd)?;
    let before = |what: &str| {
        let word = line.split(what).next()?.split_whitespace().last()?;
        word.trim_start_matches('(').parse::<f64>().ok()
    };
    let sent = before(" records sent").or_else(|| before(" steady state records sent")).ok_or_else(odd)?;
    let rate = before(" records/sec").filter(|rate| *rate > 0.0).ok_or_else(odd)?;
    let mut sample = Sample::read(&format!(
        "requests={sent} records={sent} bytes={} seconds={}",
        sent * f64::from(record),
        sent / rate
    ))?;
    for (name, what) in [("p50", " ms 50th"), ("p99", " ms 99th")] {
        sample.set(name, before(what).ok_or_else(odd)? * 1e3);
    }
    Ok(sample)
}

/// Start, end, MiB, MiB/s, records, records/s, milliseconds of joining the group, milliseconds of fetching, MiB/s and
/// records/s of fetching.
fn consumed(said: &str) -> Result<Sample, String> {
    let odd = || format!("the consumer tool said: {said}");
    let line = said.lines().rfind(|line| line.split(", ").count() == 10).ok_or_else(odd)?;
    let number = |place: usize| line.split(", ").nth(place).and_then(|word| word.parse::<f64>().ok());
    let (Some(mebibytes), Some(records), Some(millis)) = (number(2), number(4), number(7)) else {
        return Err(odd());
    };
    let bytes = mebibytes * f64::from(1 << 20);
    Sample::read(&format!("requests={records} records={records} bytes={bytes} seconds={}", millis / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::data::figures::{Figure, P99};

    #[test]
    fn the_tools_lines_are_read() {
        let said = "100 records sent, 50.0 records/sec (0.05 MB/sec), 1.0 ms avg latency, 9.0 ms max latency, 1 ms 50th, 2 ms 95th, 8 ms 99th, 9 ms 99.9th.\n\
                    80 steady state records sent, 40.5 records/sec (0.04 MB/sec), 1.0 ms avg latency, 9.0 ms max latency, 1 ms 50th, 2 ms 95th, 7 ms 99th, 9 ms 99.9th.\n";
        let sample = produced(said, 1000).unwrap();
        assert_eq!(sample.get(P99), Some(7000.0));
        assert_eq!(sample.get(Figure::Records).map(|rate| (rate * 10.0).round()), Some(405.0));
        let said = "2026-01-01 00:00:00:000, 2026-01-01 00:00:02:000, 10.0, 5.0, 1000, 500.0, 1000, 1000, 10.0, 1000.0\n";
        assert_eq!(consumed(said).unwrap().get(Figure::Records), Some(1000.0));
        assert!(produced("nothing", 1).is_err() && consumed("nothing").is_err());
    }
}
