//! Bytes that requests of all connections may hold together.
//!
//! A request pays before it is read, in steps that stay in proportion to what has arrived, so that announcing costs nothing.
//! A large one may hold no more than an eighth of what it leaves to others, so that peers which send half a large request and
//! stop leave room for small ones; and while somebody waits, such peers are given little time. Large requests that wait could
//! wait for each other for ever; therefore a part as large as the largest request is set aside for one of them at a time,
//! which then always completes. Its memory is taken from that for recent groups of the log while it lasts.

use crate::Limits;
use ottla_store::{Loan, LogReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// A large request may hold this part of what it leaves.
const SHARE: usize = 8;

/// The budget of a server.
#[derive(Debug)]
pub(crate) struct Budget {
    total: usize,
    common: Arc<Common>,
    /// Whoever holds this one may read to its end without paying.
    turn: Arc<Semaphore>,
    /// Bytes of the largest request.
    largest: usize,
    /// Who lends the memory for it.
    lender: Option<LogReader>,
}

#[derive(Debug)]
struct Common {
    left: AtomicUsize,
    waiting: AtomicUsize,
    freed: Notify,
}

/// Counts a request among those that wait, as long as it lives.
struct Waiting<'a>(&'a Common);

impl Waiting<'_> {
    fn new(common: &Common) -> Waiting<'_> {
        common.waiting.fetch_add(1, Relaxed);
        Waiting(common)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

/// What one request holds of the budget; given back when dropped.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    paid: Option<(Arc<Common>, usize)>,
    turn: Option<OwnedSemaphorePermit>,
    /// What is borrowed while it is its turn.
    loan: Option<Loan>,
}

impl Budget {
    /// The budget of a server with these limits.
    pub(crate) fn of(limits: &Limits, lender: Option<LogReader>) -> Arc<Budget> {
        let budget = Budget::new(limits.max_queued_bytes, limits.max_request_bytes);
        Arc::new(Budget { lender, ..budget })
    }

    pub(crate) fn new(total: usize, largest: usize) -> Budget {
        let total = total.saturating_sub(largest);
        let left = AtomicUsize::new(total);
        let common = Arc::new(Common { left, waiting: AtomicUsize::new(0), freed: Notify::new() });
        Budget { total, common, turn: Arc::new(Semaphore::new(1)), largest, lender: None }
    }

    /// Pays for the first bytes of a request, waiting until there are some.
    pub(crate) async fn admit(&self, charge: &mut Charge, bytes: usize) {
        let _waiting = Waiting::new(&self.common);
        loop {
            // Made before the attempt, so that nothing that is freed after it is missed.
            let freed = self.common.freed.notified();
            if charge.pay(&self.common, bytes, |_| true) {
                return;
            }
            freed.await;
        }
    }

    /// Pays for bytes that are not needed yet, if there are plenty and nobody waits.
    pub(crate) fn try_pay(&self, charge: &mut Charge, bytes: usize) -> bool {
        let fair = |left| left >= self.total / 2;
        !self.is_wanted() && charge.pay(&self.common, bytes, fair)
    }

    /// Pays for more bytes of a large request, waiting until there are some or it is its turn.
    pub(crate) async fn pay(&self, charge: &mut Charge, bytes: usize) {
        if charge.turn.is_some() {
            return;
        }
        let fair = charge.paid() + bytes;
        let _waiting = Waiting::new(&self.common);
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
                    charge.loan = self.lender.as_ref().map(|lender| lender.borrow_memory(self.largest));
                    return;
                }
            }
        }
    }

    /// True while a request waits for others to give back what they hold.
    pub(crate) fn is_wanted(&self) -> bool {
        self.common.waiting.load(Relaxed) > 0
    }

    /// Bytes that all requests may hold, but for the one whose turn it is.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Bytes that are held now.
    pub(crate) fn held(&self) -> usize {
        self.total.saturating_sub(self.common.left.load(Relaxed))
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.common.left.load(Relaxed)
    }
}

impl Charge {
    fn paid(&self) -> usize {
        self.paid.as_ref().map_or(0, |(_, paid)| *paid)
    }

    /// Pays if there are enough bytes, and if it is fair to pay when so many are left.
    fn pay(&mut self, common: &Arc<Common>, bytes: usize, fair: impl Fn(usize) -> bool) -> bool {
        let take = |left: usize| left.checked_sub(bytes).filter(|after| fair(*after));
        if common.left.fetch_update(Relaxed, Relaxed, take).is_err() {
            return false;
        }
        self.paid = Some((Arc::clone(common), self.paid() + bytes));
        true
    }
}

impl Drop for Charge {
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
        let budget = Budget::new(1000, 100);
        let mut charges = [Charge::default(), Charge::default()];
        for charge in &mut charges {
            budget.admit(charge, 60).await;
        }
        let [first, second] = &mut charges;
        budget.pay(first, 40).await;
        assert!(first.turn.is_some(), "it would hold more than an eighth of what is left, so it is its turn");
        assert!(!budget.is_wanted());
        {
            let waiting = budget.pay(second, 40);
            tokio::pin!(waiting);
            assert!(waits(&mut waiting).await, "the second waits");
            assert!(budget.is_wanted());
            *first = Charge::default();
            waiting.await;
        }
        *second = Charge::default();
        assert_eq!((budget.left(), budget.is_wanted()), (900, false));
    }

    #[tokio::test]
    async fn peers_that_stop_half_way_leave_room_for_small_requests() {
        let budget = Budget::new(2 << 20, 1 << 20);
        let mut held: Vec<Charge> = Vec::new();
        for _ in 0..20 {
            let mut charge = Charge::default();
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
