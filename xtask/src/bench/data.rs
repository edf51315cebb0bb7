//! `cargo xtask bench data`: produce and fetch, Ottla beside Apache Kafka and beside a sink that is the limit, in
//! rounds that interleave. Within a round each cell is measured on one side after the other, seconds apart, so that a
//! slow minute affects all of them.

use crate::{e2e, process};
use cells::{Cell, Shape, Work};
use figures::{Figure, Figures};
use sides::{Running, Side};
use std::path::PathBuf;
use std::time::Instant;

mod case;
mod cells;
mod clients;
mod figures;
mod goals;
mod measure;
mod plot;
mod report;
mod sides;

/// How much to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds; each measures every cell on every side once.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Milliseconds that a cell is measured for in a round.
    #[arg(long, default_value_t = 1000)]
    millis: u64,
    /// Seconds of the run with retention; its shape wants 900.
    #[arg(long, default_value_t = 15)]
    sustained: u64,
    /// Only these shapes.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Shape>,
    /// Only these brokers and limits.
    #[arg(long, value_enum, value_delimiter = ',')]
    sides: Vec<Side>,
    /// Only cells whose name contains this text.
    #[arg(long)]
    cell: Option<String>,
    /// Also measure this build of Ottla, as the sides other-disk and other-os.
    #[arg(long, value_name = "PROGRAM")]
    other: Option<std::path::PathBuf>,
    /// Measure the programs below target/release as they are, without building them.
    #[arg(long)]
    no_build: bool,
    /// Keep the figures of the run before, but for the shapes that are measured now.
    #[arg(long)]
    keep: bool,
    /// Write the figures to docs/evidence/benchmarks.md.
    #[arg(long)]
    docs: bool,
}

/// How long a measurement takes.
#[derive(Clone, Copy)]
struct Pace {
    millis: u64,
    /// Milliseconds of the same load before the clock starts.
    warm: u64,
    /// Milliseconds of a run with retention.
    sustained: u64,
    /// Bytes after which a measurement ends early.
    bytes: u64,
}

/// The share of a rate that must be answered in time for a higher one to be tried.
const KEPT_UP: f64 = 0.9;
/// Bytes that a measurement writes at most after its warm-up.
const MOST_BYTES: u64 = 1 << 30;

pub(super) fn run(options: &Options) -> Result<(), String> {
    let started = Instant::now();
    let shapes: Vec<Shape> = Shape::ALL
        .into_iter()
        .filter(|shape| options.only.is_empty() || options.only.contains(shape))
        .collect();
    prepare(options, &shapes)?;
    let prepared = started.elapsed();
    let figures = if options.keep { Figures::load(&kept())? } else { Figures::default() };
    let mut bench = Bench { options, kafkas: Vec::new(), figures, started, too_slow: Vec::new() };
    for (number, shape) in shapes.iter().enumerate() {
        let names: Vec<String> = shape.cells().into_iter().map(|cell| cell.name).collect();
        bench.figures.forget(&names);
        bench.shape(*shape, &options.cells(*shape));
        bench.figures.save(&kept())?;
        // After each shape, so that a run that is ended early leaves what it has measured.
        let measured = shapes.iter().take(number + 1).copied().collect();
        let run = report::Run { options, measured, prepared, whole: started.elapsed() };
        let text = report::text(&bench.figures, &run);
        if options.docs {
            plot::write(&bench.figures)?;
            super::page::write(report::TITLE, &text)?;
        }
        if number + 1 == shapes.len() {
            println!("{text}");
        }
    }
    Ok(())
}

/// Where the figures of a run are kept for the next one.
fn kept() -> PathBuf {
    process::root().join("target/bench/data-figures.tsv")
}

/// Builds and fetches what is measured, and the programs that measure.
fn prepare(options: &Options, shapes: &[Shape]) -> Result<(), String> {
    if shapes.contains(&Shape::Clients) {
        clients::prepare()?;
    }
    if options.no_build {
        return Ok(());
    }
    e2e::broker::build_ottla()?;
    process::run(&process::root(), &["cargo", "build", "--release", "-p", "ottla-bench"])?;
    Ok(())
}

impl Options {
    /// The cells of a shape that were asked for, on the sides that were.
    fn cells(&self, shape: Shape) -> Vec<Cell> {
        let mut cells = shape.cells();
        cells.retain(|cell| self.cell.as_ref().is_none_or(|text| cell.name.contains(text)));
        for cell in &mut cells {
            if self.other.is_some() {
                cell.sides.extend(cell.sides.clone().into_iter().filter_map(Side::other));
            }
            cell.sides.retain(|side| self.sides.is_empty() || self.sides.contains(side));
        }
        cells.retain(|cell| !cell.sides.is_empty());
        cells
    }
}

struct Bench<'a> {
    options: &'a Options,
    /// Apache Kafka takes seconds to start and to become fast, and gives the space of topics back: it stays up.
    kafkas: Vec<Running>,
    figures: Figures,
    started: Instant,
    /// The sides that did not keep up with a rate in a round: higher rates are skipped.
    too_slow: Vec<(usize, Side)>,
}

impl Bench<'_> {
    /// Measures a shape in all rounds. Ottla and the sinks are started anew for it, and Apache Kafka if it failed
    /// before.
    fn shape(&mut self, shape: Shape, cells: &[Cell]) {
        self.too_slow.clear();
        let mut sides: Vec<Side> = cells.iter().flat_map(|cell| cell.sides.iter().copied()).collect();
        sides.sort();
        sides.dedup();
        let mut others = Vec::new();
        for side in sides {
            if let Err(why) = self.start(side, &mut others) {
                eprintln!("bench: {shape:?}: {} does not start: {why}", side.title());
                let lost = cells.iter().filter(|cell| cell.sides.contains(&side));
                lost.for_each(|cell| self.figures.failed(&cell.name, side));
            }
        }
        let rounds = shape.rounds(self.options.rounds);
        for round in 0..rounds {
            for cell in cells {
                self.cell(cell, &others, round);
            }
            let seconds = self.started.elapsed().as_secs();
            eprintln!("bench: {shape:?}, round {} of {rounds} done after {seconds} s", round + 1);
        }
        // A broker that failed may not recover.
        let failed = |side| cells.iter().any(|cell| self.figures.has_failed(&cell.name, side));
        self.kafkas.retain(|kafka| !failed(kafka.side));
    }

    fn start(&mut self, side: Side, others: &mut Vec<Running>) -> Result<(), String> {
        let other = self.options.other.as_deref();
        if !side.is_kafka() {
            others.push(Running::start(side, other)?);
        } else if self.kafkas.iter().all(|kafka| kafka.side != side) {
            self.kafkas.push(warm(Running::start(side, other)?)?);
        }
        Ok(())
    }

    /// Measures a cell on each side, beginning with another one in each round.
    fn cell(&mut self, cell: &Cell, others: &[Running], round: usize) {
        let Options { millis, sustained, .. } = *self.options;
        let pace = Pace { millis, warm: cell.warm(), sustained: sustained * 1000, bytes: MOST_BYTES };
        let count = cell.sides.len();
        for side in cell.sides.iter().cycle().skip(round % count).take(count) {
            let mut brokers = self.kafkas.iter().chain(others);
            let Some(broker) = brokers.find(|broker| broker.side == *side) else { continue };
            if self.figures.has_failed(&cell.name, *side) {
                continue;
            }
            if self.too_slow.contains(&(round, *side)) && matches!(cell.work, Work::Paced { .. }) {
                continue;
            }
            match measure::measure(cell, broker, &pace, &self.figures) {
                Ok(sample) => {
                    if sample.get(Figure::Share).is_some_and(|share| share < KEPT_UP) {
                        self.too_slow.push((round, *side));
                    }
                    self.figures.add(&cell.name, *side, round, sample);
                }
                Err(why) => {
                    eprintln!("bench: {}, {}: {why}", side.title(), cell.name);
                    self.figures.failed(&cell.name, *side);
                }
            }
        }
    }
}

/// Gives Java's compiler time to do its work.
fn warm(broker: Running) -> Result<Running, String> {
    let pace = Pace { millis: 1500, warm: 0, sustained: 0, bytes: MOST_BYTES };
    for cell in Shape::P2.cells().iter().filter(|cell| cell.name.contains("KiB")) {
        measure::measure(cell, &broker, &pace, &Figures::default())?;
    }
    Ok(broker)
}
