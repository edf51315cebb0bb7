//! Latencies of requests: quantiles without keeping every value.

use std::time::Duration;

/// Counted times in nanoseconds, each exact to three significant digits.
pub(crate) struct Histogram(hdrhistogram::Histogram<u64>);

impl Histogram {
    #[expect(clippy::expect_used, reason = "three digits are within the five that the library allows")]
    pub(crate) fn new() -> Histogram {
        Histogram(hdrhistogram::Histogram::new(3).expect("a valid number of digits"))
    }

    pub(crate) fn record(&mut self, time: Duration) {
        // The histogram grows as needed, so every value fits.
        let _ = self.0.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds what another histogram has counted.
    pub(crate) fn add(&mut self, other: &Histogram) {
        // Both grow as needed, so every value of one fits into the other.
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time within which this share of all lies, in microseconds; 0 if there is none.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        if self.0.is_empty() {
            return 0.0;
        }
        self.0.value_at_quantile(share).min(self.0.max()) as f64 / 1e3
    }

    /// The quantiles as words of a line of figures.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        for (share, expected) in [(0.5, 500e3), (0.99, 990e3), (1.0, 1000e3)] {
            let found = histogram.quantile(share);
            assert!((found - expected).abs() <= expected / 500.0, "{share}: {found}");
        }
        assert_eq!(Histogram::new().quantile(0.5), 0.0);
    }
}
