//! Warnings about connections, not more of them than somebody can read: peers that misbehave come back at once.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Warnings of one kind that are written in each [`WINDOW`].
const MOST: u32 = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// The warnings of one kind.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When the current window began.
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Complaints {
    /// Whether a warning may be written now; if so, how many were left out since the last one that was.
    pub(super) fn may(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.since.is_none_or(|since| now.saturating_duration_since(since) >= WINDOW) {
            state.since = Some(now);
            state.written = 0;
        }
        if state.written == MOST {
            state.left_out += 1;
            return None;
        }
        state.written += 1;
        Some(std::mem::take(&mut state.left_out))
    }

    /// Warns, or writes the same for those who debug.
    pub(super) fn warn(&self, peer: std::net::SocketAddr, why: impl std::fmt::Display) {
        match self.may(Instant::now()) {
            Some(0) => tracing::warn!(%peer, "closed: {why}"),
            Some(left_out) => tracing::warn!(%peer, left_out, "closed: {why} (and more like it before)"),
            None => tracing::debug!(%peer, "closed: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_ten_lines_and_a_number() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        let written = (0..1000).filter(|_| complaints.may(start) == Some(0)).count();
        assert_eq!(written, 10);
        assert_eq!(complaints.may(start + WINDOW), Some(990));
        assert_eq!(complaints.may(start + WINDOW), Some(0));
    }
}
