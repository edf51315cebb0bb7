//! `cargo xtask eos`: consume, transform, produce with transactions while the broker and the workers are killed (`kill
//! -9`) and paused, and judges of what came out of it. e2e/exactly-once.md says what is proved and how.

use crate::process;
use broker::Broker;
use clap::Args;
use ottla_checker::lines::Reader;
use pipeline::{Deeds, GROUP, INPUT, MIX, OUTPUT, Pipeline};
use programs::{Client, Ledger, Scene};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) mod broker;
pub(crate) mod evidence;
mod pipeline;
mod programs;

/// What to run.
#[derive(Args)]
pub(crate) struct Options {
    /// How often the broker is killed, at least; workers are killed and paused besides.
    #[arg(long, default_value_t = 20)]
    kills: u64,
    /// After so many kills everything is drained and judged, and a new round begins on an empty folder.
    #[arg(long, default_value_t = 100)]
    round: u64,
    /// The seed of all random choices; each round adds one [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// How many workers share the input.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    workers: u32,
    /// How many mixers send, poll and transact in no order (librdkafka).
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=20))]
    mixers: u32,
    /// Partitions of each topic.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    partitions: u32,
    /// How many records are moved between two kills, on average.
    #[arg(long, default_value_t = 100)]
    gap: u64,
    /// The client that works; librdkafka and franz-go fill and read.
    #[arg(long, value_enum, default_value = "librdkafka")]
    client: Client,
    /// The broker: ottla or kafka.
    #[arg(long, default_value = "ottla")]
    against: String,
    /// The binary of Ottla to run [default: a release build of this tree]
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Counts of what happened, for one line of output.
#[derive(Default)]
struct Tally {
    title: String,
    records: u64,
    lines: u64,
    committed: u64,
    aborted: u64,
    deeds: Deeds,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.title = other.title;
        self.records += other.records;
        self.lines += other.lines;
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.deeds.add(other.deeds);
    }

    fn tell(&self) -> String {
        let Deeds {
            broker_kills,
            double_kills,
            broker_pauses,
            worker_kills,
            worker_pauses,
            zombies,
            restarts,
        } = self.deeds;
        format!(
            "{} records moved, {} transactions committed and {} aborted, {} lines of history; broker killed {broker_kills} times \
             ({double_kills} in recovery) and paused {broker_pauses}, workers killed {worker_kills} times and paused \
             {worker_pauses} ({zombies} came back to a successor), {restarts} gave up",
            self.records, self.committed, self.aborted, self.lines,
        )
    }
}

/// Moves records while things are killed, judges the result, prints a line for each round, and fails when one is not
/// exactly once.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let seed = options.seed.unwrap_or_else(time_as_seed);
    let started = Instant::now();
    println!("eos: seed {seed}, {} kills, {} workers", options.kills, options.workers);
    programs::prepare(options.client)?;
    let (mut all, mut round, mut failed) = (Tally::default(), seed, Vec::new());
    while all.deeds.broker_kills < options.kills {
        let kills = options.round.clamp(1, options.kills - all.deeds.broker_kills);
        let (tally, good) = one_round(options, round, kills)?;
        // A round that breaks off before its first kill must come to an end too.
        all.deeds.broker_kills += u64::from(tally.deeds.broker_kills == 0);
        all.add(tally);
        if !good {
            failed.push(round);
        }
        round += 1;
    }
    let verdict = if failed.is_empty() { "exactly once" } else { "NOT exactly once" };
    let (rounds, seconds) = (round - seed, started.elapsed().as_secs());
    println!(
        "eos: {} with {}, {rounds} rounds from seed {seed}, {seconds} s: {}: {verdict}",
        all.title,
        options.client.name(),
        all.tell()
    );
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(format!("rounds with seeds {failed:?} failed")),
    }
}

/// One round on an empty folder, and whether it was good.
fn one_round(options: &Options, seed: u64, kills: u64) -> Result<(Tally, bool), String> {
    let (started, folder) = (Instant::now(), fresh_folder(seed)?);
    let (tally, found) = execute(options, seed, kills, &folder)
        .map_err(|error| format!("seed {seed}: {error}; logs are in {}", folder.display()))?;
    println!("eos: seed {seed}, {} s: {}", started.elapsed().as_secs(), tally.tell());
    for finding in found.iter().take(30) {
        println!("eos: {finding}");
    }
    if found.is_empty() {
        fs::remove_dir_all(&folder).map_err(|e| format!("cannot remove {}: {e}", folder.display()))?;
    } else {
        println!("eos: seed {seed}: {} findings; logs are in {}", found.len(), folder.display());
    }
    Ok((tally, found.is_empty()))
}

/// What happened, and what is wrong with it.
fn execute(options: &Options, seed: u64, kills: u64, folder: &Path) -> Result<(Tally, Vec<String>), String> {
    let broker = Broker::start(&options.against, options.binary.clone(), folder)?;
    let title = broker.title.clone();
    let scene = Scene { folder: folder.to_owned(), bootstrap: broker.bootstrap(), ledger: Ledger::default() };
    let partitions = options.partitions.to_string();
    for topic in [INPUT, OUTPUT, MIX] {
        let words = ["create", &scene.bootstrap, topic, &partitions];
        scene.ask(Client::FranzGo, &words, Duration::from_secs(60))?;
    }
    let mut pipeline = Pipeline::start(options, &scene, broker, fastrand::Rng::with_seed(seed))?;
    let ran = pipeline.run_with_kills(kills).and_then(|()| pipeline.drain());
    pipeline.dismiss();
    let read = read_back(&scene);
    let (records, deeds) = (pipeline.fed, pipeline.deeds);
    drop(pipeline);
    let text = scene.ledger.text();
    let history = folder.join("history.jsonl");
    fs::write(&history, &text).map_err(|e| format!("cannot write {}: {e}", history.display()))?;
    let mut found: Vec<String> = [ran, read].into_iter().filter_map(Result::err).collect();
    found.extend(checked(&text)?);
    found.extend(judged(&text)?);
    let (committed, aborted) = scene.ledger.transactions();
    let lines = text.lines().count() as u64;
    Ok((Tally { title, records, lines, committed, aborted, deeds }, found))
}

/// What the checker finds.
fn checked(text: &str) -> Result<Vec<String>, String> {
    let mut reader = Reader::new();
    reader.add(text).map_err(|e| format!("what the programs said is no history: {e}"))?;
    Ok(ottla_checker::check(&reader.finish()).iter().map(ToString::to_string).collect())
}

/// What the judge of the pipeline finds.
fn judged(text: &str) -> Result<Vec<String>, String> {
    Ok(ottla_checker::pipeline::judge(&evidence::history(text)?).iter().map(ToString::to_string).collect())
}

/// Reads back all there is, with both clients.
fn read_back(scene: &Scene) -> Result<(), String> {
    for client in [Client::FranzGo, Client::Librdkafka] {
        for topic in [INPUT, OUTPUT, MIX] {
            scene.ask(client, &["read", &scene.bootstrap, topic], Duration::from_secs(90))?;
        }
    }
    scene.ask(Client::FranzGo, &["committed", &scene.bootstrap, GROUP, INPUT], Duration::from_secs(60))
}

pub(crate) fn time_as_seed() -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A history in which a transaction was committed and is not seen by the reader that came last.
    const LOST: &str = r#"
{"event":"begin","process":"fill","op":1,"kind":"send","at":1}
{"event":"write","process":"fill","op":1,"key":"eos-input/0","value":"v0"}
{"event":"ack","process":"fill","op":1,"value":"v0","offset":0}
{"event":"end","process":"fill","op":1,"outcome":"ok","at":2}
{"event":"begin","process":"work-0.1","op":1,"kind":"txn","at":3}
{"event":"read","process":"work-0.1","op":1,"key":"eos-input/0","offset":0,"value":"v0"}
{"event":"write","process":"work-0.1","op":1,"key":"eos-output/0","value":"0 0 v0 x","from":{"key":"eos-input/0","offset":0}}
{"event":"offset","process":"work-0.1","op":1,"group":"eos-group","key":"eos-input/0","offset":1}
{"event":"ending","process":"work-0.1","op":1,"ending":"commit"}
{"event":"end","process":"work-0.1","op":1,"outcome":"ok","at":4}
{"event":"begin","process":"a reads eos-input","op":1,"kind":"drain","at":5}
{"event":"read","process":"a reads eos-input","op":1,"key":"eos-input/0","offset":0,"value":"v0"}
{"event":"drained","process":"a reads eos-input","op":1,"key":"eos-input/0"}
{"event":"end","process":"a reads eos-input","op":1,"outcome":"ok","at":6}
{"event":"begin","process":"a reads eos-output","op":1,"kind":"drain","at":7}
READ{"event":"drained","process":"a reads eos-output","op":1,"key":"eos-output/0"}
{"event":"end","process":"a reads eos-output","op":1,"outcome":"ok","at":8}
"#;
    const READ: &str = r#"{"event":"read","process":"a reads eos-output","op":1,"key":"eos-output/0","offset":0,"value":"0 0 v0 x"}"#;

    #[test]
    fn both_judges_are_asked() {
        let whole = LOST.trim().replace("READ", &format!("{READ}\n"));
        assert_eq!([checked(&whole).unwrap(), judged(&whole).unwrap()].concat(), [] as [String; 0]);
        let spoilt = LOST.trim().replace("READ", "");
        let (found, more) = (checked(&spoilt).unwrap(), judged(&spoilt).unwrap());
        assert!(found.iter().any(|finding| finding.starts_with("unseen: ")), "{found:?}");
        assert!(more.iter().any(|finding| finding.starts_with("lost: ")), "{more:?}");
    }
}
