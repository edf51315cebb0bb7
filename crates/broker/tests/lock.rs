//! The lock of the state machine under loom: every order of its steps, up to a number of preemptions. A message that is
//! left unhandled leaves its submitter waiting, which loom reports as a deadlock.
//!
//! To see the tests fail, replace the fence and the look at the count after the unlock in `MachineLock::run` by
//! `return`. This was done once by hand: both tests with two submitters failed, each within a second.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../src/host/lock.rs"]
mod lock;

/// What the lock gets in place of the primitives of the standard library.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering, fence};
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use std::sync::{Arc, OnceLock};

    /// A thread that can be woken: like std's, it keeps one wake-up that comes before the sleep. Loom's own forgets a
    /// wake-up that comes while the thread waits for a lock.
    #[derive(Clone)]
    pub(super) struct Thread(Arc<(Mutex<bool>, Condvar)>);

    impl Thread {
        pub(super) fn unpark(&self) {
            *self.0.0.lock().unwrap() = true;
            self.0.1.notify_one();
        }
    }

    loom::thread_local! {
        static CURRENT: Thread = Thread(Arc::new((Mutex::new(false), Condvar::new())));
    }

    pub(super) fn current_thread() -> Thread {
        CURRENT.with(Thread::clone)
    }

    /// Timers never fire: only an explicit wake-up ends the sleep.
    pub(super) fn park_timeout(_: std::time::Duration) {
        let Thread(park) = current_thread();
        let mut woken = park.0.lock().unwrap();
        while !*woken {
            woken = park.1.wait(woken).unwrap();
        }
        *woken = false;
    }
}

use lock::{Machine, MachineLock, Run};
use std::time::Duration;
use sync::{Arc, AtomicUsize, Condvar, Mutex, Ordering};

/// A message: its submitter waits for the reply.
#[derive(Default)]
struct Message {
    handled: Mutex<bool>,
    reply: Condvar,
}

enum Item {
    Message(Arc<Message>),
    Stop,
}

/// A machine that replies to each message.
struct Replies {
    queue: Arc<Mutex<Vec<Item>>>,
    waiting: Arc<AtomicUsize>,
}

impl Machine for Replies {
    fn run(&mut self) -> Run {
        loop {
            let item = self.queue.lock().unwrap().pop();
            let Some(item) = item else {
                if self.waiting.load(Ordering::Relaxed) > 0 {
                    // A message is on its way into the queue: loom must let its submitter go on.
                    loom::thread::yield_now();
                }
                return Run::Continues(None);
            };
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            match item {
                Item::Stop => return Run::Ended,
                Item::Message(message) => {
                    *message.handled.lock().unwrap() = true;
                    message.reply.notify_one();
                }
            }
        }
    }

    fn sleep(&mut self) -> (Duration, i64) {
        (Duration::MAX, i64::MAX)
    }

    fn finish(&mut self) {}
}

#[derive(Clone)]
struct Host {
    lock: Arc<MachineLock<Replies>>,
    queue: Arc<Mutex<Vec<Item>>>,
}

impl Host {
    fn send(&self, item: Item) {
        self.lock.waiting().fetch_add(1, Ordering::Relaxed);
        self.queue.lock().unwrap().push(item);
        self.lock.run();
    }

    /// Submits a message and waits for its reply.
    fn submit(&self) {
        let message = Arc::new(Message::default());
        self.send(Item::Message(Arc::clone(&message)));
        let mut handled = message.handled.lock().unwrap();
        while !*handled {
            handled = message.reply.wait(handled).unwrap();
        }
    }
}

/// Submitters, one of them the thread of the test, each with one message; then the machine is stopped.
fn check(submitters: usize, runs_in_a_row: usize, preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let lock = Arc::new(MachineLock::new(runs_in_a_row));
        let queue = Arc::new(Mutex::new(Vec::new()));
        lock.install(Replies { queue: Arc::clone(&queue), waiting: Arc::clone(lock.waiting()) });
        let host = Host { lock: Arc::clone(&lock), queue };
        let timers = loom::thread::spawn(move || lock.run_timers());
        let others: Vec<_> = (1..submitters)
            .map(|_| {
                let host = host.clone();
                loom::thread::spawn(move || host.submit())
            })
            .collect();
        host.submit();
        others.into_iter().for_each(|other| other.join().unwrap());
        host.send(Item::Stop);
        timers.join().unwrap();
    });
}

#[test]
fn a_message_is_handled_while_the_timer_thread_runs() {
    check(1, 8, 3);
}

#[test]
fn messages_of_two_threads_are_handled() {
    check(2, 8, 2);
}

#[test]
fn a_submitter_that_has_run_often_enough_leaves_the_rest_to_the_timer_thread() {
    check(2, 1, 2);
}
