//! Rate-limited warnings about connections. Clients that violate the protocol usually reconnect at once, so that one
//! log line for each violation could fill the disk.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Warnings of one kind that are written in each [`WINDOW`].
const MOST: u32 = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// The warnings of one kind.
#[derive(Debug, Default)]
pub(super) struct ProtocolErrors {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    window_start: Option<Instant>,
    written_in_window: u32,
    /// Warnings suppressed since the last one that was written.
    suppressed: u64,
}

impl ProtocolErrors {
    /// Whether a warning may be written now; if so, how many were suppressed since the last one that was written.
    pub(super) fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.window_start.is_none_or(|start| now.saturating_duration_since(start) >= WINDOW) {
            state.window_start = Some(now);
            state.written_in_window = 0;
        }
        if state.written_in_window == MOST {
            state.suppressed += 1;
            return None;
        }
        state.written_in_window += 1;
        Some(std::mem::take(&mut state.suppressed))
    }

    /// Writes a warning. If the limit is reached, writes the same text at debug level.
    pub(super) fn warn(&self, peer: SocketAddr, why: impl std::fmt::Display) {
        match self.admit(Instant::now()) {
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
        let (errors, start) = (ProtocolErrors::default(), Instant::now());
        let written = (0..1000).filter(|_| errors.admit(start) == Some(0)).count();
        assert_eq!(written, 10);
        assert_eq!(errors.admit(start + WINDOW), Some(990));
        assert_eq!(errors.admit(start + WINDOW), Some(0));
    }
}
