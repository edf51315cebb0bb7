//! Compaction beside Apache Kafka's: the same keyed data for both brokers, and what a reader sees when their cleaners
//! have done their work.

use crate::e2e::broker;
use crate::kafka;
use crate::process;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A cleaner may need some of its rounds.
const LIMIT: Duration = Duration::from_secs(400);
/// Tombstones stay for a day: longer than any run.
const RETENTION: &str = "86400000";

/// What to compare.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The seed that the data follows from.
    #[arg(long, default_value_t = 7)]
    seed: u64,
}

/// Compares every record that is left, by offset, key and value.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let jars = kafka::fetch()?;
    let (kafka, ottla) = (broker::start("kafka")?, broker::start("ottla")?);
    let (judge, ours) = std::thread::scope(|scope| {
        let judge = scope.spawn(|| left(&jars, kafka.address, options.seed));
        let ours = left(&jars, ottla.address, options.seed);
        (judge.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())), ours)
    });
    let (judge, ours) = (judge?, ours?);
    if judge == ours {
        println!("seed {}: {} records are left, the same in both", options.seed, ours.lines().count());
        return Ok(());
    }
    let only = |some: &str, others: &str| -> Vec<String> {
        some.lines().filter(|line| !others.lines().any(|other| other == *line)).map(str::to_owned).collect()
    };
    Err(format!(
        "seed {}: only {} has {:?}, only {} has {:?}",
        options.seed,
        kafka.title,
        only(&judge, &ours),
        ottla.title,
        only(&ours, &judge)
    ))
}

/// Writes, waits, reads.
fn left(jars: &Path, address: SocketAddr, seed: u64) -> Result<String, String> {
    let mut java = Command::new("java");
    java.args(["-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp"]);
    java.arg(jars.join("*")).arg(process::root().join("e2e/compaction/Compaction.java"));
    java.args([&address.to_string(), &seed.to_string(), RETENTION]);
    let output = process::capture(&mut java, LIMIT)?;
    match output.status {
        Some(status) if status.success() && !output.stdout.is_empty() => Ok(output.stdout),
        _ => Err(format!("{address}: {}{}", output.stdout, output.stderr)),
    }
}
