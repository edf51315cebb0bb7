//! `cargo xtask bench start`: from exec to the first acknowledged record, idle memory, size of the program.

use super::peers::{self, Peer};
use super::{page, probe, restart, spread, spread_of};
use crate::process::{self, Guard};
use std::time::{Duration, Instant};

/// How often to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Runs of each broker, taken in turn; Apache Kafka gets a third of them.
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// Only ours: with no data, with 10,000 partitions, with a full tail.
    #[arg(long)]
    own: bool,
    /// Measure the programs below target as they are, without building them.
    #[arg(long)]
    no_build: bool,
    /// Write the figures to docs/evidence/benchmarks.md.
    #[arg(long)]
    docs: bool,
}

struct Sample {
    first_record_ms: f64,
    idle_mib: f64,
}

pub(super) fn run(options: &Options) -> Result<(), String> {
    if options.own {
        if !options.no_build {
            crate::e2e::broker::build_ottla()?;
        }
        let (starts, goals) = restart::run(options.runs)?;
        println!("{starts}\n{goals}");
        return Ok(());
    }
    if !options.no_build {
        peers::prepare()?;
    }
    let mut samples: Vec<(Peer, Vec<Sample>)> = Peer::ALL.map(|peer| (peer, Vec::new())).into();
    for round in 0..options.runs {
        for (peer, taken) in &mut samples {
            if *peer != Peer::Kafka || round % 3 == 0 {
                taken.push(measure(*peer)?);
            }
        }
    }
    let table = table(&samples)?;
    let (starts, goals) = restart::run(options.runs)?;
    let text = text(&table, &starts, &goals, options.runs);
    println!("{text}");
    if options.docs { page::write("Start", &text) } else { Ok(()) }
}

fn measure(peer: Peer) -> Result<Sample, String> {
    let port = process::free_port()?;
    let mut command = peer.command(port)?;
    let begun = Instant::now();
    let broker = Guard::start(&mut command)?;
    let deadline = begun + Duration::from_secs(60);
    probe::first_record(process::local(port), deadline).map_err(|e| format!("{}: {e}", peer.title()))?;
    let first_record_ms = begun.elapsed().as_secs_f64() * 1e3;
    std::thread::sleep(Duration::from_secs(1));
    Ok(Sample { first_record_ms, idle_mib: peers::resident(broker.id())? })
}

fn table(samples: &[(Peer, Vec<Sample>)]) -> Result<String, String> {
    let mut text = "| broker | exec to first acknowledged record, ms | idle memory, MiB | program, MiB |\n\
                    | --- | ---: | ---: | ---: |\n"
        .to_owned();
    for (peer, taken) in samples {
        let time = spread_of(spread(taken.iter().map(|sample| sample.first_record_ms).collect()), 1);
        let memory = spread_of(spread(taken.iter().map(|sample| sample.idle_mib).collect()), 1);
        let size = peer.size()? as f64 / f64::from(1 << 20);
        text.push_str(&format!("| {} | {time} | {memory} | {size:.1} |\n", peer.title()));
    }
    Ok(text)
}

fn text(table: &str, starts: &str, goals: &str, runs: usize) -> String {
    let hand = page::by_hand("start");
    format!(
        "`cargo xtask bench start --runs {runs} --docs`.\n\
         The client connects as soon as the port is open, requests Metadata of a new topic, and produces one record with acks=all. Memory is the\n\
         resident memory one second later. Ottla on disk answers after fdatasync, Apache Kafka from the page cache. The program size of Apache\n\
         Kafka is that of its jars, without a Java runtime.\n\n\
         {table}\n\
         Ottla alone, until a client that connects as soon as the port is open has an answer to ApiVersions. The raw scan reads the same segment\n\
         files from front to back in pieces of 1 MiB with direct I/O, right before each start. For the start with a tail, no snapshot is written,\n\
         so all of it is replayed; by default a start replays at most 256 MiB. The memory with 10,000 partitions is that after the restart.\n\n\
         {starts}\n\
         {goals}\n\
         {hand}"
    )
}
