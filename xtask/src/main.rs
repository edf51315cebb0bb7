//! The chores of the repository, one file each: run as `cargo xtask NAME`.
//! It must not know how the broker works inside: it drives binaries, files and registries.

use clap::Parser;
use std::process::ExitCode;

mod apis;
mod bench;
mod compaction;
mod conformance;
mod count;
mod e2e;
mod eos;
mod faults;
mod kafka;
mod pages;
mod planted;
mod process;
mod program;
mod raw;
mod rules;
mod schemas;
mod sim;
mod streams;
mod tidy;

/// `cargo xtask`: the chores of the repository.
#[derive(Parser)]
enum Chore {
    /// Check style, dependencies between crates and between modules, and banned words.
    Tidy(tidy::Options),
    /// Run Apache Kafka 4.4.0 as one node on 127.0.0.1, fetched from Maven, until interrupted.
    Kafka {
        /// The port to listen on.
        #[arg(long, default_value_t = 9092)]
        port: u16,
        /// Keep the data in this folder [default: a fresh one below target/]
        #[arg(long)]
        dir: Option<std::path::PathBuf>,
    },
    /// Import or check the facts of Kafka's messages.
    #[command(subcommand)]
    Schemas(schemas::Schemas),
    /// Gather what is served into docs/evidence/apis.md.
    Apis(apis::Options),
    /// Run the tests that name rules or bug reports, print which shows what, and write docs/evidence/rules.md.
    Rules(rules::Options),
    /// Measure Ottla beside its peers in one run and write docs/evidence/benchmarks.md.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Count the instructions of the hot paths and compare them with the committed list.
    Count(count::Options),
    /// Run stock clients against Ottla or Apache Kafka and print who can do what.
    E2e(e2e::Options),
    /// Play the same requests to Apache Kafka and to Ottla and compare every field of every answer.
    Conformance(conformance::Options),
    /// Compact the same data in Apache Kafka and in Ottla and compare the remaining records.
    Compaction(compaction::Options),
    /// Look at the reference and the broker's pages in a real browser.
    Pages,
    /// Prove exactly-once under `kill -9` of the broker and of the workers.
    Eos(eos::Options),
    /// Let system calls, disks and peers fail under the release build.
    Faults(faults::Options),
    /// Prove a Kafka Streams application exactly-once under `kill -9` of the broker and of its instances.
    Streams(streams::Options),
    /// Simulate the whole broker on virtual clock, network and disk, seed by seed.
    Sim(sim::Options),
}

fn main() -> ExitCode {
    let outcome = match Chore::parse() {
        Chore::Tidy(options) => tidy::run(&options),
        Chore::Kafka { port, dir } => kafka::run(port, dir),
        Chore::Schemas(what) => schemas::run(&what),
        Chore::Apis(options) => apis::run(&options),
        Chore::Rules(options) => rules::run(&options),
        Chore::Bench(bench) => bench::run(&bench),
        Chore::Count(options) => count::run(&options),
        Chore::E2e(options) => e2e::run(&options),
        Chore::Conformance(options) => conformance::run(&options),
        Chore::Compaction(options) => compaction::run(&options),
        Chore::Pages => pages::run(),
        Chore::Eos(options) => eos::run(&options),
        Chore::Faults(options) => faults::run(&options),
        Chore::Streams(options) => streams::run(&options),
        Chore::Sim(options) => sim::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
