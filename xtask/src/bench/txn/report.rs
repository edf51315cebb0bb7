//! The section of docs/evidence/benchmarks.md.

use super::Cell;
use super::brokers::Side;
use super::figures::{Figures, Spread, Summary};
use super::workers::Client;
use crate::bench::goal::{self, Bound, Goal};
use crate::bench::page;
use std::fmt::Write;
use std::time::Duration;

pub(super) const TITLE: &str = "Transactions";

/// The facts stated next to the figures.
pub(super) struct Run {
    pub(super) rounds: usize,
    pub(super) millis: u64,
    pub(super) sides: Vec<Side>,
    pub(super) prepared: Duration,
    pub(super) whole: Duration,
}

pub(super) fn text(figures: &Figures, run: &Run) -> String {
    let mut text = opening(run);
    for (title, ours, theirs) in [
        ("Durable on both sides", Side::OttlaDisk, Side::KafkaFlush),
        ("From the page cache on both sides", Side::OttlaOs, Side::KafkaCache),
    ] {
        if run.sides.contains(&ours) || run.sides.contains(&theirs) {
            let _ = write!(text, "\n### {title}\n\n{}", beside(figures, ours, theirs));
        }
    }
    text.push_str(&limit(figures));
    text.push_str(&goals(figures));
    text.push_str(&small(figures));
    if figures.failures() > 0 {
        let _ = write!(
            text,
            "\n{} measurements failed at least once and are missing from their medians.\n",
            figures.failures()
        );
    }
    text
}

fn opening(run: &Run) -> String {
    let Run { rounds, millis, prepared, whole, .. } = run;
    format!(
        "`cargo xtask bench txn --docs`: {rounds} rounds of {millis} ms for each figure, {} s in all, {} s of which for building and starting.\n\
         All brokers run at the same time; each cell is measured on one after the other before the next cell. A transaction writes 1, 10 or 750\n\
         records of 100 bytes to one partition, commits one offset of a group, and ends. Each producer has its own partition. Transactions per\n\
         second are medians over the rounds, with the smallest and largest value in brackets. Times are p50 / p99 over all transactions: \"whole\"\n\
         from the begin to the end of the commit, \"commit\" the commit call alone. \"times\" is the median over the rounds of Ottla's rate divided by\n\
         Kafka's. CPU is what the broker used per transaction in microseconds; \"client\" is what the client used, on the same two cores.\n\
         \n\
         Durable: Apache Kafka runs with `log.flush.interval.messages=1`. It applies to all its logs, those of the data, of `__consumer_offsets`\n\
         and of `__transaction_state`: after each append the segment and its indexes are flushed before the answer. Ottla runs with its defaults.\n\
         From the page cache: Apache Kafka runs with its defaults, Ottla with `--durability os`. Apache Kafka has 5 partitions for each of the two\n\
         internal topics and 512 MiB of heap.\n\
         \n\
         Version 1 of the transaction protocol needs five requests for such a transaction, version 2 three. Raw frames (`crates/bench`) wait for\n\
         each answer and use the least CPU in the client, so they show what the broker can do, in both versions. librdkafka (C) uses version 1,\n\
         Kafka's Java client version 2, each with `linger.ms=0`. Both send records asynchronously and use far more CPU than the broker, which\n\
         limits them here.\n",
        whole.as_secs(),
        prepared.as_secs()
    )
}

fn beside(figures: &Figures, ours: Side, theirs: Side) -> String {
    let mut text = "| client, version | producers | records | Ottla, txn/s | whole, ms | commit, ms | CPU | Kafka, txn/s | whole, ms | commit, ms | CPU | times | client |\n\
                    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for cell in figures.cells() {
        let (our, their) = (figures.summary(cell, ours), figures.summary(cell, theirs));
        if our.is_none() && their.is_none() {
            continue;
        }
        let ratio = figures.ratio(cell, ours, theirs).map_or("-".to_owned(), |ratio| spread_of(ratio, 1));
        let client = our.as_ref().map_or("-".to_owned(), |summary| format!("{:.0}", summary.client));
        let _ = writeln!(text, "{} {} | {} | {ratio} | {client} |", head(cell), columns(our), columns(their));
    }
    text
}

fn head(cell: Cell) -> String {
    format!("| {}, {} | {} | {} |", cell.client.title(), cell.version, cell.producers, cell.records)
}

fn columns(summary: Option<Summary>) -> String {
    let Some(Summary { rate, whole, commit, broker, .. }) = summary else {
        return "- | - | - | -".to_owned();
    };
    let (rate, whole, commit) = (spread_of(rate, 0), pair(whole), pair(commit));
    format!("{rate} | {whole} | {commit} | {broker:.0}")
}

fn pair((p50, p99): (f64, f64)) -> String {
    format!("{p50:.2} / {p99:.1}")
}

fn spread_of((middle, least, most): Spread, digits: usize) -> String {
    format!("{middle:.digits$} [{least:.digits$} - {most:.digits$}]")
}

/// Ottla with raw frames by the null broker.
fn limit(figures: &Figures) -> String {
    let mut rows = String::new();
    for cell in figures.cells() {
        let (ours, null) = (figures.summary(cell, Side::OttlaDisk), figures.summary(cell, Side::Null));
        if let (Some(ours), Some(null), Some(ratio)) =
            (ours, null, figures.ratio(cell, Side::OttlaDisk, Side::Null))
        {
            let _ = writeln!(
                rows,
                "{} {} | {} | {} | {} | {} |",
                head(cell),
                spread_of(ours.rate, 0),
                pair(ours.whole),
                spread_of(null.rate, 0),
                pair(null.whole),
                spread_of(ratio, 2)
            );
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "\n### Compared with the limit\n\n\
         The same frames, sent to a broker that sums up each frame, writes everything that arrived with one direct write into a preallocated file\n\
         and one fdatasync, and sends empty answers. It shows what round trips and the disk allow.\n\n\
         | client, version | producers | records | Ottla, txn/s | whole, ms | limit, txn/s | whole, ms | share |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n{rows}"
    )
}

fn goals(figures: &Figures) -> String {
    let goal = |producers, bound| {
        let cell = Cell { client: Client::Raw, version: 2, producers, records: 1 };
        let what = format!("raw frames, version 2, one record, {producers} producers: rate / limit");
        Goal {
            name: "G5",
            what,
            bound: Bound::AtLeast(bound),
            value: figures.ratio(cell, Side::OttlaDisk, Side::Null),
        }
    };
    format!("\n{}\n{}", goal::table(&[goal(1, 0.6), goal(16, 0.5)]), page::by_hand("transactions"))
}

/// The peers with librdkafka and one producer.
fn small(figures: &Figures) -> String {
    let sides = [
        Side::OttlaDisk,
        Side::KfakeSync,
        Side::OttlaOs,
        Side::KfakeMemory,
        Side::KafkaFlush,
        Side::KafkaCache,
    ];
    let mut rows = String::new();
    for cell in figures.cells() {
        if cell.client != Client::Librdkafka || figures.summary(cell, Side::KfakeMemory).is_none() {
            continue;
        }
        for side in sides {
            if let Some(Summary { rate, whole, commit, broker, .. }) = figures.summary(cell, side) {
                let (rate, whole, commit) = (spread_of(rate, 0), pair(whole), pair(commit));
                let title = side.title();
                let _ = writeln!(
                    rows,
                    "| {title} | {} | {rate} | {whole} | {commit} | {broker:.0} |",
                    cell.records
                );
            }
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "\n### One producer, librdkafka\n\n\
         For comparison: kfake of franz-go, in memory (its default) and on disk with a sync for each write.\n\n\
         | broker | records | txn/s | whole, ms | commit, ms | CPU |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n{rows}"
    )
}
