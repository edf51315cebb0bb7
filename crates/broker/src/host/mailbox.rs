//! The queue of messages for the state machine.

use super::lock::{Machine, MachineLock};
use super::sync::{Arc, AtomicUsize, Ordering};
use super::{HostGone, Message};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::Notify;

/// A machine of any type, so that the queue does not depend on what handles its messages.
pub(super) type AnyMachine = Box<dyn Machine + Send>;

/// Who runs the state machine when a message is queued.
#[derive(Clone, Debug)]
pub(super) enum Wakeup {
    /// A driver, which is notified (simulation).
    Driver(Arc<Notify>),
    /// The thread that queues the message.
    Lock(Arc<MachineLock<AnyMachine>>),
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
    /// Queues a message, and runs the state machine unless another thread does, or notifies the driver.
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
fn run(lock: &MachineLock<AnyMachine>) -> std::thread::Result<()> {
    let result = catch_unwind(AssertUnwindSafe(|| lock.run()));
    if result.is_err() {
        lock.wake_timer_thread();
    }
    result
}
