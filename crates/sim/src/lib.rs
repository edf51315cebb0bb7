//! The whole broker, from its connections to its disk, on a virtual clock, network and disk: one thread, one seed. It
//! must not know how the broker decides or keeps anything: it sees what clients see, and compares the live state with
//! the replayed one.
//!
//! A seed gives the sizes, the clients, what they do, and what goes wrong: connections that break, requests that arrive
//! late or twice, clients that crash or continue as zombies, power failures at any call to the disk, after which any
//! part of the unsynced bytes survives, errors, a full disk, clocks that jump. Time is tokio's paused clock, which
//! advances when no task has anything to do. Every seed runs twice, and both runs must leave the same trace before its
//! history is judged.
#![forbid(unsafe_code)]

mod client;
mod exhausted_epochs;
mod fetch;
mod ledger;
mod machine;
mod member;
mod nemesis;
mod order;
mod pipe;
mod place;
mod plan;
mod random;
mod reader;
mod records;
mod sender;
mod table;
mod topic_churn;
mod trace;
mod transactor;
mod transformer;
mod txn;
mod world;

use client::{Care, Client, LATEST};
use machine::Machine;
use order::{Fate, Order};
use ottla_wire::messages::CreateTopicsRequest;
use ottla_wire::messages::create_topics_request::CreatableTopic;
use place::{TABLE, TOPICS};
use plan::{Plan, ms};
use random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use transformer::Manner;
use world::{Figures, World, hold};

/// The longest that the clients work, in virtual time.
const LONGEST: Duration = Duration::from_secs(1200);

/// The result of a seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// A checksum of the trace, in which two runs must agree.
    pub hash: u64,
    /// The anomalies, as text. Empty if there are none.
    pub findings: Vec<String>,
    /// How much happened, by name.
    pub figures: Vec<(&'static str, u64)>,
    /// The trace as text, if it was requested, with the plan as the first line.
    pub lines: Vec<String>,
}

/// Runs a seed twice and judges it.
pub fn run(seed: u64) -> Report {
    let mut first = run_once(seed, false);
    let second = run_once(seed, false);
    if first.hash != second.hash {
        let (one, other) = (first.hash, second.hash);
        first.findings.insert(0, format!("two runs differ: {one:016x} and {other:016x}"));
    }
    first
}

/// Runs a seed once and judges it; `text` keeps what happened as lines.
///
/// # Panics
/// The system gives no timer, which it always does.
pub fn run_once(seed: u64, text: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(play(seed, text)),
        Err(error) => Report {
            seed,
            hash: 0,
            findings: vec![format!("no runtime: {error}")],
            figures: Vec::new(),
            lines: Vec::new(),
        },
    }
}

async fn play(seed: u64, text: bool) -> Report {
    let mut random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let (orders, received) = unbounded_channel();
    let world = Arc::new(World::new(Plan::of(seed), text, orders));
    let machine = Machine::new(Arc::clone(&world), random.fork(), received);
    let mut machine = tokio::spawn(machine.run());
    create_topics(&world, &mut random).await;
    world.set_calm(false);
    work(&world, &mut random).await;
    world.set_calm(true);
    world.order(Order::Empty);
    if world.jumped() {
        // The next life begins with a correct clock.
        world.order(Order::End(Fate::Stopped));
    }
    // Requests in flight arrive.
    sleep(ms(2 * LATEST)).await;
    if timeout(ms(24 * 3_600_000), reader::drain(&world, &mut random)).await.is_err() {
        world.find("the drain does not come to an end".to_owned());
    }
    table::settle(&world, &mut random).await;
    world.order(Order::End(Fate::Stopped));
    sleep(ms(2000)).await;
    world.order(Order::End(Fate::Over));
    if timeout(ms(60_000), &mut machine).await.is_err() {
        world.find("the machine does not come to an end".to_owned());
        machine.abort();
    }
    report(&world)
}

/// Runs the clients and the faults until all operations are done.
async fn work(world: &Arc<World>, random: &mut Random) {
    let crew = world.plan.crew;
    let mut clients = JoinSet::new();
    for number in 0..crew.senders {
        clients.spawn(sender::run(Arc::clone(world), number, random.fork()));
    }
    for number in 0..crew.transactors {
        clients.spawn(transactor::run(Arc::clone(world), number, random.fork()));
    }
    for number in 0..crew.transformers {
        clients.spawn(transformer::run(Arc::clone(world), number, Manner::Alone, random.fork()));
    }
    for number in 0..crew.members {
        clients.spawn(transformer::run(Arc::clone(world), number, Manner::Member, random.fork()));
    }
    for number in 0..crew.readers {
        clients.spawn(reader::run(Arc::clone(world), number, random.fork()));
    }
    for number in 0..crew.consumers {
        clients.spawn(reader::consume(Arc::clone(world), number, random.fork()));
    }
    for number in 0..crew.topic_churn {
        clients.spawn(topic_churn::run(Arc::clone(world), number, random.fork()));
    }
    let nemesis = tokio::spawn(nemesis::run(Arc::clone(world), random.fork()));
    for number in 0..crew.table_writers {
        clients.spawn(table::keep(Arc::clone(world), number, random.fork()));
    }
    if crew.table_writers > 0 {
        clients.spawn(table::audit(Arc::clone(world), random.fork()));
    }
    let all = async {
        while let Some(done) = clients.join_next().await {
            note_panic(world, done.err());
        }
        for zombie in world.zombies() {
            note_panic(world, zombie.await.err());
        }
    };
    if timeout(LONGEST, all).await.is_err() {
        world.say(format_args!("the clients are stopped"));
        clients.abort_all();
    }
    nemesis.abort();
}

fn note_panic(world: &World, error: Option<tokio::task::JoinError>) {
    if let Some(error) = error
        && error.is_panic()
    {
        world.find(format!("a client of the simulator panicked: {error}"));
    }
}

async fn create_topics(world: &Arc<World>, random: &mut Random) {
    let mut client = Client::new(world, "founder".to_owned(), random.fork());
    let topics = TOPICS.iter().map(|name| CreatableTopic {
        name: (*name).into(),
        num_partitions: world.plan.partitions,
        replication_factor: 1,
        configs: if *name == TOPICS[TABLE] { table::configs(&world.plan) } else { Vec::new() },
        ..Default::default()
    });
    let request = CreateTopicsRequest { topics: topics.collect(), timeout_ms: 5000, ..Default::default() };
    let until = Instant::now() + Duration::from_secs(60);
    let ids = match client.settle(&request, 7, Care::Strict, until).await {
        Ok(settled) => settled.answer.topics.iter().map(|topic| topic.topic_id).collect(),
        Err(_) => Vec::new(),
    };
    if ids.len() != TOPICS.len() {
        world.find("the topics cannot be created".to_owned());
    }
    world.set_topic_ids(ids);
}

fn report(world: &World) -> Report {
    let mut findings = world.findings();
    let history = world.history();
    findings.extend(ottla_checker::check(&history).iter().map(ToString::to_string));
    let mut trace = hold(&world.trace);
    let mut lines = vec![format!("{:?}", world.plan)];
    lines.append(&mut trace.take_lines());
    let mut figures = figures(&world.figures);
    figures.push(("events", trace.events()));
    figures.push(("virtual ms", world.now()));
    Report { seed: world.plan.seed, hash: trace.hash(), findings, figures, lines }
}

fn figures(figures: &Figures) -> Vec<(&'static str, u64)> {
    let get = |figure: &AtomicU64| figure.load(Relaxed);
    vec![
        ("requests", get(&figures.requests)),
        ("lost answers", get(&figures.lost)),
        ("repeated requests", get(&figures.ghosts)),
        ("lives of the broker", get(&figures.lives)),
        ("power failures", get(&figures.power)),
        ("states compared", get(&figures.compared)),
        ("commits", get(&figures.commits)),
        ("aborts", get(&figures.aborts)),
        ("fenced", get(&figures.fenced)),
        ("fetches of readers", get(&figures.reads)),
        ("audits of the table", get(&figures.audits)),
        ("rows seen compacted", get(&figures.compacted)),
        ("bytes rewritten", get(&figures.rewritten)),
        ("requests that waited for room", get(&figures.waited)),
    ]
}
