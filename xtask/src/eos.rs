//! `cargo xtask eos`: consume, transform, produce with transactions while the broker and the workers are killed (`kill -9`), and
//! an independent judge of what came out of it. e2e/exactly-once.md says what is proved and how.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;

use crate::process;
use broker::Broker;
use chance::Chance;
use check::{Finding, History};
use pipeline::{GROUP, INPUT, OUTPUT, Pipeline};
use programs::{Client, Kind, Ledger, Scene};

mod broker;
mod chance;
mod check;
mod pipeline;
mod programs;

/// What to run.
#[derive(Args)]
pub(crate) struct Options {
    /// How often something is killed: the broker or a worker, by chance.
    #[arg(long, default_value_t = 10)]
    kills: u64,
    /// The seed of every chance [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// How many workers share the input.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    workers: u32,
    /// Partitions of the input and of the output topic.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    partitions: u32,
    /// How many records to move, roughly: more are sent while kills are due.
    #[arg(long, default_value_t = 6000)]
    records: u64,
    /// The client that fills and works; both read.
    #[arg(long, value_enum, default_value = "librdkafka")]
    client: Client,
    /// The broker: ottla or kafka.
    #[arg(long, default_value = "ottla")]
    against: String,
}

/// What happened in a run, to be told in one line.
struct Tally {
    title: String,
    records: u64,
    broker_kills: u64,
    worker_kills: u64,
    restarts: u64,
    ledger: Ledger,
}

/// Moves records while things are killed, judges the result, prints one line, and fails when it is not exactly once.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let seed = options.seed.unwrap_or_else(time_as_seed);
    let started = Instant::now();
    println!("eos: seed {seed}, {} kills, {} workers", options.kills, options.workers);
    programs::prepare()?;
    let folder = fresh_folder(seed)?;
    let told = |error: String| format!("seed {seed}: {error}; logs are in {}", folder.display());
    let (tally, found) = execute(options, seed, &folder).map_err(told)?;
    let Tally { title, records, broker_kills, worker_kills, restarts, ledger } = tally;
    let verdict = if found.is_empty() { "exactly once" } else { "NOT exactly once" };
    println!(
        "eos: {title}, {}, seed {seed}: {records} records, {} transactions committed and {} aborted, {broker_kills} broker and \
         {worker_kills} worker kills, {restarts} workers gave up, {} s: {verdict}",
        options.client.name(),
        ledger.count(Kind::Commit),
        ledger.count(Kind::Abort),
        started.elapsed().as_secs(),
    );
    if found.is_empty() {
        return Ok(());
    }
    for finding in found.iter().take(30) {
        println!("eos: {finding}");
    }
    Err(told(format!("{} findings", found.len())))
}

fn execute(options: &Options, seed: u64, folder: &Path) -> Result<(Tally, Vec<Finding>), String> {
    let broker = Broker::start(&options.against, folder)?;
    let scene = Scene { folder: folder.to_owned(), bootstrap: broker.bootstrap(), ledger: Ledger::default() };
    let partitions = options.partitions.to_string();
    for topic in [INPUT, OUTPUT] {
        let words = ["create", &scene.bootstrap, topic, &partitions];
        scene.ask(Client::FranzGo, &words, Duration::from_secs(60))?;
    }
    let mut pipeline = Pipeline::start(options, &scene, broker, Chance::new(seed))?;
    pipeline.run_with_kills()?;
    let (broker_kills, worker_kills) = (pipeline.broker_kills, pipeline.worker_kills);
    let (fed, restarts, broker) = pipeline.drain()?;
    let found = check::judge(&history(&scene, fed)?);
    let title = broker.title.clone();
    Ok((Tally { title, records: fed, broker_kills, worker_kills, restarts, ledger: scene.ledger }, found))
}

/// Reads back all there is, with both clients.
fn history(scene: &Scene, fed: u64) -> Result<History, String> {
    let ledger = &scene.ledger;
    let asked: BTreeSet<String> = (0..fed).map(|i| format!("v{i}")).collect();
    let mut history = History {
        asked,
        acked: ledger.records(Kind::Ack),
        seen: ledger.records(Kind::Seen),
        ..History::default()
    };
    for client in [Client::FranzGo, Client::Librdkafka] {
        history.input.push(scene.read(client, INPUT)?);
        history.output.push(scene.read(client, OUTPUT)?);
    }
    let words = ["committed", &scene.bootstrap, GROUP, INPUT];
    let committed = scene.ask(Client::FranzGo, &words, Duration::from_secs(60))?;
    history.committed = committed.iter().map(|event| (event.partition, event.offset)).collect();
    Ok(history)
}

fn time_as_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64 % 1_000_000_000)
}

fn fresh_folder(seed: u64) -> Result<PathBuf, String> {
    let folder = process::root().join(format!("target/eos/{seed}"));
    let fail = |e: std::io::Error| format!("cannot make {} anew: {e}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(fail)?;
    }
    fs::create_dir_all(&folder).map_err(fail)?;
    Ok(folder)
}
