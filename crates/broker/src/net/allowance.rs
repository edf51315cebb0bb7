//! Bytes that answers of all connections may hold together until their peers have taken them.
//!
//! An answer to Fetch may be at most a quarter of what is left, so that peers that take nothing leave something to others; the one
//! batch that every answer may have, and all other answers, wait until there is room, in the order in which they came. A third is
//! kept for small answers, which do not wait behind large ones. While somebody waits, peers that take nothing are given little time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The share of what is left that one answer to Fetch may take.
const SHARE: u64 = 4;
/// The share of the whole that is kept for small answers.
const SHARE_OF_SMALL: u64 = 3;
/// The largest small answer.
const SMALL: u64 = 64 << 10;
/// Bytes that are counted as one.
const UNIT: u64 = 256;

/// The allowance of a server.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    small: Part,
    large: Part,
}

/// One of its parts.
#[derive(Clone, Debug)]
struct Part {
    units: u32,
    left: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

/// What one answer holds; given back when dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    /// None of an answer without bytes.
    units: Option<OwnedSemaphorePermit>,
    waiting: Arc<AtomicUsize>,
}

impl Hold {
    /// True while another answer waits for room.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// The answer has come to so many bytes: what it holds beyond is given back.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let keep = usize::try_from(bytes.div_ceil(UNIT)).unwrap_or(usize::MAX);
        if let Some(units) = &mut self.units
            && let Some(more) = units.num_permits().checked_sub(keep)
        {
            drop(units.split(more));
        }
    }
}

/// Counts an answer among those that wait, as long as it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Part {
    fn new(bytes: u64) -> Part {
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX >> 3).clamp(1, u32::MAX >> 3);
        Part { units, left: Arc::new(Semaphore::new(units as usize)), waiting: Arc::default() }
    }

    fn total(&self) -> u64 {
        u64::from(self.units) * UNIT
    }

    fn left(&self) -> u64 {
        self.left.available_permits() as u64 * UNIT
    }

    /// An answer that is larger than everything takes everything.
    fn units(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.units)
    }

    fn try_hold(&self, bytes: u64) -> Option<Hold> {
        let units = match self.units(bytes) {
            0 => None,
            units => Some(Arc::clone(&self.left).try_acquire_many_owned(units).ok()?),
        };
        Some(Hold { units, waiting: Arc::clone(&self.waiting) })
    }

    async fn hold(&self, bytes: u64) -> Hold {
        self.waiting.fetch_add(1, Relaxed);
        let _waiting = Waiting(&self.waiting);
        // The semaphore is never closed, so these are permits.
        let units = Arc::clone(&self.left).acquire_many_owned(self.units(bytes)).await.ok();
        Hold { units, waiting: Arc::clone(&self.waiting) }
    }
}

impl Allowance {
    pub(crate) fn new(total: u64) -> Allowance {
        let small = total / SHARE_OF_SMALL;
        Allowance { small: Part::new(small), large: Part::new(total - small) }
    }

    pub(crate) fn total(&self) -> u64 {
        self.small.total() + self.large.total()
    }

    /// Bytes that are held now.
    pub(crate) fn held(&self) -> u64 {
        self.total().saturating_sub(self.small.left() + self.large.left())
    }

    /// The most bytes an answer to Fetch may have now.
    pub(crate) fn most(&self) -> u64 {
        (self.large.left() / SHARE).max(SMALL.min(self.small.left() / SHARE))
    }

    /// Counts an answer of so many bytes, if there is room for it now.
    pub(crate) fn try_hold(&self, bytes: u64) -> Option<Hold> {
        let small = if bytes <= SMALL { self.small.try_hold(bytes) } else { None };
        small.or_else(|| self.large.try_hold(bytes))
    }

    /// Counts an answer of so many bytes, as soon as there is room for it.
    pub(crate) async fn hold(&self, bytes: u64) -> Hold {
        match self.try_hold(bytes) {
            Some(hold) => hold,
            None if bytes <= SMALL => self.small.hold(bytes).await,
            None => self.large.hold(bytes).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_that_are_not_taken_leave_room_for_others() {
        let allowance = Allowance::new(3 << 20);
        let mut held = Vec::new();
        for _ in 0..40 {
            held.push(allowance.hold(allowance.most()).await);
        }
        assert!(allowance.most() > 0);
        held.clear();
        assert_eq!((allowance.most(), allowance.held()), (1 << 19, 0));
    }

    #[tokio::test]
    async fn an_answer_waits_for_room_and_one_that_is_larger_than_all_for_all_of_it() {
        let allowance = Allowance::new(3 << 20);
        let first = allowance.hold(2000 << 10).await;
        assert!(allowance.try_hold(200 << 10).is_none() && !first.is_wanted());
        let later = allowance.clone();
        let waits = tokio::spawn(async move { later.hold(5 << 20).await });
        while !first.is_wanted() {
            tokio::task::yield_now().await;
        }
        assert!(allowance.try_hold(SMALL).is_some(), "small ones do not wait behind it");
        assert!(!waits.is_finished());
        drop(first);
        let all = waits.await.unwrap();
        assert_eq!((allowance.held(), all.is_wanted()), (2 << 20, false));
        assert!(allowance.try_hold(0).is_some());
        let mut shrinks = all;
        shrinks.shrink(1 << 20);
        assert_eq!(allowance.held(), 1 << 20);
        shrinks.shrink(2 << 20);
        assert_eq!(allowance.held(), 1 << 20);
    }
}
