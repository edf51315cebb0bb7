//! Figures of the log since it was opened, for metrics. Counting costs a few additions for each group.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Upper bounds of durations, in nanoseconds: 100 µs to 30 s.
pub const DURATIONS: &[u64] = &[
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
];
/// Upper bounds of sizes of groups, in bytes: 4 KiB to 4 MiB.
const SIZES: &[u64] = &[
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
];
/// Upper bounds of numbers of records in a group.
const COUNTS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096];

/// Counts of values by range. Any thread may count.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One for each bound, and one for what is above.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramView {
    /// For each bound, how many values were at most the bound and above the bound before.
    pub buckets: Vec<(u64, u64)>,
    /// How many values were above the last bound.
    pub above: u64,
    /// The sum of all values.
    pub sum: u64,
}

impl Histogram {
    /// A histogram of ranges that end at these ascending bounds, inclusive.
    pub fn new(bounds: &'static [u64]) -> Histogram {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, buckets, sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub fn record(&self, value: u64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[place].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    /// What was counted so far.
    pub fn view(&self) -> HistogramView {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        HistogramView {
            above: counts.last().copied().unwrap_or(0),
            buckets: self.bounds.iter().copied().zip(counts).collect(),
            sum: self.sum.load(Relaxed),
        }
    }
}

impl HistogramView {
    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.above + self.buckets.iter().map(|(_, count)| count).sum::<u64>()
    }
}

/// Figures of the log since it was opened.
#[derive(Debug)]
pub struct LogStats {
    /// Bytes of each written group, its padding included.
    pub group_bytes: Histogram,
    /// Records in each written group.
    pub group_records: Histogram,
    /// Nanoseconds that each sync of a segment took.
    pub syncs: Histogram,
}

impl LogStats {
    pub(crate) fn new() -> LogStats {
        LogStats {
            group_bytes: Histogram::new(SIZES),
            group_records: Histogram::new(COUNTS),
            syncs: Histogram::new(DURATIONS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_the_range_that_ends_at_or_above_it() {
        let histogram = Histogram::new(&[10, 20]);
        [0, 10, 11, 20, 21, 1000].into_iter().for_each(|value| histogram.record(value));
        let view = histogram.view();
        assert_eq!((view.buckets.as_slice(), view.above), ([(10, 2), (20, 2)].as_slice(), 2));
        assert_eq!((view.sum, view.count()), (1062, 6));
    }
}
