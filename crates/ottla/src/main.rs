//! The `ottla` binary: a broker, and the commands to work with one.

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use std::time::Instant;

mod cli;
mod logging;
mod serve;
mod signals;
mod terminal;

/// Ottla, a Kafka-compatible event broker. Without a command it serves.
#[derive(Parser)]
#[command(version, about, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

/// The commands.
#[derive(Subcommand)]
enum Command {
    /// Run a broker (the default)
    ///
    /// Configuration comes from built-in defaults, the file of --config, KAFKA_... variables and flags; a later source
    /// overrides an earlier one. Topics have Kafka's configuration keys too: see `ottla topic create --help`.
    Serve(serve::ServeArgs),
    #[command(flatten)]
    Cluster(cli::Command),
}

fn main() -> ExitCode {
    let started = Instant::now();
    match Arguments::parse().command {
        Some(Command::Serve(args)) => serve::run(&args, started),
        Some(Command::Cluster(command)) => cli::run(command),
        None => {
            let Arguments { command } = Arguments::parse_from(["ottla", "serve"]);
            match command {
                Some(Command::Serve(args)) => serve::run(&args, started),
                _ => ExitCode::FAILURE,
            }
        }
    }
}
