//! The lock of the state machine.
//!
//! The thread that submits a message runs the state machine itself if it can take the lock: the task of a connection,
//! or the log's writer thread when a group has become durable. So a reply needs no hand-over to another thread and
//! back. If another thread holds the lock, the message stays in the queue, and that thread handles it before or after
//! it releases the lock.
//!
//! ```text
//!              lock taken               unlock                     no message waits
//!   submit ───────────────▶ running ─────────────▶ released ──────────────────────────▶ done
//!      │                       ▲                    │     │
//!      │ lock held elsewhere   └────────────────────┘     │ a message waits, and this thread has run
//!      │                         a message waits          │ the machine often enough
//!      ▼                                                  ▼
//!    done: the holder looks at the count               wake the timer thread: done
//!    of waiting messages after it unlocks
//! ```
//!
//! No message is left unhandled: a submitter counts its message before it tries the lock, and a holder unlocks before
//! it looks at the count, with a sequentially consistent fence between the two steps on either side. So the submitter
//! gets the lock, or the holder sees the message.
//!
//! The timer thread sleeps until the next timer is due, runs the machine then or when it is woken, and ends the
//! machine.
//!
//! This file uses its synchronisation primitives by way of the parent's module `sync`, so that a test can run it in
//! every order of its steps (crates/broker/tests/lock.rs).

use super::sync::{
    Arc, AtomicBool, AtomicI64, AtomicUsize, Mutex, MutexGuard, OnceLock, Ordering, Thread, current_thread,
    fence, park_timeout,
};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

/// A state machine that threads run in turn.
pub(super) trait Machine {
    /// Handles the messages that wait and the timers that are due.
    fn run(&mut self) -> Run;

    /// How long nothing needs to be done without a message, and the time at which that ends, in milliseconds.
    fn sleep(&mut self) -> (Duration, i64);

    /// Ends in good order.
    fn finish(&mut self);
}

impl<M: Machine + ?Sized> Machine for Box<M> {
    fn run(&mut self) -> Run {
        (**self).run()
    }

    fn sleep(&mut self) -> (Duration, i64) {
        (**self).sleep()
    }

    fn finish(&mut self) {
        (**self).finish();
    }
}

/// The outcome of a run.
pub(super) enum Run {
    /// The machine continues. Its next timer is due at this time in milliseconds; none if there is none, or if it is
    /// due already.
    Continues(Option<i64>),
    /// It was the last run.
    Ended,
}

/// A state machine, the count of its waiting messages, and its timer thread.
pub(super) struct MachineLock<M> {
    machine: Mutex<Option<M>>,
    /// Messages in the queue, or on their way into it.
    waiting: Arc<AtomicUsize>,
    /// True once the machine has ended.
    ended: AtomicBool,
    timer_thread: OnceLock<Thread>,
    /// When the timer thread wakes up on its own, in milliseconds.
    alarm: AtomicI64,
    /// Runs that a submitter does in a row. New messages keep coming from others, and its own connection, or the next
    /// group of the log, must not wait for them.
    runs_in_a_row: usize,
}

impl<M> std::fmt::Debug for MachineLock<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MachineLock")
            .field("waiting", &self.waiting)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> MachineLock<M> {
    /// A lock without a machine: messages wait until [`MachineLock::install`].
    pub(super) fn new(runs_in_a_row: usize) -> MachineLock<M> {
        MachineLock {
            machine: Mutex::new(None),
            waiting: Arc::new(AtomicUsize::new(0)),
            ended: AtomicBool::new(false),
            timer_thread: OnceLock::new(),
            alarm: AtomicI64::new(i64::MAX),
            runs_in_a_row,
        }
    }

    /// The count of waiting messages: a submitter raises it before it queues a message, the machine lowers it when it
    /// takes one.
    pub(super) fn waiting(&self) -> &Arc<AtomicUsize> {
        &self.waiting
    }

    /// Gives the lock its machine. From now on [`MachineLock::run_timers`] must run in a thread of its own.
    pub(super) fn install(&self, machine: M) {
        *self.machine.lock().unwrap_or_else(PoisonError::into_inner) = Some(machine);
    }

    /// Runs the machine after a message was queued, unless another thread holds the lock.
    pub(super) fn run(&self) {
        for _ in 0..self.runs_in_a_row {
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            // The message is counted before the lock is tried.
            fence(Ordering::SeqCst);
            match self.machine.try_lock() {
                Err(TryLockError::WouldBlock) => return,
                // A run has panicked: the timer thread ends the machine.
                Err(TryLockError::Poisoned(_)) => return self.wake_timer_thread(),
                Ok(mut machine) => match self.run_once(&mut machine) {
                    Some(true) => {}
                    Some(false) => return self.wake_timer_thread(),
                    // It is not installed yet, or it has ended.
                    None => return,
                },
            }
            // The lock is released before the count is read.
            fence(Ordering::SeqCst);
            if self.waiting.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
        self.wake_timer_thread();
    }

    /// One run. False if the machine ended; none without a machine.
    fn run_once(&self, machine: &mut MutexGuard<'_, Option<M>>) -> Option<bool> {
        // With the lock held, the end that another thread has stored is visible.
        if self.ended.load(Ordering::Acquire) {
            return Some(false);
        }
        match machine.as_mut()?.run() {
            Run::Ended => {
                self.ended.store(true, Ordering::Release);
                Some(false)
            }
            Run::Continues(next_timer) => {
                if next_timer.is_some_and(|due| due < self.alarm.load(Ordering::Relaxed)) {
                    self.wake_timer_thread();
                }
                Some(true)
            }
        }
    }

    /// Wakes the timer thread, if it has started; it runs the machine when it starts anyway.
    pub(super) fn wake_timer_thread(&self) {
        if let Some(thread) = self.timer_thread.get() {
            thread.unpark();
        }
    }

    /// The body of the timer thread. Returns when the machine has ended.
    pub(super) fn run_timers(&self) {
        // No other thread calls this.
        let _ = self.timer_thread.set(current_thread());
        let _end = EndOnDrop(self);
        while !self.ended.load(Ordering::Acquire)
            && let Ok(mut guard) = self.machine.lock()
            && self.run_once(&mut guard) == Some(true)
            && let Some(machine) = guard.as_mut()
        {
            let (span, alarm) = machine.sleep();
            self.alarm.store(alarm, Ordering::Relaxed);
            drop(guard);
            fence(Ordering::SeqCst);
            if self.waiting.load(Ordering::Relaxed) == 0 {
                park_timeout(span);
            }
        }
    }

    /// Takes the machine away. Callers that still await a reply see that the host is gone.
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        let (machine, panicked) = match self.machine.lock() {
            Ok(mut guard) => (guard.take(), false),
            Err(poisoned) => (poisoned.into_inner().take(), true),
        };
        // After a panic the state is unknown: no reply is sent any more.
        if let Some(mut machine) = machine.filter(|_| !panicked) {
            machine.finish();
        }
    }
}

/// Ends the machine with the timer thread, also if a run of that thread panics.
struct EndOnDrop<'a, M: Machine>(&'a MachineLock<M>);

impl<M: Machine> Drop for EndOnDrop<'_, M> {
    fn drop(&mut self) {
        self.0.end();
    }
}
