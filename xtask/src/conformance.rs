//! The conformance suite: the same requests to Apache Kafka and to Ottla. What a script is and how answers are compared
//! stands in crates/conformance; here brokers are started and results printed.

mod brokers;
mod random;

use crate::process;
use brokers::{Kafka, Ottla};
use ottla_conformance::player::{Exchange, Player};
use ottla_conformance::script::Script;
use ottla_conformance::suite::{self, Finding, Suite};
use ottla_wire::{ApiInfo, Versions};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// `cargo xtask conformance`: play the suite to both brokers.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Keep Kafka's answers in e2e/conformance/transcripts
    #[arg(long)]
    record: bool,
    /// Do not start Kafka: compare with the answers that were kept
    #[arg(long, conflicts_with = "record")]
    kept: bool,
    /// Play so many random histories instead of the scripts
    #[arg(long, conflicts_with_all = ["record", "kept"])]
    random: Option<u64>,
    /// The seed of the random histories
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of the first random history: one alone can be played again
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Steps of a random history
    #[arg(long, default_value_t = 80)]
    steps: usize,
    /// Write docs/guide/differences.md from the list of differences, and do nothing else
    #[arg(long)]
    page: bool,
    /// Play the scripts of access control, to brokers with an authorizer and a listener with SASL
    #[arg(long)]
    secured: bool,
    /// Play only scripts whose name or file begins like this
    #[arg(long, default_value = "")]
    only: String,
}

/// Everything there is about one run.
#[derive(Default)]
struct Outcome {
    pairs: usize,
    per_api: BTreeMap<String, usize>,
    again: BTreeMap<i16, usize>,
    findings: Vec<Finding>,
    /// Scripts that could not be played to their end.
    broken: Vec<String>,
}

/// Plays the suite as asked.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    if options.page {
        return write_page();
    }
    let mut ottla = Ottla::start(options.secured)?;
    let told = ottla.peer().served()?;
    let served = |api: &ApiInfo| suite::served(&told, api);
    let suite = Suite::read(&folder(options.secured), &served)?;
    if let Some(count) = options.random {
        return random::run(options, count, &suite, &mut ottla, &served);
    }
    let kafka = if options.kept { None } else { Some(Kafka::start(options.secured)?) };
    let outcome = play(options, &suite, kafka.as_ref(), &mut ottla, &served)?;
    report(options, &suite, &outcome)
}

impl Options {
    fn wants(&self, file: &str, script: &Script) -> bool {
        let only = self.only.as_str();
        file.starts_with(only) || script.name.starts_with(only) || script.name == "warm-up"
    }
}

impl Outcome {
    /// Plays to both brokers. A script that one of them cannot play to its end counts for neither.
    fn both(
        &mut self,
        scripts: &[&Script],
        theirs: &mut Player<'_>,
        ours: &mut Player<'_>,
    ) -> (Vec<Exchange>, Vec<Exchange>) {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for script in scripts {
            match (theirs.play(script), ours.play(script)) {
                (Ok(kafka), Ok(ottla)) => {
                    left.extend(kafka);
                    right.extend(ottla);
                }
                (Err(why), _) => self.broken.push(format!("Kafka: {why}")),
                (_, Err(why)) => self.broken.push(format!("Ottla: {why}")),
            }
        }
        (left, right)
    }

    /// Plays to Ottla; Kafka's side was kept.
    fn kept(
        &mut self,
        scripts: &[&Script],
        kept: Vec<Exchange>,
        ours: &mut Player<'_>,
    ) -> (Vec<Exchange>, Vec<Exchange>) {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for script in scripts {
            match ours.play(script) {
                Ok(ottla) => {
                    left.extend(kept.iter().filter(|one| one.is_of(&script.name)).cloned());
                    right.extend(ottla);
                }
                Err(why) => self.broken.push(format!("Ottla: {why}")),
            }
        }
        (left, right)
    }
}

fn folder(is_secured: bool) -> PathBuf {
    process::root().join(if is_secured { "e2e/conformance/secured" } else { "e2e/conformance" })
}

fn write_page() -> Result<(), String> {
    let suite = Suite::read(&folder(false), &|_| Versions::NONE)?;
    let path = process::root().join("docs/guide/differences.md");
    fs::write(&path, suite.differences.page()).map_err(|e| format!("{}: {e}", path.display()))
}

fn play(
    options: &Options,
    suite: &Suite,
    kafka: Option<&Kafka>,
    ottla: &mut Ottla,
    served: &dyn Fn(&ApiInfo) -> Versions,
) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let mut theirs = kafka.map(|kafka| kafka.player(&suite.rules, served));
    let mut ours = ottla.player(&suite.rules, served);
    for (file, scripts) in &suite.files {
        let wanted: Vec<&Script> = scripts.iter().filter(|script| options.wants(file, script)).collect();
        let started = Instant::now();
        let (left, right) = match &mut theirs {
            Some(theirs) => outcome.both(&wanted, theirs, &mut ours),
            None => outcome.kept(&wanted, suite.kept(file)?, &mut ours),
        };
        if !left.is_empty() {
            eprintln!("{file}: {} pairs in {} s", left.len(), started.elapsed().as_secs());
        }
        for one in &left {
            *outcome.per_api.entry(one.api.clone()).or_default() += 1;
            for code in &one.again {
                *outcome.again.entry(*code).or_default() += 1;
            }
        }
        outcome.pairs += left.len();
        outcome.findings.append(&mut suite.compare(&left, &right).map_err(|e| format!("{file}: {e}"))?);
        if options.record && options.only.is_empty() {
            suite.keep(file, &left)?;
        }
    }
    Ok(outcome)
}

fn report(options: &Options, suite: &Suite, outcome: &Outcome) -> Result<(), String> {
    print!("{}", suite::summary(&outcome.findings));
    let apis: Vec<String> = outcome.per_api.iter().map(|(api, count)| format!("{api} {count}")).collect();
    println!("{}", apis.join(", "));
    let again: Vec<String> = outcome.again.iter().map(|(code, count)| format!("{count} x {code}")).collect();
    println!(
        "Kafka said to ask again: {}",
        if again.is_empty() { "never".to_owned() } else { again.join(", ") }
    );
    let unlike = outcome.findings.len();
    println!(
        "{} pairs over {} APIs, {} fields unlike as listed, {unlike} pairs unlike and not listed",
        outcome.pairs,
        outcome.per_api.len(),
        suite.differences.uses()
    );
    let unused = if options.only.is_empty() { suite.differences.unused() } else { Vec::new() };
    for one in &unused {
        println!("listed, but not found: {one}");
    }
    for one in &outcome.broken {
        println!("not played: {one}");
    }
    match unlike + unused.len() + outcome.broken.len() {
        0 => Ok(()),
        _ => Err(format!(
            "{unlike} pairs are unlike, {} listed differences were not found, {} scripts were not played",
            unused.len(),
            outcome.broken.len()
        )),
    }
}
