//! What was measured, cell by cell and side by side.

use super::Cell;
use super::brokers::Side;
use crate::bench::spread;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// One cell on one broker in one round.
pub(super) struct Sample {
    seconds: f64,
    /// Microseconds from begin to end of each transaction.
    whole: Vec<u32>,
    /// Microseconds of each commit call.
    commit: Vec<u32>,
    broker: Duration,
    client: Duration,
}

impl Sample {
    /// Reads `done SECONDS T,C T,C ...`.
    pub(super) fn read(line: &str, broker: Duration, client: Duration) -> Result<Sample, String> {
        let mut words = line.split_whitespace().skip(1);
        let seconds = words.next().and_then(|word| word.parse::<f64>().ok()).filter(|s| *s > 0.0);
        let seconds = seconds.ok_or("a client said done without a time")?;
        let (mut whole, mut commit) = (Vec::new(), Vec::new());
        for word in words {
            let pair = word.split_once(',').and_then(|(t, c)| Some((t.parse().ok()?, c.parse().ok()?)));
            let (t, c) = pair.ok_or_else(|| format!("a client said {word}"))?;
            whole.push(t);
            commit.push(c);
        }
        if whole.is_empty() {
            return Err("no transaction came to its end".to_owned());
        }
        Ok(Sample { seconds, whole, commit, broker, client })
    }

    fn rate(&self) -> f64 {
        self.whole.len() as f64 / self.seconds
    }
}

/// Middle, least, most.
pub(super) type Spread = (f64, f64, f64);

/// A cell on a broker over all rounds.
pub(super) struct Summary {
    /// Transactions per second, over the rounds.
    pub(super) rate: Spread,
    /// Milliseconds of a transaction: median and 99th percentile of all.
    pub(super) whole: (f64, f64),
    /// Milliseconds of a commit call: median and 99th percentile of all.
    pub(super) commit: (f64, f64),
    /// Microseconds of the broker's CPU time for a transaction.
    pub(super) broker: f64,
    /// Microseconds of the client's.
    pub(super) client: f64,
}

/// Everything measured.
#[derive(Default)]
pub(super) struct Figures {
    samples: BTreeMap<(Cell, Side), BTreeMap<usize, Sample>>,
    failed: BTreeSet<(Cell, Side)>,
}

impl Figures {
    pub(super) fn add(&mut self, cell: Cell, side: Side, round: usize, sample: Sample) {
        self.samples.entry((cell, side)).or_default().insert(round, sample);
    }

    pub(super) fn failed(&mut self, cell: Cell, side: Side) {
        self.failed.insert((cell, side));
    }

    /// Measurements that failed at least once.
    pub(super) fn failures(&self) -> usize {
        self.failed.len()
    }

    /// The cells that were measured, each once.
    pub(super) fn cells(&self) -> BTreeSet<Cell> {
        self.samples.keys().map(|(cell, _)| *cell).collect()
    }

    pub(super) fn summary(&self, cell: Cell, side: Side) -> Option<Summary> {
        let rounds = self.samples.get(&(cell, side))?;
        let all = |times: fn(&Sample) -> &Vec<u32>| rounds.values().flat_map(times).copied().collect();
        let count: usize = rounds.values().map(|sample| sample.whole.len()).sum();
        let each = |time: fn(&Sample) -> Duration| {
            rounds.values().map(time).sum::<Duration>().as_secs_f64() * 1e6 / count as f64
        };
        Some(Summary {
            rate: spread(rounds.values().map(Sample::rate).collect())?,
            whole: percentiles(all(|sample| &sample.whole)),
            commit: percentiles(all(|sample| &sample.commit)),
            broker: each(|sample| sample.broker),
            client: each(|sample| sample.client),
        })
    }

    /// How many times as many transactions per second the first side does, over the rounds in which both were measured.
    pub(super) fn ratio(&self, cell: Cell, side: Side, to: Side) -> Option<Spread> {
        let (ours, theirs) = (self.samples.get(&(cell, side))?, self.samples.get(&(cell, to))?);
        let ratio = |(round, sample): (&usize, &Sample)| Some(sample.rate() / theirs.get(round)?.rate());
        spread(ours.iter().filter_map(ratio).collect())
    }
}

/// Median and 99th percentile in milliseconds.
fn percentiles(mut micros: Vec<u32>) -> (f64, f64) {
    micros.sort_unstable();
    let at = |share: f64| {
        let place = (micros.len() as f64 * share) as usize;
        micros.get(place.min(micros.len().saturating_sub(1))).map_or(0.0, |us| f64::from(*us) / 1e3)
    };
    (at(0.5), at(0.99))
}

#[cfg(test)]
mod tests {
    use super::super::workers::Client;
    use super::*;

    #[test]
    fn figures_are_medians_over_rounds_and_percentiles_over_all() {
        let cell = Cell { client: Client::Raw, version: 2, producers: 1, records: 1 };
        let mut figures = Figures::default();
        let add = |figures: &mut Figures, side, round, line: &str| {
            let sample = Sample::read(line, Duration::from_millis(10), Duration::ZERO).unwrap();
            figures.add(cell, side, round, sample);
        };
        add(&mut figures, Side::OttlaDisk, 0, "done 1.0 1000,500 3000,700");
        add(&mut figures, Side::OttlaDisk, 1, "done 0.5 2000,600 2000,600");
        add(&mut figures, Side::KafkaFlush, 1, "done 1.0 9000,1");
        let summary = figures.summary(cell, Side::OttlaDisk).unwrap();
        assert_eq!(summary.rate, (3.0, 2.0, 4.0));
        assert_eq!((summary.whole, summary.commit), ((2.0, 3.0), (0.6, 0.7)));
        assert_eq!(summary.broker, 5000.0);
        assert_eq!(figures.ratio(cell, Side::OttlaDisk, Side::KafkaFlush), Some((4.0, 4.0, 4.0)));
        assert!(figures.ratio(cell, Side::OttlaDisk, Side::Null).is_none());
    }

    #[test]
    fn a_line_that_is_no_result_is_refused() {
        for bad in ["done", "done 0 1,1", "done 1.0", "done 1.0 1", "done 1.0 1,x"] {
            assert!(Sample::read(bad, Duration::ZERO, Duration::ZERO).is_err(), "{bad}");
        }
    }
}
