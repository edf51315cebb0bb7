//! The memory budget of requests: the bytes that requests of all connections may hold together.
//!
//! - A request pays before it is read, in steps proportional to the bytes that have arrived. A client that only
//!   announces a large request therefore takes no memory.
//! - A large request may hold at most an eighth of what it leaves free. Clients that send half of a large request and
//!   stop therefore leave memory for small requests. While a request waits for memory, such clients get less time.
//! - Large requests that wait for each other could deadlock. One turn exists that lets a request read to its end
//!   without paying, so one of them always completes. The memory for the turn, as much as the largest request takes, is
//!   set aside from the budget, and is borrowed from the log's cache of recent groups while the turn is taken.

use crate::Limits;
use ottla_store::{LogReader, MemoryReservation};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// A large request may hold one part in this many of what it leaves free.
const SHARE: usize = 8;

/// The budget of a broker.
#[derive(Debug)]
pub(crate) struct RequestBudget {
    total: usize,
    common: Arc<Common>,
    /// The request that holds this permit may read to its end without paying.
    turn: Arc<Semaphore>,
    /// Size of the largest request, in bytes.
    largest: usize,
    /// Lends the memory for the turn.
    lender: Option<LogReader>,
}

#[derive(Debug)]
struct Common {
    left: AtomicUsize,
    waiting: AtomicUsize,
    freed: Notify,
}

/// Counts a waiting request, until dropped.
struct RequestWait<'a>(&'a Common);

impl RequestWait<'_> {
    fn new(common: &Common) -> RequestWait<'_> {
        common.waiting.fetch_add(1, Relaxed);
        RequestWait(common)
    }
}

impl Drop for RequestWait<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

/// The bytes that one request has paid. Dropping it returns them.
#[derive(Debug, Default)]
pub(crate) struct RequestCharge {
    paid: Option<(Arc<Common>, usize)>,
    turn: Option<OwnedSemaphorePermit>,
    /// The memory borrowed while the request has the turn.
    reservation: Option<MemoryReservation>,
}

impl RequestBudget {
    /// The budget that `limits` set.
    pub(crate) fn of(limits: &Limits, lender: Option<LogReader>) -> Arc<RequestBudget> {
        let budget = RequestBudget::new(limits.max_queued_bytes, limits.max_request_bytes);
        Arc::new(RequestBudget { lender, ..budget })
    }

    pub(crate) fn new(total: usize, largest: usize) -> RequestBudget {
        let total = total.saturating_sub(largest);
        let left = AtomicUsize::new(total);
        let common = Arc::new(Common { left, waiting: AtomicUsize::new(0), freed: Notify::new() });
        RequestBudget { total, common, turn: Arc::new(Semaphore::new(1)), largest, lender: None }
    }

    /// Pays for the first bytes of a request. Waits until they are available.
    pub(crate) async fn admit(&self, charge: &mut RequestCharge, bytes: usize) {
        let _waiting = RequestWait::new(&self.common);
        loop {
            // Registered before the attempt, so that bytes returned after the attempt wake this task.
            let freed = self.common.freed.notified();
            if charge.pay(&self.common, bytes, |_| true) {
                return;
            }
            freed.await;
        }
    }

    /// Pays for bytes that are not needed yet, if half of the budget stays free and no request waits.
    pub(crate) fn try_pay(&self, charge: &mut RequestCharge, bytes: usize) -> bool {
        let fair = |left| left >= self.total / 2;
        !self.has_waiting() && charge.pay(&self.common, bytes, fair)
    }

    /// Pays for more bytes of a large request. Waits until they are available or the request gets the turn.
    pub(crate) async fn pay(&self, charge: &mut RequestCharge, bytes: usize) {
        if charge.turn.is_some() {
            return;
        }
        let fair = charge.paid() + bytes;
        let _waiting = RequestWait::new(&self.common);
        loop {
            let freed = self.common.freed.notified();
            if charge.pay(&self.common, bytes, |left| fair <= left / SHARE) {
                return;
            }
            tokio::select! {
                biased;
                () = freed => {}
                turn = Arc::clone(&self.turn).acquire_owned() => {
                    // The semaphore is never closed, so this is a permit.
                    charge.turn = turn.ok();
                    charge.reservation = self.lender.as_ref().map(|lender| lender.reserve_memory(self.largest));
                    return;
                }
            }
        }
    }

    /// Whether a request waits for bytes.
    pub(crate) fn has_waiting(&self) -> bool {
        self.common.waiting.load(Relaxed) > 0
    }

    /// Bytes that all requests may hold together, without the request that has the turn.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Bytes that requests hold now.
    pub(crate) fn held(&self) -> usize {
        self.total.saturating_sub(self.common.left.load(Relaxed))
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.common.left.load(Relaxed)
    }
}

impl RequestCharge {
    fn paid(&self) -> usize {
        self.paid.as_ref().map_or(0, |(_, paid)| *paid)
    }

    /// Pays if the bytes are available and `fair` accepts the number of bytes left afterwards.
    fn pay(&mut self, common: &Arc<Common>, bytes: usize, fair: impl Fn(usize) -> bool) -> bool {
        let take = |left: usize| left.checked_sub(bytes).filter(|after| fair(*after));
        if common.left.fetch_update(Relaxed, Relaxed, take).is_err() {
            return false;
        }
        self.paid = Some((Arc::clone(common), self.paid() + bytes));
        true
    }
}

impl Drop for RequestCharge {
    fn drop(&mut self) {
        if let Some((common, paid)) = self.paid.take() {
            common.left.fetch_add(paid, Relaxed);
            common.freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::Poll;

    async fn waits(waiting: &mut Pin<&mut impl Future<Output = ()>>) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn one_of_several_half_read_requests_always_completes() {
        let budget = RequestBudget::new(1000, 100);
        let mut charges = [RequestCharge::default(), RequestCharge::default()];
        for charge in &mut charges {
            budget.admit(charge, 60).await;
        }
        let [first, second] = &mut charges;
        budget.pay(first, 40).await;
        assert!(
            first.turn.is_some(),
            "it would hold more than an eighth of the remaining budget, so it is its turn"
        );
        assert!(!budget.has_waiting());
        {
            let waiting = budget.pay(second, 40);
            tokio::pin!(waiting);
            assert!(waits(&mut waiting).await, "the second waits");
            assert!(budget.has_waiting());
            *first = RequestCharge::default();
            waiting.await;
        }
        *second = RequestCharge::default();
        assert_eq!((budget.left(), budget.has_waiting()), (900, false));
    }

    #[tokio::test]
    async fn half_sent_requests_leave_memory_for_small_ones() {
        let budget = RequestBudget::new(2 << 20, 1 << 20);
        let mut held: Vec<RequestCharge> = Vec::new();
        for _ in 0..20 {
            let mut charge = RequestCharge::default();
            budget.admit(&mut charge, 1 << 10).await;
            while charge.turn.is_none() {
                let waiting = budget.pay(&mut charge, 1 << 10);
                tokio::pin!(waiting);
                if waits(&mut waiting).await {
                    break;
                }
            }
            held.push(charge);
        }
        assert!(budget.left() >= 64 << 10, "left {}", budget.left());
    }
}
