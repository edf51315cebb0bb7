//! The clock of the host: wall time at the start, then steady steps, so that a clock set back never reaches the core.

use ottla_types::Millis;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch that never go back while the process runs.
pub(super) struct Clock {
    started: Instant,
    epoch: Duration,
}

impl Clock {
    pub(super) fn start() -> Clock {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { started: Instant::now(), epoch }
    }

    pub(super) fn now(&self) -> Millis {
        let since = self.epoch + self.started.elapsed();
        Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
