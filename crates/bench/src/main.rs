//! The load of `cargo xtask bench txn` that costs least: a transactional producer in raw frames, and a broker that does nothing
//! but make frames durable, whose rate is the limit. It must not know how a broker works, and speaks to all in the same bytes.
//!
//! `ottla-bench worker` reads cells from stdin (e2e/bench/txn/README.md says how); `ottla-bench null PORT FILE` is the broker.

use std::process::ExitCode;

mod connection;
mod null;
mod producer;
mod setup;
mod worker;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["worker"] => worker::run(),
        ["topics", broker] => setup::topics(broker),
        ["null", port, file] => null::run(port, file),
        _ => Err("usage: ottla-bench worker | topics HOST:PORT | null PORT FILE".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("ottla-bench: {message}");
            ExitCode::FAILURE
        }
    }
}
