//! Runs seeds of the simulator: `ottla-sim --seeds 1000`, `ottla-sim --seed 7 --text`.

use clap::Parser;
use ottla_sim::{Report, run, run_once};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Simulate the whole broker, one seed after the other, each twice.
#[derive(Parser)]
struct Options {
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Stop after so many minutes.
    #[arg(long)]
    minutes: Option<f64>,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Print what happens, every request included. Only with --seed.
    #[arg(long)]
    text: bool,
    /// Run each seed once, not twice: faster, and two runs are not compared.
    #[arg(long)]
    once: bool,
    /// Go on after a seed that fails.
    #[arg(long)]
    keep_going: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(seed) = options.seed {
        return one(seed, options.text);
    }
    let begun = Instant::now();
    let limit = options.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let mut totals: Vec<(&str, u64)> = Vec::new();
    let (mut done, mut failed) = (0_u64, 0_u64);
    for seed in options.from..options.from.saturating_add(options.seeds) {
        if limit.is_some_and(|limit| begun.elapsed() >= limit) {
            break;
        }
        let report = if options.once { run_once(seed, false) } else { run(seed) };
        done += 1;
        add(&mut totals, &report);
        if !report.findings.is_empty() {
            failed += 1;
            show(&report);
            if !options.keep_going {
                break;
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{done} seeds, {} in {seconds:.1} s: {:.1} a second; {failed} failed",
        if options.once { "each once," } else { "each twice," },
        done as f64 / seconds
    );
    for (name, count) in totals {
        println!("  {count:>12} {name}");
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(seed: u64, text: bool) -> ExitCode {
    let report = if text { run_once(seed, true) } else { run(seed) };
    for line in &report.lines {
        println!("{line}");
    }
    for (name, count) in &report.figures {
        println!("  {count:>12} {name}");
    }
    show(&report);
    println!("seed {seed}: trace {:016x}, {} findings", report.hash, report.findings.len());
    if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn add(totals: &mut Vec<(&'static str, u64)>, report: &Report) {
    totals.resize(report.figures.len(), ("", 0));
    for (total, figure) in totals.iter_mut().zip(&report.figures) {
        *total = (figure.0, total.1 + figure.1);
    }
}

fn show(report: &Report) {
    if report.findings.is_empty() {
        return;
    }
    println!(
        "seed {} fails; again: cargo run --release -p ottla-sim -- --seed {} --text",
        report.seed, report.seed
    );
    for finding in report.findings.iter().take(10) {
        println!("  {finding}");
    }
}
