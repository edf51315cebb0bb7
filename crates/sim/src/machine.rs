//! The machine: a disk that may fail, a clock that may jump, and one life of the broker after the other.

use crate::exhausted_epochs;
use crate::order::{Fate, Order};
use crate::pipe::Latency;
use crate::plan::ms;
use crate::random::Random;
use crate::world::{World, count};
use ottla_broker::host::{self, DrivenHost, Host};
use ottla_broker::{AdvertisedAddress, Context, ContextOptions, Randomness, StreamServer};
use ottla_store::LogReader;
use ottla_store::testing::{Fault, FaultMedium};
use ottla_types::record::LogRecord;
use ottla_types::{LogPosition, Millis};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, sleep_until};

/// The log is written in blocks of this size.
const BLOCK: u64 = 4096;
/// The wall clock when a run begins.
const EPOCH: i64 = 1_700_000_000_000;
/// How often a broker on a full disk looks for room.
const LOOK_FOR_ROOM: Duration = Duration::from_millis(200);

/// The most that a clock is set back from the furthest that it was ahead. Timeouts that began before end that much
/// later, and the end of a run waits for them.
const FURTHEST_BACK: i64 = 7_200_000;

/// The clock of a life: it starts at any time and then runs steadily.
#[derive(Clone, Copy)]
struct Wall {
    base: i64,
    since: Instant,
}

impl Wall {
    fn now(self) -> Millis {
        Millis(self.base + self.since.elapsed().as_millis() as i64)
    }
}

/// The state at the end of the log at some moment.
struct Dump {
    end: LogPosition,
    rows: Vec<LogRecord>,
}

/// The machine and its state between lives.
pub(crate) struct Machine {
    world: Arc<World>,
    random: Random,
    medium: FaultMedium,
    wall: Wall,
    /// How far the clock was set forward since the beginning, negative for back; and the furthest that it was ahead.
    set: i64,
    furthest: i64,
    /// How far the wall clock is ahead of the steady clock of this life.
    wall_offset: Millis,
    orders: UnboundedReceiver<Order>,
    dumps: Vec<Dump>,
    watching: bool,
    full: bool,
    /// What ends the broker when a snapshot is complete, and whether one is being taken.
    end_at_snapshot: Option<Fate>,
    taking: bool,
}

impl Machine {
    pub(crate) fn new(world: Arc<World>, mut random: Random, orders: UnboundedReceiver<Order>) -> Machine {
        let medium = FaultMedium::new(random.next());
        let wall = Wall { base: EPOCH, since: Instant::now() };
        Machine {
            world,
            random,
            medium,
            wall,
            set: 0,
            furthest: 0,
            wall_offset: Millis(0),
            orders,
            dumps: Vec::new(),
            watching: false,
            full: false,
            end_at_snapshot: None,
            taking: false,
        }
    }

    /// Runs one broker after the other until the end of the run.
    pub(crate) async fn run(mut self) {
        if self.world.plan.exhausted_epochs
            && let Err(why) =
                exhausted_epochs::write_log(&self.medium, &self.world.plan, &mut self.random, Millis(EPOCH))
        {
            self.world.find(format!("the log of an earlier broker cannot be written: {why}"));
        }
        loop {
            let fate = match self.start() {
                Some(driven) => self.live(driven).await,
                // A log that does not open was reported: another attempt would add nothing.
                None if !self.world.findings().is_empty() => Fate::Over,
                None => Fate::Power,
            };
            self.world.say(format_args!("machine: {fate:?}"));
            match fate {
                Fate::Over => return,
                // A log that leaves syncs to the system does not promise to survive a power failure.
                Fate::Power if !self.world.plan.lazy => {
                    count(&self.world.figures.power);
                    self.medium = self.medium.crash();
                }
                Fate::Power | Fate::Killed | Fate::Stopped => self.medium = self.medium.restart(),
            }
            self.wall = self.next_wall();
            sleep(ms(self.random.within(1..400))).await;
        }
    }

    /// The clock of the next life, which begins with the wall clock as it stands: it may have been set meanwhile.
    fn next_wall(&mut self) -> Wall {
        let Millis(ahead) = std::mem::replace(&mut self.wall_offset, Millis(0));
        let mut base = self.wall.now().0 + ahead;
        self.set += ahead;
        if self.world.is_calm() && self.set < self.furthest {
            // The operator sets the clock: no time that was recorded lies ahead of it any more.
            base += self.furthest - self.set;
            self.set = self.furthest;
            self.world.say(format_args!("machine: the clock is set right"));
        }
        if self.world.plan.faults.clock && !self.world.is_calm() && self.random.per_mille(300) {
            let jump = self.random.pick(&[-7_200_000, -60_000, -1000, 1000, 60_000, 7_200_000]);
            let jump = self.bounded(jump);
            self.set += jump;
            self.furthest = self.furthest.max(self.set);
            base += jump;
            self.world.say(format_args!("machine: the clock jumps by {jump} ms"));
            self.world.set_jumped();
        }
        Wall { base, since: Instant::now() }
    }

    /// How far to set the clock: to the furthest again instead of too far back.
    fn bounded(&self, jump: i64) -> i64 {
        if self.set + jump < self.furthest - FURTHEST_BACK { self.furthest - self.set } else { jump }
    }

    /// Sets the wall clock while the broker runs, as a correction or a suspend does; the steady clock does not notice.
    fn step_wall_clock(&mut self) {
        if self.world.is_calm() {
            // The operator sets the clock: no time that was recorded lies ahead of it any more.
            self.wall_offset = Millis(self.furthest - self.set);
        } else if self.world.plan.faults.clock && self.random.per_mille(2) {
            let offset = self.random.pick(&[-7_200_000, -1000, 0, 1000, 7_200_000]);
            let offset = self.bounded(offset);
            self.wall_offset = Millis(offset);
            self.furthest = self.furthest.max(self.set + offset);
            self.world.say(format_args!("machine: the wall clock is {offset} ms ahead"));
            self.world.set_jumped();
        }
    }

    /// Opens the log. None if the disk failed meanwhile.
    fn start(&mut self) -> Option<DrivenHost> {
        if !self.world.is_calm() && self.random.per_mille(100) {
            let at = self.medium.steps() + self.random.within(1..60);
            self.medium.fail_at(at, Fault::Crash);
        }
        let opened = host::drive(Arc::new(self.medium.clone()), self.world.plan.host(), self.wall.now());
        match opened {
            Ok(driven) => {
                count(&self.world.figures.lives);
                self.compare(&driven);
                Some(driven)
            }
            Err(error) => {
                self.world.say(format_args!("machine: the log does not open: {error}"));
                if self.medium.is_alive() && !self.full {
                    self.world.find(format!("the log does not open: {error}"));
                }
                // It may have written a new group where one was lost, so equal positions no longer mean equal logs.
                self.dumps.clear();
                self.full = false;
                self.medium.set_capacity(u64::MAX);
                None
            }
        }
    }

    /// Compares the replayed state with the live state at the same end of the log.
    fn compare(&mut self, driven: &DrivenHost) {
        let recovered = driven.recovered();
        let end = recovered.end.0;
        self.world.say(format_args!(
            "machine: a life begins at {end}, snapshot {:?}, {} records, cut {}",
            recovered.snapshot.map(|at| at.0),
            recovered.records,
            recovered.torn.is_some()
        ));
        let same = self.dumps.iter().rev().find(|dump| dump.end.0.next_multiple_of(BLOCK) == end);
        if let Some(dump) = same {
            count(&self.world.figures.compared);
            let replayed = driven.shard().snapshot();
            if let Some(difference) = difference(&dump.rows, &replayed) {
                self.world.find(format!("replay differs from live at {end}: {difference}"));
            }
        }
        self.dumps.clear();
        (self.watching, self.end_at_snapshot, self.taking) = (false, None, false);
    }

    /// One life of the broker, to its end.
    async fn live(&mut self, mut driven: DrivenHost) -> Fate {
        let randomness = Randomness::seeded(self.random.next());
        let opening = open(Arc::clone(&self.world), driven.host().clone(), driven.reader(), randomness);
        let opening = tokio::spawn(opening);
        let fate = self.turn_until_end(&mut driven).await;
        opening.abort();
        self.count_rewriting(&driven);
        if matches!(fate, Fate::Stopped | Fate::Over) {
            self.world.stop_server();
            self.dump(&driven);
            driven.finish();
            self.world.close();
            // A clean stop writes an empty group.
            if let Some(dump) = self.dumps.last() {
                let end = LogPosition(dump.end.0.next_multiple_of(BLOCK) + BLOCK);
                let rows = dump.rows.clone();
                self.dumps.push(Dump { end, rows });
            }
            return fate;
        }
        // A broker that was killed writes nothing: the log must not flush when it is dropped.
        if self.medium.is_alive() && driven.ends().0 == driven.ends().1 {
            self.dump(&driven);
        }
        self.medium = self.medium.restart();
        self.world.close();
        fate
    }

    /// Counts the bytes that went into runs. A job must not fail on a disk without faults.
    fn count_rewriting(&self, driven: &DrivenHost) {
        let (metrics, figures) = (driven.host().metrics(), &self.world.figures);
        figures.rewritten.fetch_add(metrics.rewritten.get(), Relaxed);
        figures.waited.fetch_add(metrics.waited.get(), Relaxed);
        let faults = self.world.plan.faults;
        let failed = metrics.rewrites_failed.get();
        if failed > 0 && !faults.disk_errors && !faults.disk_full && self.medium.is_alive() {
            self.world.find(format!("runs could not be written {failed} times"));
        }
    }

    async fn turn_until_end(&mut self, driven: &mut DrivenHost) -> Fate {
        let wake = Arc::clone(driven.wake());
        let mut due: Option<Instant> = None;
        loop {
            self.step_wall_clock();
            driven.set_wall_offset(self.wall.now(), self.wall_offset);
            let goes_on = driven.turn(self.wall.now());
            if !self.medium.is_alive() {
                return Fate::Power;
            }
            if let Some(why) = driven.failure() {
                self.world.say(format_args!("machine: the log failed: {why}"));
                return if self.random.per_mille(500) { Fate::Killed } else { Fate::Power };
            }
            if !goes_on {
                return Fate::Stopped;
            }
            if let Some(fate) = self.fate_at_snapshot(driven) {
                return fate;
            }
            if due.is_none() && driven.has_work() {
                due = Some(Instant::now() + self.disk_delay());
            }
            if due.is_none() && self.full {
                due = Some(Instant::now() + LOOK_FOR_ROOM);
            }
            let patience = driven.patience(self.wall.now());
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    None => return Fate::Over,
                    Some(Order::End(fate)) => return fate,
                    Some(Order::Pause(span)) => {
                        self.world.say(format_args!("machine: pauses for {span} ms"));
                        self.world.set_paused(true);
                        sleep(ms(span)).await;
                        self.world.set_paused(false);
                    }
                    Some(order) => self.execute(order),
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    due = None;
                    self.write(driven);
                    self.world.note(1, &driven.ends().1.0.to_le_bytes());
                }
                () = wake.notified() => {}
                () = sleep(patience) => {}
            }
        }
    }

    /// The planned end of the broker, if a snapshot has just become complete.
    fn fate_at_snapshot(&mut self, driven: &DrivenHost) -> Option<Fate> {
        let taking = driven.is_taking_snapshot();
        let whole = std::mem::replace(&mut self.taking, taking) && !taking;
        if whole { self.end_at_snapshot.take() } else { None }
    }

    /// Runs the writing threads of the broker, at random speeds.
    fn write(&mut self, driven: &mut DrivenHost) {
        if self.watching {
            self.dump(driven);
        }
        if self.random.per_mille(300) {
            driven.do_chores();
        }
        driven.write_snapshot();
        // The next piece is then taken from a state that is further ahead of the durable log.
        if driven.is_taking_snapshot() && self.random.per_mille(500) {
            return;
        }
        match self.random.within(0..8) {
            // The write takes a while, and more records arrive meanwhile.
            0 => return driven.begin_group(),
            1 | 2 => driven.write_group(),
            _ => driven.write_log(),
        }
        if !self.random.per_mille(self.world.plan.slow_jobs) {
            driven.write_runs();
        }
    }

    fn disk_delay(&mut self) -> Duration {
        let Latency { usual, slow } = self.world.plan.disk;
        if self.random.per_mille(slow) && !self.world.is_calm() {
            return ms(self.random.within(20..2000));
        }
        ms(self.random.within(0..usual + 1))
    }

    fn execute(&mut self, order: Order) {
        self.world.say(format_args!("machine: {order:?}"));
        match order {
            Order::Watch => self.watching = true,
            Order::Disk(after, fault) => {
                self.watching |= fault == Fault::Crash;
                self.medium.fail_at(self.medium.steps() + after, fault);
            }
            Order::CrashAtFile(naming, prefix, after) => {
                self.medium.fail_after(naming, prefix, after, Fault::Crash)
            }
            Order::EndAtSnapshot(fate) => self.end_at_snapshot = Some(fate),
            Order::Fill(spare) => {
                self.medium.set_spare(spare);
                self.full = true;
            }
            Order::Empty => {
                self.medium.set_capacity(u64::MAX);
                self.full = false;
            }
            Order::End(_) | Order::Pause(_) => {}
        }
    }

    fn dump(&mut self, driven: &DrivenHost) {
        self.dumps.push(Dump { end: driven.ends().0, rows: driven.shard().snapshot() });
    }
}

/// Lets clients reach the broker as soon as its host answers.
async fn open(world: Arc<World>, host: Host, reader: LogReader, randomness: Randomness) {
    let advertised = AdvertisedAddress { host: "broker".to_owned(), port: 9092 };
    let options = ContextOptions { randomness, ..ContextOptions::new(advertised, "memory") };
    if let Ok(context) = Context::new(host, reader, options).await {
        world.open(StreamServer::new(context));
        world.say(format_args!("machine: open, life {}", world.figures.lives.load(Relaxed)));
    }
}

/// The first snapshot row in which two states differ.
fn difference(live: &[LogRecord], replayed: &[LogRecord]) -> Option<String> {
    let place = (0..live.len().max(replayed.len())).find(|row| live.get(*row) != replayed.get(*row))?;
    Some(format!("row {place}: live {:?}, replayed {:?}", live.get(place), replayed.get(place)))
}
