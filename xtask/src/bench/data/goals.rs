//! The goals with which the figures are compared.

use super::cells;
use super::figures::{Figure, Figures, P50, P99};
use super::sides::Side;
use crate::bench::goal::{self, Bound, Goal};
use std::fmt::Write;

/// The table of goals, Apache Kafka's half and the limit's.
pub(super) fn table(figures: &Figures) -> String {
    let goals: Vec<Goal> = beside_kafka(figures).into_iter().chain(by_the_limit(figures)).collect();
    let mut text = goal::table(&goals);
    for (name, what, bound, place) in ELSEWHERE {
        let _ = writeln!(text, "| {name} | {what} | {bound} | {place} | |");
    }
    text
}

/// Goals that other benches and tests measure.
const ELSEWHERE: [(&str, &str, &str, &str); 4] = [
    (
        "G5",
        "transactions / limit, 1 and 16 producers",
        "at least 0.6, 0.5",
        "see Transactions, Compared with the limit",
    ),
    ("G6, G7", "starts and restarts", "20 ms, 10 MiB; 300 ms, 150 MiB; 1.5 raw scans", "see Start"),
    ("G9", "memory under any client", "256 MiB by default", "a test"),
    ("G10", "anomalies that the checker finds", "none", "docs/internals/reliability.md"),
];

fn beside_kafka(figures: &Figures) -> Vec<Goal> {
    let times = |what: &str, cell: &str, (ours, theirs): (Side, Side), figure, bound| Goal {
        name: "Kafka",
        what: what.to_owned(),
        bound,
        value: figures.ratio((cell, ours), (cell, theirs), figure),
    };
    let synced = (Side::OttlaDisk, Side::KafkaFlush);
    let cached = (Side::OttlaOs, Side::KafkaCache);
    let fetched = (Side::OttlaDisk, Side::KafkaCache);
    let (rate, least) = (Figure::Megabytes, Bound::AtLeast);
    vec![
        times("produce 1 KiB / Kafka, both page cache", cells::BATCHES, cached, rate, least(1.3)),
        times("produce 1 KiB / Kafka, both synced", cells::BATCHES, synced, rate, least(5.0)),
        times("produce 100 B / Kafka, both page cache", cells::SMALL_RECORDS, cached, rate, least(1.3)),
        times("produce 100 B / Kafka, both synced", cells::SMALL_RECORDS, synced, rate, least(5.0)),
        times(
            "p99 / Kafka at a tenth of its rate, both page cache",
            cells::TENTH_CACHED,
            cached,
            P99,
            third(),
        ),
        times("p99 / Kafka at a tenth of its rate, both synced", cells::TENTH_SYNCED, synced, P99, third()),
        times("consume what was just written / Kafka", cells::TAIL, fetched, rate, least(1.3)),
        times("consume from cached files / Kafka", cells::WARM, fetched, rate, least(1.3)),
        partitions(figures, Side::OttlaDisk),
        partitions(figures, Side::OttlaOs),
    ]
}

fn third() -> Bound {
    Bound::AtMost(0.33)
}

fn partitions(figures: &Figures, side: Side) -> Goal {
    Goal {
        name: "Kafka",
        what: format!("{}: rate with 10,000 partitions, 2 % active / rate with 10", side.title()),
        bound: Bound::AtLeast(0.95),
        value: figures.ratio((cells::MANY, side), (cells::FEW, side), Figure::Requests),
    }
}

fn by_the_limit(figures: &Figures) -> Vec<Goal> {
    let share = |name, what: &str, cell: &str, limit, bound| Goal {
        name,
        what: what.to_owned(),
        bound: Bound::AtLeast(bound),
        value: figures.ratio((cell, Side::OttlaDisk), (cell, limit), Figure::Megabytes),
    };
    let time = |name, what: &str, figure, bound| Goal {
        name,
        what: what.to_owned(),
        bound: Bound::AtMost(bound),
        value: figures.ratio((cells::UNLOADED, Side::OttlaDisk), (cells::UNLOADED, Side::Sink), figure),
    };
    let own = |name, what: &str, cell: &str, figure, bound| Goal {
        name,
        what: what.to_owned(),
        bound: Bound::AtMost(bound),
        value: figures.of(cell, Side::OttlaDisk, figure),
    };
    let beside = |what: &str, cell| Goal {
        name: "G8",
        what: format!("produce at a third of the limit: {what} / without that"),
        bound: Bound::AtMost(2.0),
        value: figures.ratio(cell, (cells::ALONE, Side::OttlaDisk), P99),
    };
    vec![
        share("G1", "durable produce 1 MiB, 4 in flight / limit", cells::LARGE_BATCHES, Side::Sink, 0.65),
        share("G2", "durable produce 16 KiB, 5 in flight / limit", cells::BATCHES, Side::Sink, 0.6),
        share("G2", "durable produce 1 KiB, 64 in flight / limit", cells::SINGLES, Side::Sink, 0.5),
        time("G3", "unloaded produce, p50 / p50 of the limit", P50, 1.5),
        time("G3", "unloaded produce, p99 / p99 of the limit", P99, 2.0),
        share("G4", "fetch from memory / limit", cells::TAIL, Side::Sink, 0.7),
        share("G4", "fetch from the page cache / limit", cells::WARM, Side::SinkFile, 0.7),
        share("G4", "fetch from the disk / limit", cells::COLD, Side::SinkCold, 0.8),
        beside("p99 while a backlog is read from the disk", (cells::BACKLOG, Side::OttlaDisk)),
        beside("p99 while everything is rewritten", (cells::REWRITTEN, Side::OttlaRewrites)),
        beside(
            "p99 while snapshots of 10,000 partitions are written",
            (cells::SNAPSHOTS, Side::OttlaSnapshots),
        ),
        own(
            "G11",
            "broker CPU, seconds for a GB in 1 MiB batches",
            cells::LARGE_BATCHES,
            Figure::CpuPerGigabyte,
            0.6,
        ),
        own(
            "G11",
            "broker CPU, microseconds for a request of 1 KiB",
            cells::SINGLES,
            Figure::CpuPerRequest,
            10.0,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::figures::Sample;
    use super::*;

    #[test]
    fn goals_are_held_against_the_figures_they_name() {
        let mut figures = Figures::default();
        let sample = |line: &str| Sample::read(line).unwrap();
        for (cell, side, line) in [
            (cells::LARGE_BATCHES, Side::OttlaDisk, "requests=1000 bytes=1e9 seconds=1 broker_cpu=0.5"),
            (cells::SINGLES, Side::OttlaDisk, "requests=1000 bytes=1e9 seconds=1 broker_cpu=0.02"),
            (cells::ALONE, Side::OttlaDisk, "requests=1 p99=1000"),
            (cells::REWRITTEN, Side::OttlaRewrites, "requests=1 p99=2100"),
        ] {
            figures.add(cell, side, 0, sample(line));
        }
        let text = table(&figures);
        let row = |begin: &str| text.lines().find(|line| line.contains(begin)).unwrap_or_default().to_owned();
        assert!(row("seconds for a GB").ends_with("| 0.50 [0.50 - 0.50] | met |"));
        assert!(row("microseconds for a request").ends_with("| 20.00 [20.00 - 20.00] | **missed** |"));
        assert!(row("while everything is rewritten").ends_with("| 2.10 [2.10 - 2.10] | **missed** |"));
        assert!(row("G1 ").ends_with("| - | not measured |"));
    }
}
