//! Measures two implementations that take turns.

use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Work to measure: does it the given number of times and returns the time that took.
pub(crate) type Work = Box<dyn Fn(u32) -> Duration>;

/// Work on an input that is made outside the timing.
pub(crate) fn work<I: 'static, O: 'static>(
    input: impl Fn() -> I + 'static,
    work: impl Fn(&mut I) -> O + 'static,
) -> Work {
    const AT_ONCE: u32 = 64;
    Box::new(move |calls| {
        let mut spent = Duration::ZERO;
        let mut left = calls;
        while left > 0 {
            let now = left.min(AT_ONCE);
            let mut inputs: Vec<I> = (0..now).map(|_| input()).collect();
            let from = Instant::now();
            for input in &mut inputs {
                drop(black_box(work(black_box(input))));
            }
            spent += from.elapsed();
            left -= now;
        }
        spent
    })
}

/// The same work by us and by the peer.
pub(crate) struct Race {
    pub(crate) what: &'static str,
    pub(crate) ours: Work,
    pub(crate) peer: Work,
}

/// A message, and what is done with it.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) races: Vec<Race>,
}

/// How long a race takes.
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) slice_us: u64,
}

/// The outcome of a race, nanoseconds for each call.
pub(crate) struct Row {
    name: String,
    what: &'static str,
    ours: Vec<f64>,
    peer: Vec<f64>,
}

impl Row {
    pub(crate) const HEADING: &str = "| message | what | ours, ns: median [best] | peer, ns: median [best] | ratio of medians | \
         of best | round by round |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ours, peer) = (median(&self.ours), median(&self.peer));
        let (our_best, peer_best) = (best(&self.ours), best(&self.peer));
        let ratios: Vec<f64> = self.ours.iter().zip(&self.peer).map(|(ours, peer)| peer / ours).collect();
        write!(f, "| {} | {} ", self.name, self.what)?;
        write!(f, "| {} [{}] | {} [{}] ", short(ours), short(our_best), short(peer), short(peer_best))?;
        write!(f, "| {:.2} | {:.2} | {:.2} |", peer / ours, peer_best / our_best, median(&ratios))
    }
}

fn short(ns: f64) -> String {
    if ns < 100.0 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn best(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Runs the races of a case one after the other.
pub(crate) fn run(plan: &Plan, case: Case) -> Vec<Row> {
    let name = case.name;
    case.races
        .into_iter()
        .map(|race| {
            let slice = Duration::from_micros(plan.slice_us);
            let (ours, peer) = (calls_in(slice, &race.ours), calls_in(slice, &race.peer));
            let mut row = Row { name: name.clone(), what: race.what, ours: Vec::new(), peer: Vec::new() };
            for round in 0..plan.rounds {
                if round % 2 == 0 {
                    row.ours.push(time(ours, &race.ours));
                    row.peer.push(time(peer, &race.peer));
                } else {
                    row.peer.push(time(peer, &race.peer));
                    row.ours.push(time(ours, &race.ours));
                }
            }
            row
        })
        .collect()
}

/// How many calls fill the time: doubled until they do.
fn calls_in(slice: Duration, work: &Work) -> u32 {
    let mut calls = 1;
    while time(calls, work) * f64::from(calls) < slice.as_nanos() as f64 {
        calls *= 2;
    }
    calls
}

/// Nanoseconds for each call.
fn time(calls: u32, work: &Work) -> f64 {
    work(calls).as_nanos() as f64 / f64::from(calls)
}
