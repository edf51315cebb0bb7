//! What was measured: for each cell, side and round the figures that a load program printed.

use super::sides::Side;
use crate::bench::{Spread, spread};
use clap::ValueEnum;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

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
    /// The same of a run whose warm-up is not reported apart.
    WholeCpuPerGigabyte,
    /// Microseconds of the broker's CPU time for a request.
    CpuPerRequest,
    ClientPerGigabyte,
    /// Of the requests that a rate asked for, those that were answered in time.
    Share,
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

    /// What failed is not tried again.
    pub(super) fn has_failed(&self, cell: &str, side: Side) -> bool {
        self.failed.contains(&(cell.to_owned(), side))
    }

    pub(super) fn has(&self, cell: &str) -> bool {
        self.samples.keys().chain(&self.failed).any(|(found, _)| found == cell)
    }

    /// Forgets all that was measured of these cells.
    pub(super) fn forget(&mut self, cells: &[String]) {
        self.samples.retain(|(cell, _), _| !cells.contains(cell));
        self.failed.retain(|(cell, _)| !cells.contains(cell));
    }

    /// Writes a line for each measurement: cell, side, round, figures.
    pub(super) fn save(&self, file: &Path) -> Result<(), String> {
        let name =
            |side: &Side| side.to_possible_value().map_or(String::new(), |side| side.get_name().to_owned());
        let mut text = String::new();
        for ((cell, side), rounds) in &self.samples {
            for (round, Sample(pairs)) in rounds {
                let pairs: Vec<String> =
                    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
                text.push_str(&format!("{cell}\t{}\t{round}\t{}\n", name(side), pairs.join(" ")));
            }
        }
        for (cell, side) in &self.failed {
            text.push_str(&format!("{cell}\t{}\tfailed\t\n", name(side)));
        }
        fs::write(file, text).map_err(|e| format!("cannot write {}: {e}", file.display()))
    }

    pub(super) fn load(file: &Path) -> Result<Figures, String> {
        let text =
            fs::read_to_string(file).map_err(|e| format!("no figures to keep in {}: {e}", file.display()))?;
        let mut figures = Figures::default();
        for line in text.lines() {
            let odd = || format!("{}: {line}", file.display());
            let [cell, side, round, pairs] = line.split('\t').collect::<Vec<_>>()[..] else {
                return Err(odd());
            };
            let side = Side::from_str(side, false)?;
            match round {
                "failed" => figures.failed(cell, side),
                _ => figures.add(cell, side, round.parse().map_err(|_| odd())?, Sample::read(pairs)?),
            }
        }
        Ok(figures)
    }

    /// Measurements that failed.
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
    fn figures_are_kept_but_for_what_is_measured_again() {
        let file = std::env::temp_dir().join(format!("ottla-figures-{}", std::process::id()));
        let mut figures = Figures::default();
        figures.add("one", Side::OttlaDisk, 2, Sample::read("requests=3 seconds=0.5").unwrap());
        figures.add("two", Side::Sink, 0, Sample::read("requests=1 p99=7").unwrap());
        figures.failed("two", Side::KafkaCache);
        figures.save(&file).unwrap();
        let mut found = Figures::load(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(found.of("one", Side::OttlaDisk, Figure::Requests), Some((6.0, 6.0, 6.0)));
        assert!(found.has("two") && found.has_failed("two", Side::KafkaCache));
        found.forget(&["two".to_owned()]);
        assert!(found.has("one") && !found.has("two"));
    }

    #[test]
    fn a_line_that_is_no_result_is_refused() {
        for bad in ["", "requests=0 seconds=1", "requests=x", "seconds=1.0", "requests=1 other"] {
            assert!(Sample::read(bad).is_err(), "{bad}");
        }
    }
}
