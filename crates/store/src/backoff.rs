//! I/O backoff: background work pauses while the log's syncs, which producers wait for, are slower than without it.

use crate::stats::HistogramView;
use std::time::Duration;

/// The number of syncs that a percentile, or a shorter pause, needs.
const ENOUGH: u64 = 64;
/// The first pause.
const SHORTEST: Duration = Duration::from_millis(1);

/// Derives the pause of background work from the durations of the log's syncs.
#[derive(Clone, Debug)]
pub struct IoBackoff {
    /// The counts at the last comparison.
    before: HistogramView,
    /// The 99th percentile of the syncs without background work, in nanoseconds.
    quiet: Option<u64>,
    pause: Duration,
    longest: Duration,
}

impl IoBackoff {
    /// A backoff for work that begins later; `syncs` holds the counts so far. No pause is longer than `longest`.
    pub fn new(syncs: HistogramView, longest: Duration) -> IoBackoff {
        IoBackoff { before: syncs, quiet: None, pause: Duration::ZERO, longest }
    }

    /// Call this when the work begins. The syncs since the last comparison ran without it; they become the reference.
    pub fn begin(&mut self, syncs: HistogramView) {
        self.quiet = slow(&self.before, &syncs).or(self.quiet);
        self.before = syncs;
        self.pause = Duration::ZERO;
    }

    /// The pause before the next step. It doubles while more than 1 % of the syncs take more than twice the reference,
    /// which is the 99th percentile without background work. Otherwise it shrinks by an eighth.
    pub fn pause(&mut self, syncs: HistogramView) -> Duration {
        let Some(quiet) = self.quiet else { return self.pause };
        let all = count(&self.before, &syncs, |_| true);
        let slow = count(&self.before, &syncs, |time| time > quiet.saturating_mul(2));
        // Two slow syncs suffice to lengthen the pause; a shorter pause needs `ENOUGH` syncs.
        if slow >= 2 && slow > all / 100 {
            self.before = syncs;
            self.pause = (self.pause * 2).clamp(SHORTEST, self.longest);
        } else if all >= ENOUGH {
            self.before = syncs;
            self.pause = if self.pause > SHORTEST { self.pause * 7 / 8 } else { Duration::ZERO };
        }
        self.pause
    }
}

/// The number of values between two views, in the buckets whose upper bound satisfies `includes`.
fn count(before: &HistogramView, now: &HistogramView, includes: impl Fn(u64) -> bool) -> u64 {
    let counts = now.buckets.iter().zip(&before.buckets);
    let counts = counts.map(|((bound, now), (_, before))| (*bound, now.saturating_sub(*before)));
    let above = (u64::MAX, now.above.saturating_sub(before.above));
    counts.chain([above]).filter(|(bound, _)| includes(*bound)).map(|(_, count)| count).sum()
}

/// The 99th percentile of the values between two views; `None` for fewer than [`ENOUGH`] values.
fn slow(before: &HistogramView, now: &HistogramView) -> Option<u64> {
    let all = count(before, now, |_| true);
    let bounds = now.buckets.iter().map(|(bound, _)| *bound).chain([u64::MAX]);
    let mut bounds = bounds.filter(|bound| count(before, now, |time| time <= *bound) >= all - all / 100);
    bounds.next().filter(|_| all >= ENOUGH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;

    #[test]
    fn the_slowest_hundredth_does_not_count() {
        let histogram = Histogram::new(&[10, 20, 40]);
        let before = histogram.view();
        (0..63).for_each(|_| histogram.record(5));
        assert_eq!(slow(&before, &histogram.view()), None);
        (0..136).for_each(|_| histogram.record(15));
        histogram.record(100);
        assert_eq!(slow(&before, &histogram.view()), Some(20));
        let later = histogram.view();
        (0..64).for_each(|_| histogram.record(5));
        assert_eq!(slow(&later, &histogram.view()), Some(10));
    }

    #[test]
    fn pauses_grow_while_syncs_are_slow_and_go_away() {
        let histogram = Histogram::new(&[10, 20, 40]);
        let mut backoff = IoBackoff::new(histogram.view(), Duration::from_millis(8));
        let mut next = |value, times, begins| {
            (0..times).for_each(|_| histogram.record(value));
            if begins {
                backoff.begin(histogram.view());
            }
            backoff.pause(histogram.view()).as_micros()
        };
        assert_eq!(next(10, 64, true), 0);
        assert_eq!(next(20, 64, false), 0, "twice the time is not slow");
        let more = [30; 5].map(|value| next(value, 2, false));
        assert_eq!(more, [1000, 2000, 4000, 8000, 8000]);
        assert_eq!([next(5, 63, false), next(5, 1, false), next(5, 64, false)], [8000, 7000, 6125]);
        let left: Vec<u128> = (0..20).map(|_| next(5, 64, false)).collect();
        assert!(left.is_sorted_by(|one, next| one >= next) && left.last() == Some(&0), "{left:?}");
        assert_eq!([next(30, 1, false), next(30, 1, false)], [0, 1000]);
        assert_eq!(next(5, 64, true), 0);
    }
}
