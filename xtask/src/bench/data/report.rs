//! The section of docs/evidence/benchmarks.md.

use super::cells::{self, Cell, Shape};
use super::figures::{Figure, Figures, P50, P99};
use super::sides::Side;
use super::{goals, plot};
use crate::bench::{page, spread_of};
use std::fmt::Write;
use std::time::Duration;

pub(super) const TITLE: &str = "Produce and fetch";

/// The facts stated next to the figures.
pub(super) struct Run<'a> {
    pub(super) options: &'a super::Options,
    /// The shapes of this run; there may be figures of others from the one before.
    pub(super) measured: Vec<Shape>,
    pub(super) prepared: Duration,
    pub(super) whole: Duration,
}

pub(super) fn text(figures: &Figures, run: &Run<'_>) -> String {
    let mut text = opening(run);
    let _ = write!(text, "\n### Goals\n\n{GOALS}\n{}\n{}", goals::table(figures), page::by_hand("goals"));
    for shape in Shape::ALL {
        let mut cells = shape.cells();
        cells.retain(|cell| figures.has(&cell.name));
        if cells.is_empty() {
            continue;
        }
        let cells = &cells[..];
        let _ = write!(text, "\n### {}\n\n", shape.title());
        if let Some(note) = note(shape) {
            let _ = write!(text, "{note}\n\n");
        }
        if shape == Shape::P3 {
            text.push_str(&plot::images());
        }
        let _ = write!(text, "{}\n{}", ratios(figures, cells), values(figures, cells));
        if shape == Shape::P6 {
            text.push_str(&beside(figures));
        }
        text.push_str(&more(figures, cells));
    }
    let failures: Vec<String> = figures.failures().collect();
    if !failures.is_empty() {
        let _ = write!(text, "\nFailed, and was not tried again: {}.\n", failures.join("; "));
    }
    text
}

const GOALS: &str = "A ratio compares two measurements of one round, seconds apart. The value is the median of the ratios, with the smallest \
                     and the largest.\n";

fn opening(run: &Run<'_>) -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let super::Options { rounds, millis, sustained, keep, .. } = run.options;
    let measured: Vec<String> = run.measured.iter().map(|shape| format!("{shape:?}")).collect();
    let kept = match keep {
        true => {
            format!("That is the run of {}; the others were measured in one before.\n\n", measured.join(", "))
        }
        false => String::new(),
    };
    format!(
        "`cargo xtask bench data --rounds {rounds} --millis {millis} --docs`: {rounds} rounds of {millis} ms for each figure, twice as many for P6,\n\
         at most two for P5 and the stock clients, and one of {sustained} s with retention. Load and broker share {cores} cores. {} s in all,\n\
         {} s of which for building. All brokers run at the same time; each cell is measured on one after the other before the next cell, beginning\n\
         with another broker in each round. Every producer is idempotent and uses acks=all.\n\n{kept}\
         Synced: Ottla with its defaults, which answers after fdatasync, and Apache Kafka 4.4.0 with `log.flush.interval.messages=1`, which flushes\n\
         each append before it answers. From the page cache: Ottla with `--durability os`, and Apache Kafka with its defaults. Apache Kafka has 512\n\
         MiB of heap. The limit is a sink with the same raw frames: it reads them, compares every checksum, writes everything that arrived with one\n\
         direct write into a preallocated file and one fdatasync (or stores nothing), and answers. It knows no topics, offsets or sequences. The\n\
         load is `crates/bench`: one thread for all producers, requests are encoded once and patched.\n\
         \n\
         CPU is what all threads of the broker's process used in the measured time. \"client\" is the CPU of the load program.\n",
        run.whole.as_secs(),
        run.prepared.as_secs()
    )
}

/// What must be known to read a shape's tables.
fn note(shape: Shape) -> Option<&'static str> {
    match shape {
        Shape::Quiet => Some(
            "A tenth of the rate is a tenth of what Apache Kafka reached at full speed, so that both brokers can do it. Requests are sent when they are\n\
             due, whether earlier ones were answered or not, and their latency counts from when they are due.",
        ),
        Shape::P3 => Some(
            "Batches of 16 KiB go to one partition after the other, and four consumers follow (the sinks have none). Requests are sent when they are\n\
             due, and their latency counts from then, so that it includes the delay of a broker that cannot keep up. A broker that answers less than\n\
             nine tenths in time is not tested at higher rates.",
        ),
        Shape::P5 => Some(
            "A request is one record to one partition. There are four producers with 16 requests in flight each.",
        ),
        Shape::P6 => Some(
            "Requests of 16 KiB at a third of the rate that the synced sink reaches with five in flight. Each round measures this alone; then while a\n\
             consumer reads 256 MiB of another topic from the disk again and again at full speed (for the sink, a program reads a file, which shows\n\
             what the disk itself does); then on an Ottla whose tail may have 4,000 batches, so that everything is rewritten as fast as it arrives, a\n\
             thousand batches at a time; and on an Ottla with 10,000 partitions that begins a snapshot after each 4 MiB of log instead of 256.",
        ),
        Shape::P7 => Some(
            "A consumer waits at the end of a partition. A record of 1 KiB is sent, and the latency ends when the consumer has it. Then the next one is\n\
             sent.",
        ),
        Shape::Fetch => Some(
            "One connection, at most 1 MiB for each request, one request after the other; every checksum is compared. \"What was just written\" is 8 MiB.\n\
             Before reads from the disk the page cache of the broker's files is dropped.",
        ),
        Shape::Clients => Some(
            "`kafka-producer-perf-test` and `kafka-consumer-perf-test` with acks=all, and a C program with an idempotent librdkafka producer; other\n\
             settings are defaults. The first fifth of the produced records is not counted. These clients use most of one of the two cores, so the\n\
             figures show what a user of two cores gets, and not what the brokers can do. CPU is that of the whole run with its warm-up.",
        ),
        Shape::P9 => Some("\"Disk\" is the size of all files of the broker at the end, its log included."),
        _ => None,
    }
}

/// Ottla by the limit and by Apache Kafka, as far as both were measured.
fn ratios(figures: &Figures, cells: &[Cell]) -> String {
    const COLUMNS: [(&str, Side, Side); 7] = [
        ("Ottla / synced sink", Side::OttlaDisk, Side::Sink),
        ("Ottla / sink, cached file", Side::OttlaDisk, Side::SinkFile),
        ("Ottla / sink, from disk", Side::OttlaDisk, Side::SinkCold),
        ("Ottla / Kafka, both synced", Side::OttlaDisk, Side::KafkaFlush),
        ("Ottla / sink that stores nothing", Side::OttlaOs, Side::SinkDiscard),
        ("Ottla / Kafka, both page cache", Side::OttlaOs, Side::KafkaCache),
        ("Ottla synced / Kafka page cache", Side::OttlaDisk, Side::KafkaCache),
    ];
    let ratio =
        |cell: &Cell, ours, theirs, figure| figures.ratio((&cell.name, ours), (&cell.name, theirs), figure);
    let there: Vec<_> = COLUMNS
        .iter()
        .filter(|(_, ours, theirs)| {
            cells.iter().any(|cell| ratio(cell, *ours, *theirs, Figure::Megabytes).is_some())
        })
        .collect();
    let mut text = "| |".to_owned();
    there.iter().for_each(|(title, ..)| text.push_str(&format!(" {title} | p99 |")));
    text.push_str("\n| --- |");
    there.iter().for_each(|_| text.push_str(" ---: | ---: |"));
    text.push('\n');
    for cell in cells {
        let _ = write!(text, "| {} |", cell.name);
        for (_, ours, theirs) in &there {
            let rate = spread_of(ratio(cell, *ours, *theirs, Figure::Megabytes), 2);
            let time = ratio(cell, *ours, *theirs, P99)
                .map_or("-".to_owned(), |(middle, ..)| format!("{middle:.2}"));
            let _ = write!(text, " {rate} | {time} |");
        }
        text.push('\n');
    }
    text
}

/// What each side did.
fn values(figures: &Figures, cells: &[Cell]) -> String {
    let mut text = "| | broker | MB/s | records/s | requests/s | p50, ms | p99, ms | broker CPU, s/GB | us/request | client CPU, s/GB |\n\
                    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for cell in cells {
        for side in &cell.sides {
            let of = |figure| figures.of(&cell.name, *side, figure);
            let Some(rate) = of(Figure::Megabytes) else { continue };
            let millis = |figure| spread_of(of(figure).map(|(a, b, c)| (a / 1e3, b / 1e3, c / 1e3)), 2);
            let middle = |figure, digits: usize| {
                of(figure).map_or("-".to_owned(), |(middle, ..)| format!("{middle:.digits$}"))
            };
            let cpu = of(Figure::CpuPerGigabyte).or_else(|| of(Figure::WholeCpuPerGigabyte));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                cell.name,
                side.title(),
                spread_of(Some(rate), 1),
                middle(Figure::Records, 0),
                middle(Figure::Requests, 0),
                millis(P50),
                millis(P99),
                cpu.map_or("-".to_owned(), |(middle, ..)| format!("{middle:.2}")),
                middle(Figure::CpuPerRequest, 1),
                middle(Figure::ClientPerGigabyte, 2)
            );
        }
    }
    text
}

/// P6: p99 with something else by p99 without, taken in the same round.
fn beside(figures: &Figures) -> String {
    let mut text =
        "\n| meanwhile | broker | p99 / p99 without other work |\n| --- | --- | ---: |\n".to_owned();
    for (what, cell, side, quiet) in [
        ("a file is read from the same disk", cells::BACKLOG, Side::Sink, Side::Sink),
        ("a backlog is read", cells::BACKLOG, Side::OttlaDisk, Side::OttlaDisk),
        ("a backlog is read", cells::BACKLOG, Side::OttlaOs, Side::OttlaOs),
        ("a backlog is read", cells::BACKLOG, Side::KafkaCache, Side::KafkaCache),
        ("all is rewritten", cells::REWRITTEN, Side::OttlaRewrites, Side::OttlaDisk),
        ("snapshots all the time", cells::SNAPSHOTS, Side::OttlaSnapshots, Side::OttlaDisk),
    ] {
        let ratio = figures.ratio((cell, side), (cells::ALONE, quiet), P99);
        let _ = writeln!(text, "| {what} | {} | {} |", side.title(), spread_of(ratio, 2));
    }
    text
}

/// Figures that only some cells have.
fn more(figures: &Figures, cells: &[Cell]) -> String {
    const MORE: [(&str, Figure, usize); 2] = [
        ("read meanwhile, MB/s", Figure::Named("drained"), 0),
        ("disk at the end, MiB", Figure::Named("disk"), 0),
    ];
    let mut text = String::new();
    for cell in cells {
        for side in &cell.sides {
            let told: Vec<String> = MORE
                .iter()
                .filter_map(|(title, figure, digits)| {
                    let value = figures.of(&cell.name, *side, *figure)?;
                    Some(format!("{title} {}", spread_of(Some(value), *digits)))
                })
                .collect();
            if !told.is_empty() {
                let _ = writeln!(text, "- {}, {}: {}", cell.name, side.title(), told.join("; "));
            }
        }
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}
