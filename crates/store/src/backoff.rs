//! How work beside the log yields to it: it pauses while the syncs that producers wait for suffer.

use crate::stats::HistogramView;
use std::time::Duration;

/// Syncs that are needed to say something about them.
const ENOUGH: u64 = 64;
/// The first pause.
const SHORTEST: Duration = Duration::from_millis(1);

/// What is known of the log's syncs, and the pause that follows from it.
#[derive(Clone, Debug)]
pub struct IoBackoff {
    /// What was counted at the last look.
    before: HistogramView,
    /// What all but the slowest hundredth of syncs took while nothing disturbed them, in nanoseconds.
    quiet: Option<u64>,
    pause: Duration,
    longest: Duration,
}

impl IoBackoff {
    /// For work that begins later; `syncs` is what was counted so far. No pause will be longer than this.
    pub fn new(syncs: HistogramView, longest: Duration) -> IoBackoff {
        IoBackoff { before: syncs, quiet: None, pause: Duration::ZERO, longest }
    }

    /// The work begins: what was counted since the last look was quiet.
    pub fn begin(&mut self, syncs: HistogramView) {
        self.quiet = slow(&self.before, &syncs).or(self.quiet);
        self.before = syncs;
        self.pause = Duration::ZERO;
    }

    /// The pause to make before the next step. It doubles while more than a hundredth of the syncs take more than twice the time
    /// they take in quiet, and shrinks by an eighth when they do not.
    pub fn pause(&mut self, syncs: HistogramView) -> Duration {
        let Some(quiet) = self.quiet else { return self.pause };
        let all = count(&self.before, &syncs, |_| true);
        let slow = count(&self.before, &syncs, |time| time > quiet.saturating_mul(2));
        // A few slow ones say enough, all being well takes many.
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

/// How many values of such ranges were counted between two moments; a range is told by its upper bound.
fn count(before: &HistogramView, now: &HistogramView, such: impl Fn(u64) -> bool) -> u64 {
    let counts = now.buckets.iter().zip(&before.buckets);
    let counts = counts.map(|((bound, now), (_, before))| (*bound, now.saturating_sub(*before)));
    let above = (u64::MAX, now.above.saturating_sub(before.above));
    counts.chain([above]).filter(|(bound, _)| such(*bound)).map(|(_, count)| count).sum()
}

/// What all but the slowest hundredth of what was counted between two moments took; none if that was too little to say.
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
