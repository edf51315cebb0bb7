//! The clocks of the host. The steady clock begins with wall time and then runs evenly: timers are measured
//! by it, so a wall clock that is set back never disturbs their order. The wall clock is read anew for timestamps
//! and retention, so that a correction (NTP after the boot, a restored virtual machine, a suspend) arrives at once.

use ottla_types::Millis;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Reads the wall clock: the time since the Unix epoch.
type WallClock = Box<dyn Fn() -> Duration + Send + Sync>;

/// Both clocks.
pub(super) struct Clock {
    started: Instant,
    epoch: Duration,
    wall: WallClock,
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock::with_wall(Box::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
    }

    fn with_wall(wall: WallClock) -> Clock {
        Clock { started: Instant::now(), epoch: wall(), wall }
    }

    /// Steady time: milliseconds since the Unix epoch by the wall clock at the start, which never go back while the
    /// process runs.
    pub(super) fn now(&self) -> Millis {
        millis(self.epoch + self.started.elapsed())
    }

    /// How far the wall clock is ahead of steady time; negative if it is behind.
    pub(super) fn wall_offset(&self, now: Millis) -> Millis {
        millis((self.wall)()).since(now)
    }
}

fn millis(since_epoch: Duration) -> Millis {
    Millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn the_wall_clock_may_be_set_and_the_steady_clock_goes_on() {
        const DAY: u64 = 86_400_000;
        let wall = Arc::new(AtomicU64::new(400 * DAY));
        let read = Arc::clone(&wall);
        let clock = Clock::with_wall(Box::new(move || Duration::from_millis(read.load(Relaxed))));
        let mut last = clock.now();
        assert!(last >= Millis(400 * 86_400_000));
        for time in [400 * DAY, 765 * DAY, 765 * DAY + 5, 399 * DAY, 0] {
            wall.store(time, Relaxed);
            let now = clock.now();
            assert!(now >= last && now.since(last) < Millis(60_000), "steady");
            assert_eq!(now.after(clock.wall_offset(now)), Millis(time as i64), "read anew");
            last = now;
        }
    }
}
