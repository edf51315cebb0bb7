//! The queue of messages for the state machine.

use super::clock::Clock;
use super::lock::{self, MachineLock, Run};
use super::machine::Machine;
use super::sync::{Arc, AtomicUsize, Ordering};
use super::{HostGone, Message};
use ottla_types::Millis;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::sync::Notify;

/// The state machine with the clock that it runs by.
pub(super) struct ClockedMachine {
    pub(super) machine: Machine,
    pub(super) clock: Clock,
}

impl lock::Machine for ClockedMachine {
    fn run(&mut self) -> Run {
        let now = self.clock.now();
        self.machine.set_wall_offset(now, self.clock.wall_offset(now));
        if !self.machine.run_at(now) {
            return Run::Ended;
        }
        let next_timer = self.machine.next_timer().filter(|due| now < *due);
        Run::Continues(next_timer.map(|due| due.0))
    }

    fn sleep(&mut self) -> (Duration, i64) {
        let now = self.clock.now();
        let span = self.machine.idle_time(now);
        (span, now.after(Millis(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))).0)
    }

    fn finish(&mut self) {
        self.machine.finish();
    }
}

/// Who runs the state machine when a message is queued.
#[derive(Clone, Debug)]
pub(super) enum Wakeup {
    /// A driver, which is notified (simulation).
    Driver(Arc<Notify>),
    /// The thread that queues the message.
    Lock(Arc<MachineLock<ClockedMachine>>),
}

/// The sender's end of the queue.
#[derive(Clone, Debug)]
pub(super) struct Mailbox {
    messages: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    wakeup: Wakeup,
}

/// The state machine's end of the queue.
pub(super) struct Inbox {
    messages: Receiver<Message>,
    waiting: Arc<AtomicUsize>,
}

/// An empty queue.
pub(super) fn mailbox(wakeup: Wakeup) -> (Mailbox, Inbox) {
    let (sender, receiver) = channel();
    let waiting = match &wakeup {
        Wakeup::Driver(_) => Arc::default(),
        Wakeup::Lock(lock) => Arc::clone(lock.waiting()),
    };
    let inbox = Inbox { messages: receiver, waiting: Arc::clone(&waiting) };
    (Mailbox { messages: sender, waiting, wakeup }, inbox)
}

impl Inbox {
    /// The next message, if there is one.
    pub(super) fn next(&self) -> Option<Message> {
        let message = self.messages.try_recv().ok()?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(message)
    }
}

impl Mailbox {
    /// Queues a message and has it handled.
    pub(super) fn send(&self, message: Message) -> Result<(), HostGone> {
        self.queue(message)?;
        match &self.wakeup {
            Wakeup::Driver(driver) => driver.notify_one(),
            Wakeup::Lock(lock) => run(lock).unwrap_or_else(|panic| resume_unwind(panic)),
        }
        Ok(())
    }

    /// Queues a message of the host's own threads. A driver handles it with its next run, without being notified.
    pub(super) fn report(&self, message: Message) {
        // A host that is gone needs no reports.
        if let (Ok(()), Wakeup::Lock(lock)) = (self.queue(message), &self.wakeup) {
            // A run that panics ends the machine, not the thread that reports.
            let _ = run(lock);
        }
    }

    fn queue(&self, message: Message) -> Result<(), HostGone> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.messages.send(message).map_err(|_| HostGone)
    }
}

/// Runs the machine. If a run panics, the timer thread ends the machine.
fn run(lock: &MachineLock<ClockedMachine>) -> std::thread::Result<()> {
    let result = catch_unwind(AssertUnwindSafe(|| lock.run()));
    if result.is_err() {
        lock.wake_timer_thread();
    }
    result
}
