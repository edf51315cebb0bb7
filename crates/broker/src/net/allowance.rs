//! Bytes that answers of all connections may hold together until their peers have taken them.
//!
//! Each answer may be at most a quarter of what is left. So peers that take nothing cannot use the allowance up: answers to the
//! others only become smaller, down to the one batch that every answer may have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The share of what is left that one answer may take.
const SHARE: u64 = 4;

/// The allowance of a server.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    total: u64,
    held: Arc<AtomicU64>,
}

/// What one answer holds; given back when dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    held: Arc<AtomicU64>,
    bytes: u64,
}

impl Allowance {
    pub(crate) fn new(total: u64) -> Allowance {
        Allowance { total, held: Arc::default() }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Bytes that are held now.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// The most bytes an answer may have now.
    pub(crate) fn most(&self) -> u64 {
        self.total.saturating_sub(self.held.load(Ordering::Relaxed)) / SHARE
    }

    /// Counts an answer of so many bytes.
    pub(crate) fn hold(&self, bytes: u64) -> Hold {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Hold { held: Arc::clone(&self.held), bytes }
    }
}

impl Hold {
    /// The answer has come to so many bytes.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_not_taken_leave_room_for_others() {
        let allowance = Allowance::new(1 << 20);
        let mut held = Vec::new();
        for _ in 0..20 {
            held.push(allowance.hold(allowance.most()));
        }
        assert!(allowance.most() > 0);
        held.clear();
        assert_eq!(allowance.most(), 1 << 18);
    }
}
