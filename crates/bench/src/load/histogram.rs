//! Times in buckets that are at most one part in 64 wide: quantiles without keeping every value.

use std::time::Duration;

/// Buckets for each power of two.
const STEPS: u32 = 64;
const STEP_BITS: u32 = STEPS.ilog2();

/// Nanoseconds, counted.
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    largest: u64,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram { buckets: vec![0; ((64 - STEP_BITS + 1) * STEPS) as usize], count: 0, largest: 0 }
    }

    pub(crate) fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(nanos)) {
            *bucket += 1;
        }
        self.count += 1;
        self.largest = self.largest.max(nanos);
    }

    /// Counts in what another has counted.
    pub(crate) fn add(&mut self, other: &Histogram) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.largest = self.largest.max(other.largest);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The time that this share of all stays within, in microseconds; 0 if there is none.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let wanted = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (place, bucket) in self.buckets.iter().enumerate() {
            seen += bucket;
            if seen >= wanted {
                return upper(place).min(self.largest) as f64 / 1e3;
            }
        }
        0.0
    }

    /// The quantiles as a part of a line of figures.
    pub(crate) fn figures(&self) -> String {
        let at = |share| self.quantile(share);
        format!(
            "p50={:.1} p90={:.1} p99={:.1} p999={:.1} max={:.1}",
            at(0.5),
            at(0.9),
            at(0.99),
            at(0.999),
            at(1.0)
        )
    }
}

/// Values below 64 have a bucket each; above, the six bits behind the highest choose it.
fn bucket_of(nanos: u64) -> usize {
    let high = nanos.checked_ilog2().unwrap_or(0);
    if high < STEP_BITS {
        return nanos as usize;
    }
    let shift = high - STEP_BITS;
    let step = (nanos >> shift) as usize - STEPS as usize;
    ((shift + 1) * STEPS) as usize + step
}

/// The largest value of a bucket.
fn upper(place: usize) -> u64 {
    let (row, step) = (place / STEPS as usize, (place % STEPS as usize) as u128);
    if row == 0 {
        return step as u64;
    }
    let end = (u128::from(STEPS) + step + 1) << (row - 1);
    u64::try_from(end - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_are_narrow() {
        let mut values: Vec<u64> =
            (0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit).wrapping_sub(1)]).collect();
        values.extend([1000, 1_000_000, 123_456_789, u64::MAX]);
        for value in values {
            let place = bucket_of(value);
            let (below, above) = (place.checked_sub(1).map_or(0, upper), upper(place));
            assert!(value <= above && (place == 0 || value > below), "{value} in {place}");
            assert!(above - value <= value / 32, "{value} up to {above}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        for (share, expected) in [(0.5, 500e3), (0.99, 990e3), (1.0, 1000e3)] {
            let found = histogram.quantile(share);
            assert!((found - expected).abs() <= expected / 32.0, "{share}: {found}");
        }
        assert_eq!(Histogram::new().quantile(0.5), 0.0);
    }
}
