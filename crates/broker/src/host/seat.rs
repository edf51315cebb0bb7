//! Whoever has something for the machine turns it himself, if it is free: the task that asks, the log's writer when a group is
//! durable. So an answer costs no hand-over to a thread of the machine's own and back. If the machine is busy, the command stays
//! in the mailbox, and whoever turns the machine handles it before he leaves.
//!
//! ```text
//!   put the command into the mailbox
//!   the machine is busy ──▶ leave: its holder looks into the mailbox after he let go
//!   else turn it, let go; something in the mailbox again ──▶ once more
//! ```
//!
//! The host's thread only keeps the time: it sleeps until the next timer is due, and it ends the machine.

use super::clock::Clock;
use super::thread::Machine;
use super::{HostGone, Message};
use ottla_types::Millis;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::Thread;
use tokio::sync::Notify;

/// Turns that a task or the log's writer takes in a row: what comes in meanwhile is others' and could go on for ever, while the
/// task's own connection, or the next group, waits.
const MOST_TURNS: usize = 8;

/// Where commands are put for a machine.
#[derive(Clone, Debug)]
pub(super) struct Mailbox {
    commands: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    told: Told,
}

/// Who is told of a command.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// The caller who turns the machine.
    Caller(Arc<Notify>),
    /// Nobody: whoever puts it there turns the machine.
    Seat(Arc<Seat>),
}

/// The other end of a mailbox.
pub(super) struct Inbox {
    commands: Receiver<Message>,
    waiting: Arc<AtomicUsize>,
}

/// A mailbox and its other end.
pub(super) fn mailbox(told: Told) -> (Mailbox, Inbox) {
    let (sender, receiver) = channel();
    let waiting = match &told {
        Told::Caller(_) => Arc::default(),
        Told::Seat(seat) => Arc::clone(&seat.waiting),
    };
    let inbox = Inbox { commands: receiver, waiting: Arc::clone(&waiting) };
    (Mailbox { commands: sender, waiting, told }, inbox)
}

impl Inbox {
    /// The next command, if there is one.
    pub(super) fn next(&self) -> Option<Message> {
        let command = self.commands.try_recv().ok()?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(command)
    }
}

impl Mailbox {
    /// Puts a command there and sees to it that it is handled.
    pub(super) fn send(&self, command: Message) -> Result<(), HostGone> {
        self.put(command)?;
        match &self.told {
            Told::Caller(caller) => caller.notify_one(),
            Told::Seat(seat) => seat.turn().unwrap_or_else(|panic| resume_unwind(panic)),
        }
        Ok(())
    }

    /// Puts a command there of which a caller hears when he takes his next turn anyway.
    pub(super) fn report(&self, command: Message) {
        // A host that is gone wants no reports.
        if let (Ok(()), Told::Seat(seat)) = (self.put(command), &self.told) {
            // A turn that panics ends the machine, not the thread of the log that reports.
            let _ = seat.turn();
        }
    }

    fn put(&self, command: Message) -> Result<(), HostGone> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.commands.send(command).map_err(|_| HostGone)
    }
}

/// The machine's place.
pub(super) struct Seat {
    machine: Mutex<Option<Machine>>,
    clock: Clock,
    /// Commands in the mailbox, or on their way into it.
    waiting: Arc<AtomicUsize>,
    /// Nobody turns the machine any more.
    over: AtomicBool,
    keeper: OnceLock<Thread>,
    /// When the keeper looks at the timers by himself.
    alarm: AtomicI64,
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat")
            .field("waiting", &self.waiting)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

impl Seat {
    pub(super) fn new(clock: Clock) -> Seat {
        Seat {
            machine: Mutex::new(None),
            clock,
            waiting: Arc::default(),
            over: AtomicBool::new(false),
            keeper: OnceLock::new(),
            alarm: AtomicI64::new(i64::MAX),
        }
    }

    /// Puts the machine there. From now on [`Seat::keep`] must run.
    pub(super) fn take(&self, machine: Machine) {
        *self.machine.lock().unwrap_or_else(PoisonError::into_inner) = Some(machine);
    }

    /// Turns the machine until nothing is left to do, unless somebody else is at it; when a turn panics, the keeper clears up.
    fn turn(&self) -> std::thread::Result<()> {
        let turned = catch_unwind(AssertUnwindSafe(|| self.turn_for_a_while()));
        if turned.is_err() {
            self.wake_keeper();
        }
        turned
    }

    /// Who has done enough for others leaves the rest to the keeper.
    fn turn_for_a_while(&self) {
        for _ in 0..MOST_TURNS {
            if self.over.load(Ordering::Acquire) {
                return;
            }
            // The command is there before the look at the machine, and the holder lets go before his look at the commands.
            fence(Ordering::SeqCst);
            match self.machine.try_lock() {
                Err(TryLockError::WouldBlock) => return,
                // A turn has panicked.
                Err(TryLockError::Poisoned(_)) => return self.wake_keeper(),
                Ok(mut machine) => match self.turn_once(&mut machine) {
                    Some(true) => {}
                    Some(false) => return self.wake_keeper(),
                    // There is none yet, or none any more.
                    None => return,
                },
            }
            fence(Ordering::SeqCst);
            if self.waiting.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
        self.wake_keeper();
    }

    /// One turn. False when it was the last; none without a machine.
    fn turn_once(&self, machine: &mut MutexGuard<'_, Option<Machine>>) -> Option<bool> {
        let machine = machine.as_mut()?;
        let now = self.clock.now();
        machine.set_wall_offset(now, self.clock.wall_offset(now));
        let goes_on = machine.turn_at(now);
        if !goes_on {
            self.over.store(true, Ordering::Release);
        } else if machine
            .next_timer()
            .is_some_and(|due| now < due && due.0 < self.alarm.load(Ordering::Relaxed))
        {
            self.wake_keeper();
        }
        Some(goes_on)
    }

    fn wake_keeper(&self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.unpark();
        }
    }

    /// The body of the host's thread.
    pub(super) fn keep(&self) {
        // The thread is the only one to be the keeper.
        let _ = self.keeper.set(std::thread::current());
        let _ending = Ending(self);
        while !self.over.load(Ordering::Acquire)
            && let Ok(mut guard) = self.machine.lock()
            && self.turn_once(&mut guard) == Some(true)
            && let Some(machine) = guard.as_mut()
        {
            let now = self.clock.now();
            let patience = machine.patience(now);
            let alarm = now.after(Millis(i64::try_from(patience.as_millis()).unwrap_or(i64::MAX)));
            self.alarm.store(alarm.0, Ordering::Relaxed);
            drop(guard);
            fence(Ordering::SeqCst);
            if self.waiting.load(Ordering::Relaxed) == 0 {
                std::thread::park_timeout(patience);
            }
        }
    }

    /// Takes the machine away: whoever still waits for an answer hears that the host is gone.
    fn end(&self) {
        self.over.store(true, Ordering::Release);
        let (machine, panicked) = match self.machine.lock() {
            Ok(mut guard) => (guard.take(), false),
            Err(poisoned) => (poisoned.into_inner().take(), true),
        };
        // After a panic nobody knows what its state is: nothing more is said.
        if let Some(mut machine) = machine.filter(|_| !panicked) {
            machine.finish();
        }
    }
}

/// Ends the machine with the keeper, also when the keeper's own turn panics.
struct Ending<'a>(&'a Seat);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
