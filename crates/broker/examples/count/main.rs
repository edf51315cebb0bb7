//! The hot paths, for counting their instructions: `count CASE N` runs a case N times; `count` lists the cases and the
//! most times each can run.
//!
//! Everything runs in one thread, with the log in memory and a fixed clock, so that the number of instructions depends
//! only on the code. The requests of all N times are prepared whatever N is, so that two runs differ by the work alone.
//! `cargo xtask count` counts.

mod broker;
mod wire;

use std::process::ExitCode;

/// A case, and the most times it can run.
const CASES: [(&str, usize); 13] = [
    ("produce-1k", 300),
    ("produce-16k", 150),
    ("produce-1m", 12),
    ("produce-50-partitions", 60),
    ("fetch-1m", 12),
    ("fetch-100-partitions", 60),
    ("fetch-nothing", 300),
    ("transaction", 100),
    ("wire-decode-produce", 300),
    ("wire-encode-fetch", 300),
    ("wire-metadata", 60),
    ("wire-explain", 3),
    ("crc-1m", 12),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &words[..] {
        [] => {
            CASES.iter().for_each(|(name, most)| println!("{name} {most}"));
            Ok(())
        }
        [name, times] => run(name, times),
        _ => Err("usage: count [CASE N]".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("count: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, times: &str) -> Result<(), String> {
    let times: usize = times.parse().map_err(|_| format!("{times} is no number"))?;
    let case = CASES.iter().find(|(case, most)| *case == name && times <= *most);
    let (name, most) = *case.ok_or_else(|| format!("no case {name} that can be done {times} times"))?;
    match name.split_once('-') {
        Some(("wire" | "crc", _)) => wire::run(name, times),
        _ => broker::run(name, times, most),
    }
}
