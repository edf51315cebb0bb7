//! The section of docs/benchmarks.md.

use std::fmt::Write;
use std::time::Duration;

use super::cells::{Cell, Shape};
use super::figures::{Figure, Figures, P50, P99, Spread};
use super::sides::Side;

pub(super) const TITLE: &str = "Produce and fetch";

/// What is told beside the figures.
pub(super) struct Run<'a> {
    pub(super) options: &'a super::Options,
    pub(super) measured: Vec<(Shape, Vec<Cell>)>,
    pub(super) prepared: Duration,
    pub(super) whole: Duration,
}

pub(super) fn text(figures: &Figures, run: &Run<'_>) -> String {
    let mut text = opening(run);
    for (shape, cells) in &run.measured {
        let _ = write!(text, "\n### {}\n\n{}", shape.title(), ratios(figures, cells));
        let _ = write!(text, "\n{}", values(figures, cells));
    }
    let failures: Vec<String> = figures.failures().collect();
    if !failures.is_empty() {
        let _ =
            write!(text, "\nFailed at least once, and missing from the medians: {}.\n", failures.join("; "));
    }
    text
}

fn opening(run: &Run<'_>) -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!(
        "`cargo xtask bench data --docs`: {} rounds of {} ms for each figure on {cores} cores, load and broker on the same; {} s in all, {} s of\n\
         which built and started things. Every producer is idempotent and asks for acks=all.\n",
        run.options.rounds,
        run.options.millis,
        run.whole.as_secs(),
        run.prepared.as_secs()
    )
}

/// Ottla by the limit and by Apache Kafka.
fn ratios(figures: &Figures, cells: &[Cell]) -> String {
    let mut text = "| | by the synced sink | times Kafka, synced both | by the sink that keeps nothing | times Kafka, page cache both |\n\
                    | --- | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for cell in cells {
        let ratio = |ours: Side, theirs: Side| {
            spread_of(figures.ratio((&cell.name, ours), (&cell.name, theirs), Figure::Megabytes), 2)
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            cell.name,
            ratio(Side::OttlaDisk, Side::Sink),
            ratio(Side::OttlaDisk, Side::KafkaFlush),
            ratio(Side::OttlaOs, Side::SinkDiscard),
            ratio(Side::OttlaOs, Side::KafkaCache)
        );
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
                middle(Figure::CpuPerGigabyte, 2),
                middle(Figure::CpuPerRequest, 1),
                middle(Figure::ClientPerGigabyte, 2)
            );
        }
    }
    text
}

/// A middle value with the least and the most.
fn spread_of(spread: Option<Spread>, digits: usize) -> String {
    match spread {
        Some((middle, least, most)) => format!("{middle:.digits$} [{least:.digits$} - {most:.digits$}]"),
        None => "-".to_owned(),
    }
}
