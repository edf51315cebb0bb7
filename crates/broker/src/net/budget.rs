//! Bytes that requests of all connections may hold together.
//!
//! A request pays before it is read, in steps that stay in proportion to what has arrived, so that announcing costs nothing.
//! When the budget is spent, requests that are half read could wait for each other for ever; therefore a part as large as the
//! largest request is set aside for one of them at a time, which then always completes.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The budget of a server.
#[derive(Debug)]
pub(crate) struct Budget {
    common: Arc<Semaphore>,
    /// Whoever holds this one may read to its end without paying.
    turn: Arc<Semaphore>,
}

/// What one request holds of the budget; given back when dropped.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    paid: Option<OwnedSemaphorePermit>,
    turn: Option<OwnedSemaphorePermit>,
}

impl Budget {
    pub(crate) fn new(total: usize, largest: usize) -> Budget {
        let common = total.saturating_sub(largest).min(Semaphore::MAX_PERMITS);
        Budget { common: Arc::new(Semaphore::new(common)), turn: Arc::new(Semaphore::new(1)) }
    }

    /// Pays for more bytes, waiting until there are some.
    pub(crate) async fn pay(&self, charge: &mut Charge, bytes: usize) {
        if charge.turn.is_some() {
            return;
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Ok(permit) = Arc::clone(&self.common).try_acquire_many_owned(bytes) {
            charge.add(permit);
            return;
        }
        // Neither semaphore is ever closed, so both give a permit in the end.
        tokio::select! {
            Ok(permit) = Arc::clone(&self.common).acquire_many_owned(bytes) => charge.add(permit),
            Ok(turn) = Arc::clone(&self.turn).acquire_owned() => charge.turn = Some(turn),
            else => {}
        }
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.common.available_permits()
    }
}

impl Charge {
    fn add(&mut self, permit: OwnedSemaphorePermit) {
        match &mut self.paid {
            Some(paid) => paid.merge(permit),
            None => self.paid = Some(permit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_of_several_half_read_requests_always_completes() {
        let budget = Budget::new(300, 100);
        let mut charges = [Charge::default(), Charge::default(), Charge::default()];
        for charge in &mut charges {
            budget.pay(charge, 60).await;
        }
        assert_eq!(budget.left(), 20);
        let [first, second, third] = &mut charges;
        budget.pay(first, 40).await;
        assert!(first.turn.is_some(), "the first to find the budget spent has its turn");
        {
            let waiting = budget.pay(second, 40);
            tokio::pin!(waiting);
            let pending =
                std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending()));
            assert!(pending.await, "the second waits");
            *first = Charge::default();
            waiting.await;
        }
        *second = Charge::default();
        budget.pay(third, 40).await;
        *third = Charge::default();
        assert_eq!(budget.left(), 200);
    }
}
