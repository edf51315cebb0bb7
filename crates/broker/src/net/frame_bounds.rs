//! The sizes of frames that a connection may receive. A client that is not authenticated may send less.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The smallest request header: key, version and correlation id.
pub(super) const SMALLEST_REQUEST: usize = 8;

/// The sizes of frames that a connection may receive, in bytes without the length prefix.
#[derive(Debug)]
pub(crate) struct FrameBounds {
    smallest: AtomicUsize,
    /// The limit before the client is authenticated; [`usize::MAX`] for `socket.request.max.bytes`.
    largest: AtomicUsize,
}

impl FrameBounds {
    /// Requests of every size that the broker takes.
    pub(crate) fn of_requests() -> FrameBounds {
        FrameBounds { smallest: AtomicUsize::new(SMALLEST_REQUEST), largest: AtomicUsize::new(usize::MAX) }
    }

    /// Frames of a client that is not authenticated: they are small, and can be tokens without a header (S-104, S-108).
    pub(crate) fn before_login(largest: usize) -> FrameBounds {
        FrameBounds { smallest: AtomicUsize::new(0), largest: AtomicUsize::new(largest) }
    }

    /// The client is authenticated.
    pub(crate) fn open(&self) {
        self.smallest.store(SMALLEST_REQUEST, Ordering::Relaxed);
        self.largest.store(usize::MAX, Ordering::Relaxed);
    }

    /// The client authenticates again with tokens that have no header.
    pub(crate) fn expect_tokens(&self) {
        self.smallest.store(0, Ordering::Relaxed);
    }

    pub(super) fn smallest(&self) -> usize {
        self.smallest.load(Ordering::Relaxed)
    }

    pub(super) fn largest(&self) -> usize {
        self.largest.load(Ordering::Relaxed)
    }
}
