//! The chores of the repository, one file each: run as `cargo xtask NAME`.
//! It must not know how the broker works inside: it drives binaries, files and registries.

use clap::Parser;
use std::process::ExitCode;

mod tidy;

/// `cargo xtask`: the chores of the repository.
#[derive(Parser)]
enum Chore {
    /// Check the style budgets and the arrows between crates.
    Tidy,
}

fn main() -> ExitCode {
    let outcome = match Chore::parse() {
        Chore::Tidy => tidy::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
