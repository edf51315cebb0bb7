//! `cargo xtask streams`: a Kafka Streams application with state, exactly_once_v2, while the broker and its instances
//! are killed (`kill -9`), and a judge of what came out of it. e2e/streams/README.md says what is proved and how.

use crate::eos;
use crate::eos::broker::Broker;
use crate::process;
use clap::Args;
use ottla_checker::Violation;
use program::{Kind, Ledger, Scene};
use run::Run;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

mod program;
mod run;

/// What to run.
#[derive(Args)]
pub(crate) struct Options {
    /// How often something is killed: the broker or an instance of the application, at random; instances are paused
    /// besides.
    #[arg(long, default_value_t = 10)]
    kills: u64,
    /// The seed of all random choices [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// How many orders to process, roughly: more are sent while kills are due.
    #[arg(long, default_value_t = 4000)]
    records: u64,
    /// The broker: ottla or kafka.
    #[arg(long, default_value = "ottla")]
    on: String,
    /// This binary of Ottla instead of one built from the source.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The application's processing.guarantee; with at_least_once and a few kills the judge must object.
    #[arg(long, default_value = "exactly_once_v2")]
    guarantee: String,
}

/// Counts of what happened in a run, for one line of output.
struct Tally {
    title: String,
    orders: u64,
    broker_kills: u64,
    instance_kills: u64,
    pauses: u64,
    restarts: u64,
    ledger: Ledger,
}

/// Runs the application while things are killed, judges the result, prints one line, and fails when it is not exactly
/// once.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let seed = options.seed.unwrap_or_else(eos::time_as_seed);
    let started = Instant::now();
    println!("streams: seed {seed}, {} kills", options.kills);
    program::prepare()?;
    let folder = fresh_folder(seed)?;
    let with_seed = |error: String| format!("seed {seed}: {error}; logs are in {}", folder.display());
    let (tally, found) = execute(options, seed, &folder).map_err(with_seed)?;
    let Tally { title, orders, broker_kills, instance_kills, pauses, restarts, ledger } = tally;
    let verdict = if found.is_empty() { "exactly once" } else { "NOT exactly once" };
    println!(
        "streams: {title}, {}, seed {seed}: {orders} orders, {broker_kills} broker and {instance_kills} instance kills, \
         {pauses} pauses, {restarts} instances and {} threads gave up, {} s: {verdict}",
        options.guarantee,
        ledger.count(Kind::Fatal),
        started.elapsed().as_secs(),
    );
    if found.is_empty() {
        return Ok(());
    }
    for finding in found.iter().take(30) {
        println!("streams: {finding}");
    }
    let mut classes = BTreeMap::<&str, usize>::new();
    found.iter().for_each(|finding| *classes.entry(finding.class).or_default() += 1);
    Err(with_seed(format!("{} findings, {classes:?}", found.len())))
}

fn execute(options: &Options, seed: u64, folder: &Path) -> Result<(Tally, Vec<Violation>), String> {
    let broker = Broker::start(&options.on, options.binary.clone(), folder)?;
    let scene = Scene { folder: folder.to_owned(), ledger: Ledger::default() };
    let mut run = Run::start(options, &scene, broker, fastrand::Rng::with_seed(seed))?;
    run.with_kills()?;
    let evidence = run.drain()?;
    let tally = Tally {
        title: run.broker.title.clone(),
        orders: evidence.orders,
        broker_kills: run.broker_kills,
        instance_kills: run.instance_kills,
        pauses: run.pauses,
        restarts: run.restarts,
        ledger: scene.ledger.clone(),
    };
    Ok((tally, ottla_checker::streams::judge(&evidence)))
}

fn fresh_folder(seed: u64) -> Result<PathBuf, String> {
    let folder = process::root().join(format!("target/streams/{seed}"));
    let fail = |e: std::io::Error| format!("cannot make {} anew: {e}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(fail)?;
    }
    fs::create_dir_all(&folder).map_err(fail)?;
    Ok(folder)
}
