//! What was measured: for each cell, side and round the figures that a load program printed.

use std::collections::{BTreeMap, BTreeSet};

use super::sides::Side;
use crate::bench::spread;

/// Middle, least, most.
pub(super) type Spread = (f64, f64, f64);

/// The figures of one measurement by name; times in microseconds, `*_cpu` in seconds.
#[derive(Clone, Default)]
pub(super) struct Sample(BTreeMap<String, f64>);

impl Sample {
    /// Reads `NAME=NUMBER NAME=NUMBER ...`.
    pub(super) fn read(line: &str) -> Result<Sample, String> {
        let pair = |word: &str| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let pairs: Option<BTreeMap<String, f64>> = line.split_whitespace().map(pair).collect();
        match pairs {
            Some(pairs) if pairs.get("requests").is_some_and(|count| *count > 0.0) => Ok(Sample(pairs)),
            _ => Err(format!("a load program measured nothing: {line}")),
        }
    }

    /// A figure that was measured elsewhere.
    pub(super) fn set(&mut self, name: &str, value: f64) {
        self.0.insert(name.to_owned(), value);
    }

    pub(super) fn get(&self, figure: Figure) -> Option<f64> {
        let of = |name: &str| self.0.get(name).copied();
        let per = |name: &str, by: &str, times: f64| Some(of(name)? * times / of(by).filter(|by| *by > 0.0)?);
        match figure {
            Figure::Megabytes => per("bytes", "seconds", 1e-6),
            Figure::Requests => per("requests", "seconds", 1.0),
            Figure::Records => per("records", "seconds", 1.0),
            Figure::CpuPerGigabyte => per("broker_cpu", "bytes", 1e9),
            Figure::WholeCpuPerGigabyte => per("whole_cpu", "bytes", 1e9),
            Figure::CpuPerRequest => per("broker_cpu", "requests", 1e6),
            Figure::ClientPerGigabyte => per("client_cpu", "bytes", 1e9),
            Figure::Share => Some(of("requests")? / of("seconds")? / of("offered")?),
            Figure::Times(name, by) => per(name, by, 1.0),
            Figure::Millis(name) => of(name).map(|micros| micros / 1e3),
            Figure::Named(name) => of(name),
        }
    }
}

/// What to look at in samples.
#[derive(Clone, Copy)]
pub(super) enum Figure {
    /// 10^6 bytes of batches in a second.
    Megabytes,
    Requests,
    Records,
    /// Seconds of the broker's CPU time for 10^9 bytes.
    CpuPerGigabyte,
    /// The same of a run whose warm-up cannot be told apart.
    WholeCpuPerGigabyte,
    /// Microseconds of the broker's CPU time for a request.
    CpuPerRequest,
    ClientPerGigabyte,
    /// Of the requests that a rate asked for, those that were answered in time.
    Share,
    /// One by the other, as the load program printed them.
    Times(&'static str, &'static str),
    /// A time in milliseconds.
    Millis(&'static str),
    /// As the load program printed it.
    Named(&'static str),
}

pub(super) const P50: Figure = Figure::Named("p50");
pub(super) const P99: Figure = Figure::Named("p99");

/// Everything measured, cells by their names.
#[derive(Default)]
pub(super) struct Figures {
    samples: BTreeMap<(String, Side), BTreeMap<usize, Sample>>,
    failed: BTreeSet<(String, Side)>,
}

impl Figures {
    pub(super) fn add(&mut self, cell: &str, side: Side, round: usize, sample: Sample) {
        self.samples.entry((cell.to_owned(), side)).or_default().insert(round, sample);
    }

    pub(super) fn failed(&mut self, cell: &str, side: Side) {
        self.failed.insert((cell.to_owned(), side));
    }

    /// Measurements that failed at least once.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        self.failed.iter().map(|(cell, side)| format!("{cell} on {}", side.title()))
    }

    /// The middle value over the rounds, the least and the most.
    pub(super) fn of(&self, cell: &str, side: Side, figure: Figure) -> Option<Spread> {
        let rounds = self.samples.get(&(cell.to_owned(), side))?;
        spread(rounds.values().filter_map(|sample| sample.get(figure)).collect())
    }

    /// A figure of one side and cell by that of another, over the rounds in which both were measured.
    pub(super) fn ratio(&self, one: (&str, Side), by: (&str, Side), figure: Figure) -> Option<Spread> {
        let rounds = |(cell, side): (&str, Side)| self.samples.get(&(cell.to_owned(), side));
        let (ours, theirs) = (rounds(one)?, rounds(by)?);
        let ratio = |(round, sample): (&usize, &Sample)| {
            let by = theirs.get(round)?.get(figure).filter(|by| *by > 0.0)?;
            Some(sample.get(figure)? / by)
        };
        spread(ours.iter().filter_map(ratio).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_over_rounds_and_ratios_are_taken_round_by_round() {
        let mut figures = Figures::default();
        for (round, ours, theirs) in [(0, 100, 50), (1, 300, 100), (2, 200, 400)] {
            for (side, count) in [(Side::OttlaOs, ours), (Side::KafkaCache, theirs)] {
                let line = format!("seconds=2.0 requests={count} bytes={} broker_cpu=1.0", count * 1_000_000);
                figures.add("cell", side, round, Sample::read(&line).unwrap());
            }
        }
        assert_eq!(figures.of("cell", Side::OttlaOs, Figure::Megabytes), Some((100.0, 50.0, 150.0)));
        assert_eq!(figures.of("cell", Side::OttlaOs, Figure::CpuPerGigabyte).unwrap().0, 5.0);
        let ratio = figures.ratio(("cell", Side::OttlaOs), ("cell", Side::KafkaCache), Figure::Requests);
        assert_eq!(ratio, Some((2.0, 0.5, 3.0)));
        assert!(figures.of("cell", Side::Sink, Figure::Requests).is_none());
    }

    #[test]
    fn a_line_that_is_no_result_is_refused() {
        for bad in ["", "requests=0 seconds=1", "requests=x", "seconds=1.0", "requests=1 other"] {
            assert!(Sample::read(bad).is_err(), "{bad}");
        }
    }
}
