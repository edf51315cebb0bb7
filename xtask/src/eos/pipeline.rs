//! A filler, workers and a broker, and the kills and pauses of them.

use super::Options;
use super::broker::Broker;
use super::programs::{Client, Scene};
use crate::program::Running;
use std::time::{Duration, Instant};

/// The topic that is filled, the topic that the workers write, and the workers' group.
pub(crate) const INPUT: &str = "eos-input";
pub(crate) const OUTPUT: &str = "eos-output";
pub(crate) const GROUP: &str = "eos-group";
/// The topic of the mixers.
pub(crate) const MIX: &str = "eos-mix";

/// How far the input may be ahead of the output, in records: enough that no worker is ever idle.
const AHEAD: u64 = 600;
/// How many records are asked for at once.
const PORTION: u64 = 50;
/// A pipeline in which nothing moves for so long is broken. Longer than a session and a transaction may take to time
/// out.
const STUCK: Duration = Duration::from_secs(60);
/// A pause that outlasts a session (6 s) and a transaction (8 s), in milliseconds.
const LONG_PAUSE: u64 = 8500;
/// How long a worker that resumes after its successor took over may run before it is ended: it should be fenced.
const ZOMBIE: Duration = Duration::from_secs(5);

/// What was done to the pipeline.
#[derive(Clone, Copy, Default)]
pub(crate) struct Deeds {
    pub(crate) broker_kills: u64,
    /// Of those, kills while the broker recovered from the one before.
    pub(crate) double_kills: u64,
    pub(crate) broker_pauses: u64,
    pub(crate) worker_kills: u64,
    pub(crate) worker_pauses: u64,
    /// Paused workers whose successor was running when they resumed.
    pub(crate) zombies: u64,
    /// Workers that ended by themselves, because their client could not continue, and were started again.
    pub(crate) restarts: u64,
}

impl Deeds {
    /// Adds those of another round.
    pub(crate) fn add(&mut self, other: Deeds) {
        self.broker_kills += other.broker_kills;
        self.double_kills += other.double_kills;
        self.broker_pauses += other.broker_pauses;
        self.worker_kills += other.worker_kills;
        self.worker_pauses += other.worker_pauses;
        self.zombies += other.zombies;
        self.restarts += other.restarts;
    }
}

/// The task of a worker process.
#[derive(Clone, Copy)]
enum Role {
    /// Moves records, in this slot.
    Work(u32),
    /// Mixes sends, polls and transactions.
    Mix(u32),
}

/// A member of the crew.
struct Hand {
    role: Role,
    running: Running,
    /// When it may go on, if it is paused.
    paused: Option<Instant>,
}

/// All running processes.
pub(crate) struct Pipeline<'a> {
    options: &'a Options,
    scene: &'a Scene,
    random: fastrand::Rng,
    pub(crate) broker: Broker,
    filler: Running,
    crew: Vec<Hand>,
    /// Paused workers that were replaced, with the time at which they wake.
    sleepers: Vec<(Running, Instant)>,
    /// Back again, until then.
    zombies: Vec<(Running, Instant)>,
    /// How many values were asked for; they are numbered from 0.
    pub(crate) fed: u64,
    fed_at: Instant,
    pub(crate) deeds: Deeds,
}

impl<'a> Pipeline<'a> {
    /// Starts the filler and the crew.
    pub(crate) fn start(
        options: &'a Options,
        scene: &'a Scene,
        broker: Broker,
        random: fastrand::Rng,
    ) -> Result<Pipeline<'a>, String> {
        let partitions = options.partitions.to_string();
        let filler =
            scene.start(options.client.filler(), "fill", &["fill", &scene.bootstrap, INPUT, &partitions])?;
        let mut pipeline = Pipeline {
            options,
            scene,
            random,
            broker,
            filler,
            crew: Vec::new(),
            sleepers: Vec::new(),
            zombies: Vec::new(),
            fed: 0,
            fed_at: Instant::now(),
            deeds: Deeds::default(),
        };
        let roles = (0..options.workers).map(Role::Work).chain((0..options.mixers).map(Role::Mix));
        for role in roles {
            let running = pipeline.begin(role)?;
            pipeline.crew.push(Hand { role, running, paused: None });
        }
        Ok(pipeline)
    }

    fn begin(&mut self, role: Role) -> Result<Running, String> {
        let seed = self.random.u64(..u64::MAX).to_string();
        let bootstrap = &self.scene.bootstrap;
        match role {
            // The last one is a dynamic member, whose death the group notices when its session times out; the others
            // are static members, whose successors take over at once.
            Role::Work(slot) => {
                let kind = if slot + 1 == self.options.workers { "dynamic" } else { "static" };
                let slot = slot.to_string();
                let words = ["work", bootstrap, INPUT, OUTPUT, GROUP, &slot, kind, &seed];
                self.scene.start(self.options.client, &format!("work-{slot}"), &words)
            }
            Role::Mix(slot) => {
                let (slot, others) = (slot.to_string(), format!("{INPUT},{OUTPUT}"));
                let words = ["mix", bootstrap, MIX, &others, &slot, &seed];
                self.scene.start(Client::Librdkafka, &format!("mix-{slot}"), &words)
            }
        }
    }

    /// Keeps the pipeline full and does something to it after every so many records that were moved.
    pub(crate) fn run_with_kills(&mut self, kills: u64) -> Result<(), String> {
        // Nothing is killed before the pipeline moves: the first portion of work is not part of any gap.
        self.progress(1)?;
        for kill in 0..kills {
            let gap = 1 + self.random.u64(..=2 * self.options.gap);
            self.progress(gap)?;
            std::thread::sleep(Duration::from_millis(self.random.u64(..20)));
            self.disturb(kill)?;
            self.kill_broker()?;
        }
        self.progress(1 + self.options.gap)
    }

    /// Waits until so many more records were moved.
    fn progress(&mut self, records: u64) -> Result<(), String> {
        let mut last = self.scene.ledger.moved();
        let (goal, mut moved_at) = (last + records, Instant::now());
        while last < goal {
            self.feed(last)?;
            self.watch()?;
            let now = self.scene.ledger.moved();
            if now > last {
                (last, moved_at) = (now, Instant::now());
            }
            if moved_at.elapsed() > STUCK {
                return Err(format!("no record was moved for {} s", STUCK.as_secs()));
            }
        }
        Ok(())
    }

    /// Asks for more records when the workers may run dry. A worker that was killed after a commit did not say so;
    /// hence more also after a while.
    fn feed(&mut self, moved: u64) -> Result<(), String> {
        let hungry = self.fed < moved + AHEAD || self.fed_at.elapsed() > Duration::from_millis(500);
        if hungry {
            self.filler.say(&PORTION.to_string())?;
            self.fed += PORTION;
            self.fed_at = Instant::now();
        }
        Ok(())
    }

    /// What happens besides the kill of the broker. The first two times it is one kill and one pause of a worker, so
    /// that few kills test both.
    fn disturb(&mut self, number: u64) -> Result<(), String> {
        match if number < 2 { number } else { self.random.u64(..12) } {
            0 | 2 => self.kill_worker(),
            1 | 3 => self.pause_worker(),
            4 if self.random.u64(..2) == 0 => self.pause_broker(),
            _ => Ok(()),
        }
    }

    fn kill_broker(&mut self) -> Result<(), String> {
        self.deeds.broker_kills += 1;
        self.broker.kill();
        while self.random.u64(..3) == 0 {
            let after = Duration::from_millis(self.random.u64(..15));
            if self.broker.stumble(after)? {
                self.deeds.broker_kills += 1;
                self.deeds.double_kills += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(self.random.u64(..200)));
        self.broker.restart()
    }

    fn pause_broker(&mut self) -> Result<(), String> {
        self.deeds.broker_pauses += 1;
        let long = self.random.u64(..3) == 0;
        let time = if long { LONG_PAUSE } else { 100 } + self.random.u64(..1000);
        self.broker.pause(Duration::from_millis(time));
        // It also has to live on.
        self.progress(1)
    }

    fn kill_worker(&mut self) -> Result<(), String> {
        self.deeds.worker_kills += 1;
        let old = self.replace()?;
        // Sometimes both run at once: then the old one must be fenced, and no record may be duplicated.
        if self.random.u64(..3) == 0 {
            std::thread::sleep(Duration::from_millis(self.random.u64(..800)));
        }
        old.kill();
        Ok(())
    }

    /// Puts another worker in the place of one, and returns the old one.
    fn replace(&mut self) -> Result<Running, String> {
        let place = self.random.u64(..self.crew.len() as u64) as usize;
        let next = self.begin(self.crew[place].role)?;
        self.crew[place].paused = None;
        Ok(std::mem::replace(&mut self.crew[place].running, next))
    }

    /// Stops one of the crew for a while, short or longer than its session and its transaction last; sometimes another
    /// worker takes its place meanwhile.
    fn pause_worker(&mut self) -> Result<(), String> {
        self.deeds.worker_pauses += 1;
        let long = self.random.u64(..2) == 0;
        let time = if long { LONG_PAUSE } else { 0 } + self.random.u64(..2000);
        let until = Instant::now() + Duration::from_millis(time);
        if self.random.u64(..2) == 0 {
            self.deeds.zombies += 1;
            let old = self.replace()?;
            old.pause();
            self.sleepers.push((old, until));
        } else {
            let place = self.random.u64(..self.crew.len() as u64) as usize;
            let hand = &mut self.crew[place];
            hand.running.pause();
            hand.paused = Some(until);
        }
        Ok(())
    }

    /// Resumes the workers whose pause is over, and ends zombies whose time is over.
    fn wake(&mut self, now: Instant) {
        for hand in &mut self.crew {
            if hand.paused.is_some_and(|until| until <= now) {
                hand.running.resume();
                hand.paused = None;
            }
        }
        for (sleeper, _) in self.sleepers.extract_if(.., |(_, until)| *until <= now) {
            sleeper.resume();
            self.zombies.push((sleeper, now + ZOMBIE));
        }
        for (zombie, _) in self.zombies.extract_if(.., |(_, until)| *until <= now) {
            zombie.kill();
        }
    }

    /// Starts workers anew that gave up.
    fn revive(&mut self) -> Result<(), String> {
        for place in 0..self.crew.len() {
            if self.crew[place].running.has_ended()? {
                self.deeds.restarts += 1;
                if self.deeds.restarts > 50 + 10 * self.deeds.broker_kills {
                    return Err("the workers do not stay alive".to_owned());
                }
                let running = self.begin(self.crew[place].role)?;
                let hand = &mut self.crew[place];
                (hand.running, hand.paused) = (running, None);
            }
        }
        Ok(())
    }

    /// Lets everything be moved.
    pub(crate) fn drain(&mut self) -> Result<(), String> {
        self.filler.close();
        while !self.filler.has_ended()? {
            self.watch()?;
        }
        let (scene, seconds) = (self.scene, STUCK.as_secs().to_string());
        let words = ["drained", &scene.bootstrap, GROUP, INPUT, &seconds];
        let mut drained = scene.start(Client::FranzGo, "drained", &words)?;
        while !drained.has_ended()? || !self.sleepers.is_empty() || !self.zombies.is_empty() {
            self.watch()?;
        }
        let good = |what: &str, e: String| format!("{what} {e}");
        self.filler.finish(STUCK).map_err(|e| good("the filler", e))?;
        drained.finish(STUCK).map_err(|e| good("the input is not consumed; drained", e))?;
        Ok(())
    }

    /// Ends the workers cleanly.
    pub(crate) fn dismiss(&mut self) {
        self.sleepers.clear();
        self.zombies.clear();
        for hand in &mut self.crew {
            hand.running.resume();
            // One that gives up now may leave a transaction open, which has to time out: the readers wait for that.
            self.deeds.restarts += u64::from(hand.running.finish(STUCK).is_err());
        }
    }

    /// The checks and restarts that are due while waiting.
    fn watch(&mut self) -> Result<(), String> {
        self.wake(Instant::now());
        self.revive()?;
        self.broker.check()?;
        std::thread::sleep(Duration::from_millis(2));
        Ok(())
    }
}
