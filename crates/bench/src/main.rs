//! The cheapest load for `cargo xtask bench txn` and `bench data`: raw frames, and null brokers that only receive
//! frames and make them durable, whose rate is the limit. It must not know how a broker works, and sends the same bytes
//! to all.
//!
//! `ottla-bench worker` reads cells of transactions from stdin (e2e/bench/txn/README.md says how), `ottla-bench null
//! PORT FILE` is the broker for them. `produce`, `fetch`, `single` and `topic` receive a cell as NAME=VALUE words;
//! `sink` is the broker for those.

use std::process::ExitCode;

mod connection;
mod load;
mod null;
mod producer;
mod setup;
mod sink;
mod worker;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["worker"] => worker::run(),
        ["topics", broker] => setup::topics(broker),
        ["null", port, file] => null::run(port, file),
        ["produce", ref words @ ..] => load::produce(words),
        ["fetch", ref words @ ..] => load::fetch(words),
        ["single", ref words @ ..] => load::single(words),
        ["topic", ref words @ ..] => load::topic(words),
        ["sink", port, folder, keep, reads] => sink::run(port, folder, keep, reads),
        _ => Err("usage: ottla-bench worker | topics HOST:PORT | null PORT FILE | produce|fetch|single|topic NAME=VALUE.. | \
                  sink PORT FOLDER durable|discard memory|file|cold"
            .to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("ottla-bench: {message}");
            ExitCode::FAILURE
        }
    }
}
