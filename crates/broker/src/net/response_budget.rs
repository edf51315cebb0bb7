//! The memory budget of responses: the bytes that responses of all connections may hold together until their clients
//! have read them.
//!
//! - A Fetch response may take at most a quarter of what is free, so that clients that do not read leave memory for
//!   others.
//! - The one batch that every Fetch response may carry whatever its size, and all other responses, wait until there is
//!   memory, in the order of their requests.
//! - A third of the budget is kept for small responses, which therefore do not wait behind large ones.
//! - While a response waits, slow readers are disconnected after one second (see [`super::ResponseWriter`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A Fetch response may take one part in this many of the free bytes.
const SHARE: u64 = 4;
/// One part in this many of the budget is kept for small responses.
const SHARE_OF_SMALL: u64 = 3;
/// Size of the largest small response, in bytes.
const SMALL: u64 = 64 << 10;
/// Bytes of one permit.
const UNIT: u64 = 256;

/// The budget of a broker.
#[derive(Clone, Debug)]
pub(crate) struct ResponseBudget {
    small: Part,
    large: Part,
}

/// One part of the budget.
#[derive(Clone, Debug)]
struct Part {
    units: u32,
    left: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

/// The bytes that one response holds. Dropping it returns them.
#[derive(Debug)]
pub(crate) struct ResponseCharge {
    /// None for a response without bytes.
    units: Option<OwnedSemaphorePermit>,
    waiting: Arc<AtomicUsize>,
}

impl ResponseCharge {
    /// Whether another response waits for bytes.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// Returns what the response holds beyond `bytes`.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let keep = usize::try_from(bytes.div_ceil(UNIT)).unwrap_or(usize::MAX);
        if let Some(units) = &mut self.units
            && let Some(more) = units.num_permits().checked_sub(keep)
        {
            drop(units.split(more));
        }
    }
}

/// Counts a waiting response, until dropped.
struct ResponseWait<'a>(&'a AtomicUsize);

impl Drop for ResponseWait<'_> {
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

    /// The permits for these bytes. A response larger than the whole part takes all of it.
    fn units(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.units)
    }

    fn try_charge(&self, bytes: u64) -> Option<ResponseCharge> {
        let units = match self.units(bytes) {
            0 => None,
            units => Some(Arc::clone(&self.left).try_acquire_many_owned(units).ok()?),
        };
        Some(ResponseCharge { units, waiting: Arc::clone(&self.waiting) })
    }

    async fn charge(&self, bytes: u64) -> ResponseCharge {
        self.waiting.fetch_add(1, Relaxed);
        let _waiting = ResponseWait(&self.waiting);
        // The semaphore is never closed, so this is never none.
        let units = Arc::clone(&self.left).acquire_many_owned(self.units(bytes)).await.ok();
        ResponseCharge { units, waiting: Arc::clone(&self.waiting) }
    }
}

impl ResponseBudget {
    pub(crate) fn new(total: u64) -> ResponseBudget {
        let small = total / SHARE_OF_SMALL;
        ResponseBudget { small: Part::new(small), large: Part::new(total - small) }
    }

    pub(crate) fn total(&self) -> u64 {
        self.small.total() + self.large.total()
    }

    /// Bytes that responses hold now.
    pub(crate) fn held(&self) -> u64 {
        self.total().saturating_sub(self.small.left() + self.large.left())
    }

    /// The most bytes that a Fetch response may have now.
    pub(crate) fn most(&self) -> u64 {
        (self.large.left() / SHARE).max(SMALL.min(self.small.left() / SHARE))
    }

    /// Charges a response, if the budget has the bytes now.
    pub(crate) fn try_charge(&self, bytes: u64) -> Option<ResponseCharge> {
        let small = if bytes <= SMALL { self.small.try_charge(bytes) } else { None };
        small.or_else(|| self.large.try_charge(bytes))
    }

    /// Charges a response. Waits until the budget has the bytes.
    pub(crate) async fn charge(&self, bytes: u64) -> ResponseCharge {
        match self.try_charge(bytes) {
            Some(charge) => charge,
            None if bytes <= SMALL => self.small.charge(bytes).await,
            None => self.large.charge(bytes).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unread_responses_leave_memory_for_others() {
        let budget = ResponseBudget::new(3 << 20);
        let mut held = Vec::new();
        for _ in 0..40 {
            held.push(budget.charge(budget.most()).await);
        }
        assert!(budget.most() > 0);
        held.clear();
        assert_eq!((budget.most(), budget.held()), (1 << 19, 0));
    }

    #[tokio::test]
    async fn a_response_waits_for_memory_and_one_larger_than_the_budget_for_all_of_it() {
        let budget = ResponseBudget::new(3 << 20);
        let first = budget.charge(2000 << 10).await;
        assert!(budget.try_charge(200 << 10).is_none() && !first.has_waiting());
        let later = budget.clone();
        let waits = tokio::spawn(async move { later.charge(5 << 20).await });
        while !first.has_waiting() {
            tokio::task::yield_now().await;
        }
        assert!(budget.try_charge(SMALL).is_some(), "small ones do not wait behind it");
        assert!(!waits.is_finished());
        drop(first);
        let all = waits.await.unwrap();
        assert_eq!((budget.held(), all.has_waiting()), (2 << 20, false));
        assert!(budget.try_charge(0).is_some());
        let mut shrinks = all;
        shrinks.shrink(1 << 20);
        assert_eq!(budget.held(), 1 << 20);
        shrinks.shrink(2 << 20);
        assert_eq!(budget.held(), 1 << 20);
    }
}
