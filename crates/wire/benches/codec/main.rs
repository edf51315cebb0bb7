//! Encoding and decoding compared with the crate kafka-protocol, in one run: `cargo bench -p ottla-wire`.
//!
//! The two take turns, a millisecond each, so that other load on the machine affects both. A ratio is the median over
//! the rounds of (the peer's time / ours in the same round): above 1 we are faster. `-- NAME` runs the cases whose name
//! contains it, `-- --rounds N` sets the number of rounds.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::disallowed_types,
    reason = "a benchmark reads the clock and prints"
)]

mod cases;
mod race;

use race::{Plan, Row};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut plan, mut filter) = (Plan { rounds: 300, slice_us: 1000 }, String::new());
    let mut bench = false;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => bench = true,
            "--rounds" => {
                plan.rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(plan.rounds);
            }
            other => filter = other.to_owned(),
        }
    }
    if !bench {
        // As a test: every case once, with its checks.
        plan = Plan { rounds: 1, slice_us: 0 };
    }
    println!("{}", Row::HEADING);
    for case in cases::all().into_iter().filter(|case| case.name.contains(&filter)) {
        for row in race::run(&plan, case) {
            println!("{row}");
        }
    }
}
