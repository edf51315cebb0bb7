//! The bound on the tail of the log: what is not in runs yet. Above three quarters of it producers are slowed down to
//! what the rewriter manages; at the bound they wait. Only producers wait.
//!
//! ```text
//!   0          half              three quarters            bound
//!   ├── free ───┼── is rewritten ──┼── and throttled ───────┤ Produce waits
//! ```

use ottla_types::Millis;

/// The longest that a connection is muted at once.
const LONGEST: u64 = 5_000_000;
/// The assumed rate of the rewriter before the first measurement, in bytes a second.
const FIRST_RATE: u64 = 100 << 20;
/// The least assumed rate, so that producers never stop.
const LEAST_RATE: u64 = 1 << 20;

/// The most that the tail may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TailBound {
    /// Bytes from the first batch that is not in a run to the end of the log.
    pub(super) bytes: u64,
    /// Batches and markers.
    pub(super) batches: u64,
}

/// What the tail holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) bytes: u64,
    pub(super) batches: u64,
}

impl TailBound {
    /// How full the tail is, in thousandths of the bound.
    pub(super) fn level(&self, tail: Tail) -> u64 {
        let of = |part: u64, whole: u64| part.saturating_mul(1000) / whole.max(1);
        of(tail.bytes, self.bytes).max(of(tail.batches, self.batches))
    }

    /// Whether so much more stays within the bound. A request that is larger than the bound itself is accepted into an
    /// empty tail.
    pub(super) fn takes(&self, tail: Tail, more: Tail) -> bool {
        let takes = |held: u64, more: u64, most: u64| held == 0 || held.saturating_add(more) <= most;
        takes(tail.bytes, more.bytes, self.bytes) && takes(tail.batches, more.batches, self.batches)
    }
}

/// Throttles all producers together: each is muted until the rewriter has caught up with the bytes that it sent.
#[derive(Debug)]
pub(super) struct Throttle {
    /// The rewriter's rate in bytes a second.
    rate: u64,
    /// When the rewriter will have written all accepted bytes, in microseconds.
    through: u64,
}

impl Default for Throttle {
    fn default() -> Throttle {
        Throttle { rate: FIRST_RATE, through: 0 }
    }
}

impl Throttle {
    /// The rewriter has written `bytes` in `took`.
    pub(super) fn managed(&mut self, bytes: u64, took: Millis) {
        let took = u64::try_from(took.0).unwrap_or(0).max(1);
        let now = bytes.saturating_mul(1000) / took;
        self.rate = (self.rate.saturating_mul(3).saturating_add(now) / 4).max(LEAST_RATE);
    }

    /// How long to mute a producer that sends `bytes`, at this level of the tail.
    pub(super) fn mute(&mut self, now: Millis, level: u64, bytes: u64) -> Millis {
        let now = u64::try_from(now.0).unwrap_or(0).saturating_mul(1000);
        let Some(above) = level.checked_sub(750) else {
            self.through = 0;
            return Millis(0);
        };
        // The rewriter's whole rate at three quarters, a quarter of it at the bound.
        let share = 1000 - above.min(250) * 3;
        let rate = (self.rate / 1000 * share).max(LEAST_RATE);
        let takes = bytes.saturating_mul(1_000_000) / rate;
        self.through = self.through.max(now).saturating_add(takes).min(now + LONGEST);
        Millis(i64::try_from((self.through - now) / 1000).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_that_of_what_is_fuller() {
        let bound = TailBound { bytes: 1000, batches: 100 };
        assert_eq!(bound.level(Tail { bytes: 500, batches: 10 }), 500);
        assert_eq!(bound.level(Tail { bytes: 500, batches: 80 }), 800);
        assert!(bound.takes(Tail { bytes: 900, batches: 99 }, Tail { bytes: 100, batches: 1 }));
        assert!(!bound.takes(Tail { bytes: 900, batches: 99 }, Tail { bytes: 101, batches: 1 }));
        assert!(!bound.takes(Tail { bytes: 900, batches: 99 }, Tail { bytes: 1, batches: 2 }));
        assert!(bound.takes(Tail::default(), Tail { bytes: 1001, batches: 1 }));
    }

    #[test]
    fn producers_together_bring_what_the_rewriter_manages() {
        let mut throttle = Throttle::default();
        for _ in 0..100 {
            throttle.managed(10 << 20, Millis(1000));
        }
        assert_eq!(throttle.mute(Millis(0), 749, 1 << 20), Millis(0));
        // Ten producers of a mebibyte each at ten mebibytes a second: the last one has to wait for a second.
        let waits: Vec<i64> = (0..10).map(|_| throttle.mute(Millis(0), 750, 1 << 20).0).collect();
        assert!((95..=105).contains(&waits[0]) && (950..=1050).contains(&waits[9]), "{waits:?}");
        // At the bound it is a quarter of that.
        assert!((350..=450).contains(&throttle.mute(Millis(60_000), 1000, 1 << 20).0));
        assert_eq!(throttle.mute(Millis(60_000), 1000, 1 << 30), Millis(5000));
    }
}
