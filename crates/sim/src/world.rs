//! The shared state of a run: the time, the trace, the history, and the connections to the broker.

use crate::ledger::Ledger;
use crate::order::Order;
use crate::pipe::{self, Reader, Writer};
use crate::place::{IN, LOG, OUT, Place};
use crate::plan::Plan;
use crate::random::Random;
use crate::trace::Trace;
use ottla_broker::StreamServer;
use ottla_checker::{History, Key};
use ottla_wire::Uuid;
use std::fmt::Arguments;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

/// The current broker, if there is one.
#[derive(Debug)]
struct Open {
    server: StreamServer,
    connections: Vec<AbortHandle>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    start: Instant,
    loud: bool,
    pub(crate) trace: Mutex<Trace>,
    history: Mutex<History>,
    /// Anomalies that only the simulator can see.
    findings: Mutex<Vec<String>>,
    open: Mutex<Option<Open>>,
    orders: UnboundedSender<Order>,
    ids: Mutex<Vec<Uuid>>,
    /// No more faults are injected.
    calm: AtomicBool,
    /// A clock jumped, so that any timer may have expired.
    jumped: AtomicBool,
    /// The process of the broker is paused.
    paused: AtomicBool,
    connections: AtomicU64,
    values: AtomicU64,
    stamps: AtomicU64,
    zombies: Mutex<Vec<JoinHandle<()>>>,
    /// What was written to the compacted topic.
    pub(crate) table: Mutex<Ledger>,
    pub(crate) figures: Figures,
}

/// Counts of what happened: a run without events proves nothing.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) requests: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) ghosts: AtomicU64,
    pub(crate) lives: AtomicU64,
    pub(crate) power: AtomicU64,
    pub(crate) compared: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) aborts: AtomicU64,
    pub(crate) fenced: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) audits: AtomicU64,
    pub(crate) compacted: AtomicU64,
    /// Bytes that went into runs, each time.
    pub(crate) rewritten: AtomicU64,
    /// Requests that waited for room in the tail.
    pub(crate) waited: AtomicU64,
}

impl World {
    pub(crate) fn new(plan: Plan, text: bool, orders: UnboundedSender<Order>) -> World {
        World {
            plan,
            start: Instant::now(),
            loud: text,
            trace: Mutex::new(Trace::new(text)),
            history: Mutex::new(History::new()),
            findings: Mutex::default(),
            open: Mutex::default(),
            orders,
            ids: Mutex::default(),
            calm: AtomicBool::new(true),
            jumped: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            values: AtomicU64::new(0),
            stamps: AtomicU64::new(0),
            zombies: Mutex::default(),
            table: Mutex::default(),
            figures: Figures::default(),
        }
    }

    /// Milliseconds since the run began.
    pub(crate) fn now(&self) -> u64 {
        Instant::now().duration_since(self.start).as_millis() as u64
    }

    /// A time for the history, in microseconds: no two are the same.
    pub(crate) fn stamp(&self) -> u64 {
        let now = 1000 * self.now();
        let last = self.stamps.fetch_update(Relaxed, Relaxed, |last| Some(now.max(last + 1)));
        now.max(last.unwrap_or(0) + 1)
    }

    pub(crate) fn say(&self, words: Arguments<'_>) {
        hold(&self.trace).words(self.now(), words);
    }

    pub(crate) fn note(&self, place: u64, bytes: &[u8]) {
        hold(&self.trace).bytes(self.now(), place, bytes);
    }

    /// Whether the text of the trace is kept.
    pub(crate) fn is_loud(&self) -> bool {
        self.loud
    }

    pub(crate) fn remark(&self, words: Arguments<'_>) {
        hold(&self.trace).remark(self.now(), words);
    }

    /// Something that must not be.
    pub(crate) fn find(&self, what: String) {
        self.say(format_args!("FOUND {what}"));
        hold(&self.findings).push(what);
    }

    pub(crate) fn findings(&self) -> Vec<String> {
        hold(&self.findings).clone()
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        hold(&self.history)
    }

    pub(crate) fn key(&self, place: Place) -> Key {
        self.history().key(&format!("{}/{}", place.name(), place.partition))
    }

    /// All partitions of all topics that keep what is written.
    pub(crate) fn places(&self) -> Vec<Place> {
        let partitions = self.plan.partitions;
        [IN, OUT, LOG]
            .into_iter()
            .flat_map(|topic| (0..partitions).map(move |partition| Place { topic, partition }))
            .collect()
    }

    pub(crate) fn topic_id(&self, topic: usize) -> Uuid {
        hold(&self.ids).get(topic).copied().unwrap_or_default()
    }

    pub(crate) fn set_topic_ids(&self, ids: Vec<Uuid>) {
        *hold(&self.ids) = ids;
    }

    /// A number for a value that was never written before.
    pub(crate) fn fresh(&self) -> u64 {
        self.values.fetch_add(1, Relaxed)
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Relaxed)
    }

    pub(crate) fn set_calm(&self, calm: bool) {
        self.calm.store(calm, Relaxed);
    }

    pub(crate) fn jumped(&self) -> bool {
        self.jumped.load(Relaxed)
    }

    pub(crate) fn set_jumped(&self) {
        self.jumped.store(true, Relaxed);
    }

    /// Whether the broker is there to be struck.
    pub(crate) fn is_up(&self) -> bool {
        hold(&self.open).is_some() && !self.paused.load(Relaxed)
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Relaxed);
    }

    /// Gives an order to the machine. Once the run is over it has no effect.
    pub(crate) fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// A client continues that has a successor.
    pub(crate) fn add_zombie(&self, zombie: JoinHandle<()>) {
        hold(&self.zombies).push(zombie);
    }

    pub(crate) fn zombies(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *hold(&self.zombies))
    }

    /// The broker can be reached.
    pub(crate) fn open(&self, server: StreamServer) {
        *hold(&self.open) = Some(Open { server, connections: Vec::new() });
    }

    /// The broker is gone, and all connections with it.
    pub(crate) fn close(&self) {
        if let Some(open) = hold(&self.open).take() {
            open.connections.iter().for_each(AbortHandle::abort);
        }
    }

    /// A connection to the broker, unless it does not listen.
    pub(crate) fn connect(&self, random: &mut Random) -> Option<(Writer, Reader)> {
        let mut open = hold(&self.open);
        let open = open.as_mut()?;
        let latency = self.plan.latency;
        let (to_broker, at_broker) = pipe::pipe(latency, random.fork());
        let (to_client, at_client) = pipe::pipe(latency, random.fork());
        let number = self.connections.fetch_add(1, Relaxed);
        let peer = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), 1024 + (number % 60_000) as u16));
        let serving = open.server.serve(peer, at_broker, to_client);
        let task = tokio::spawn(async move { drop(serving.await) });
        open.connections.retain(|connection| !connection.is_finished());
        open.connections.push(task.abort_handle());
        Some((to_broker, at_client))
    }

    /// Lets connections finish what is under way.
    pub(crate) fn stop_server(&self) {
        if let Some(open) = &*hold(&self.open) {
            open.server.stop();
        }
    }
}

pub(crate) fn hold<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds one.
pub(crate) fn count(figure: &AtomicU64) {
    figure.fetch_add(1, Relaxed);
}

/// Sleeps for a random time, at least a millisecond, so that a client that retries lets the virtual clock advance.
pub(crate) async fn rest(random: &mut Random, most: u64) {
    let span = random.within(1..most.max(1) + 1);
    tokio::time::sleep(Duration::from_millis(span)).await;
}
