//! Producers that wait for room in the tail, in the order in which they came.

use super::submission::ProduceSubmission;
use super::tail::Tail;
use std::collections::VecDeque;

/// A Produce that waits.
pub(super) struct Waiter {
    pub(super) submission: Box<ProduceSubmission>,
    /// What it adds to the tail.
    pub(super) brings: Tail,
}

/// The queue.
pub(super) struct WaitingProduces {
    queue: VecDeque<Waiter>,
    bytes: u64,
    /// Bytes that may wait. They are charged to the budget of all requests, of which other requests need the rest.
    most: u64,
}

impl WaitingProduces {
    pub(super) fn new(most: u64) -> WaitingProduces {
        WaitingProduces { queue: VecDeque::new(), bytes: 0, most }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Lets it wait, or gives it back if too much waits already.
    pub(super) fn push(&mut self, waiter: Waiter) -> Option<Waiter> {
        self.forget_gone();
        if !self.queue.is_empty() && self.bytes.saturating_add(waiter.brings.bytes) > self.most {
            return Some(waiter);
        }
        self.bytes += waiter.brings.bytes;
        self.queue.push_back(waiter);
        None
    }

    /// The first in the queue, if there is room for it. Requests whose callers gave up are dropped.
    pub(super) fn pop_if(&mut self, takes: impl Fn(Tail) -> bool) -> Option<Waiter> {
        self.forget_gone();
        self.queue.front().filter(|first| takes(first.brings))?;
        let first = self.queue.pop_front()?;
        self.bytes -= first.brings.bytes;
        Some(first)
    }

    fn forget_gone(&mut self) {
        while self.queue.front().is_some_and(|first| first.submission.caller.is_closed()) {
            let gone = self.queue.pop_front();
            self.bytes -= gone.map_or(0, |gone| gone.brings.bytes);
        }
    }

    /// Drops all of them: their callers see that the host is gone.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{NoRoom, ProduceOutcome};
    use ottla_core::partitions::Produce;
    use ottla_core::transactions::TransactionCheck;
    use tokio::sync::oneshot;

    fn waiter(bytes: u64) -> (Waiter, oneshot::Receiver<Result<ProduceOutcome, NoRoom>>) {
        let (caller, receiver) = oneshot::channel();
        let produce = Produce { transactional_id: None, check: TransactionCheck::Add, batches: Vec::new() };
        let submission = Box::new(ProduceSubmission { produce, caller, traced: None });
        (Waiter { submission, brings: Tail { bytes, batches: 1 } }, receiver)
    }

    #[test]
    fn they_leave_in_order_and_who_gave_up_holds_up_nobody() {
        let mut waiting = WaitingProduces::new(100);
        let (first, gone) = waiter(60);
        let (second, _kept) = waiter(30);
        let (third, _kept_too) = waiter(80);
        assert!(waiting.push(first).is_none() && waiting.push(second).is_none());
        assert!(waiting.pop_if(|brings| brings.bytes <= 40).is_none(), "the second must not overtake");
        let third = waiting.push(third).unwrap();
        drop(gone);
        assert_eq!(waiting.pop_if(|brings| brings.bytes <= 40).unwrap().brings.bytes, 30);
        assert!(waiting.push(third).is_none());
    }
}
