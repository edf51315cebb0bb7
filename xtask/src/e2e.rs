//! `cargo xtask e2e`: stock clients against Ottla and against Apache Kafka, one list of scenarios (e2e/README.md).

use crate::{process, raw};
use broker::Broker;
use clap::Args;
use clients::{Client, Mark, Task, Verdict};
use std::fs;
use std::io::Write;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use table::Results;
use tap::Tap;
use traffic::Traffic;

pub(crate) mod broker;
pub(crate) mod clients;
mod proxy;
mod secured;
mod table;
mod tap;
mod traffic;

/// In the order of e2e/README.md.
const SCENARIOS: [&str; 13] = [
    "produce-consume-none",
    "produce-consume-gzip",
    "produce-consume-snappy",
    "produce-consume-lz4",
    "produce-consume-zstd",
    "admin",
    "group-rebalance",
    "static-member",
    "idempotent-reconnect",
    "txn-commit-abort",
    "ctp",
    "zombie-fenced",
    "read-committed-open",
];

/// What to run.
#[derive(Args)]
pub(crate) struct Options {
    /// The broker under test: ottla, ottla-secured (SASL_SSL only), kafka, or HOST:PORT of one that runs; may be given
    /// more than once.
    #[arg(long, default_value = "ottla")]
    against: Vec<String>,
    /// Only this client; may be given more than once.
    #[arg(long)]
    client: Vec<String>,
    /// Only this scenario; may be given more than once.
    #[arg(long)]
    scenario: Vec<String>,
    /// Write the results to docs/evidence/clients.md; for whole runs only.
    #[arg(long, conflicts_with_all = ["client", "scenario"])]
    docs: bool,
    /// Put `ottla tap` between clients and broker and check every frame; a whole run on Ottla writes
    /// docs/evidence/traffic.md.
    #[arg(long)]
    through_tap: bool,
    /// Show what the client programs print on stderr also when they pass.
    #[arg(long)]
    verbose: bool,
}

/// Runs the scenarios, prints the table, and fails when one failed.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let scenarios = chosen(&options.scenario)?;
    let clients = clients::load(&options.client)?;
    for client in &clients {
        client.prepare()?;
    }
    let mut results = Vec::new();
    let mut traffic = options.through_tap.then(Traffic::default);
    for against in &options.against {
        let broker = broker::start(against)?;
        let result = run_all(&broker, &clients, &scenarios, (&mut traffic, options.verbose))?;
        println!("\n{}", result.plain(&clients));
        results.push(result);
    }
    if options.docs {
        let path = process::root().join("docs/evidence/clients.md");
        fs::create_dir_all(process::root().join("docs/evidence"))
            .and_then(|()| fs::write(&path, table::page(&clients, &results)))
            .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    let total = |marks: &[Mark]| results.iter().map(|r| r.count(marks)).sum::<usize>();
    let (passed, failed) = (total(&[Mark::Pass]), total(&[Mark::Fail]));
    let skipped = total(&[Mark::Cannot, Mark::Skip]);
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if let Some(traffic) = &traffic {
        println!("{}", traffic.sentence());
    }
    match (failed, &traffic) {
        (0, Some(traffic)) => finish(traffic, options, &clients),
        (0, None) => Ok(()),
        _ => Err(format!("{failed} scenarios failed")),
    }
}

/// Fails when a frame was not what it should be. Only a whole run against Ottla gives the page.
fn finish(traffic: &Traffic, options: &Options, clients: &[Client]) -> Result<(), String> {
    if traffic.faulty() > 0 {
        return Err(traffic.sentence());
    }
    let whole = options.client.is_empty() && options.scenario.is_empty() && options.against == ["ottla"];
    if whole { traffic.write(clients) } else { Ok(()) }
}

fn chosen(names: &[String]) -> Result<Vec<&'static str>, String> {
    if let Some(name) = names.iter().find(|name| !SCENARIOS.contains(&name.as_str())) {
        return Err(format!("no scenario {name}; there are {}", SCENARIOS.join(", ")));
    }
    let wanted = |scenario: &&str| names.is_empty() || names.iter().any(|name| name == scenario);
    Ok(SCENARIOS.into_iter().filter(wanted).collect())
}

/// Client by client, so that a program that breaks is seen at once.
fn run_all(
    broker: &Broker,
    clients: &[Client],
    scenarios: &[&'static str],
    (traffic, verbose): (&mut Option<Traffic>, bool),
) -> Result<Results, String> {
    println!("against {} on {}", broker.title, broker.address);
    if traffic.is_some() {
        broker::build_ottla()?;
    }
    let mut rows: Vec<Vec<Verdict>> = scenarios.iter().map(|_| Vec::new()).collect();
    for client in clients {
        let started = Instant::now();
        print!("{}:", client.title);
        let tap = traffic.as_ref().map(|_| Tap::start(broker.address, &client.name)).transpose()?;
        let bootstrap = tap.as_ref().map_or(broker.address, |tap| tap.address).to_string();
        for (scenario, row) in scenarios.iter().zip(&mut rows) {
            let verdict = run_one(broker, &bootstrap, client, scenario, verbose);
            row.push(verdict);
        }
        println!(" ({} s)", started.elapsed().as_secs());
        if let (Some(tap), Some(traffic)) = (tap, traffic.as_mut()) {
            traffic.read(&client.name, &tap.stop())?;
        }
    }
    Ok(Results { broker: broker.title.clone(), scenarios: scenarios.to_vec(), rows })
}

fn run_one(broker: &Broker, bootstrap: &str, client: &Client, scenario: &str, verbose: bool) -> Verdict {
    if scenario == "idempotent-reconnect" && broker.control.is_none() {
        return Verdict::new(Mark::Skip, "the broker is not behind the runner's proxy");
    }
    let run_id = run_id(&client.name, scenario);
    let secured = broker.secured.as_ref();
    let task = Task { bootstrap, scenario, run_id: &run_id, control: broker.control, secured };
    let started = Instant::now();
    let (mut verdict, stderr) = client.run(&task);
    let took = started.elapsed().as_millis();
    if let (Some(codec), Mark::Pass) = (scenario.strip_prefix("produce-consume-"), verdict.mark) {
        verdict = check_codec(broker, &run_id, codec, verdict);
    }
    let sign = match verdict.mark {
        Mark::Pass => ".",
        Mark::Fail => "F",
        Mark::Cannot => "c",
        Mark::Skip => "s",
    };
    print!("{sign}");
    // Progress only; a terminal that is gone does not change the results.
    let _ = std::io::stdout().flush();
    if verbose || verdict.mark == Mark::Fail {
        eprintln!("\n--- {} {scenario} ({run_id}), {took} ms: {}", client.name, verdict.detail);
        eprintln!("{}", last_lines(&stderr, 60));
    }
    verdict
}

/// The client believes it compressed; the stored batch must say so too.
fn check_codec(broker: &Broker, topic: &str, codec: &str, verdict: Verdict) -> Verdict {
    match raw::first_codec(broker.plain, topic, 0) {
        Ok(stored) if stored == codec => verdict,
        Ok(stored) => Verdict::new(Mark::Fail, format!("the stored batch has codec {stored}")),
        Err(error) => Verdict::new(Mark::Fail, format!("cannot see the stored batch: {error}")),
    }
}

/// New for every run: the time in base 36 keeps runs against one broker apart.
fn run_id(client: &str, scenario: &str) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut rest = since.map_or(0, |time| time.as_millis());
    let mut digits = Vec::new();
    while rest > 0 {
        digits.extend(char::from_digit((rest % 36) as u32, 36));
        rest /= 36;
    }
    let stamp: String = digits.iter().rev().collect();
    format!("{client}-{scenario}-{stamp}")
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
