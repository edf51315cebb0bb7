//! A filler, workers and a broker at work, and the hand that kills them.

use std::time::{Duration, Instant};

use super::Options;
use super::broker::Broker;
use super::chance::Chance;
use super::programs::{Client, Running, Scene};

/// The topic that is filled, the topic that the workers write, and the workers' group.
pub(crate) const INPUT: &str = "eos-input";
pub(crate) const OUTPUT: &str = "eos-output";
pub(crate) const GROUP: &str = "eos-group";

/// How far the input may be ahead of the output, in records: enough that no worker is ever idle.
const AHEAD: u64 = 600;
/// How many records are asked for at once.
const PORTION: u64 = 50;
/// A pipeline in which nothing moves for so long is broken. Longer than a session and a transaction may take to time out.
const STUCK: Duration = Duration::from_secs(60);

/// Everything that runs.
pub(crate) struct Pipeline<'a> {
    options: &'a Options,
    scene: &'a Scene,
    chance: Chance,
    pub(crate) broker: Broker,
    filler: Running,
    workers: Vec<Running>,
    /// How many values were asked for; they are numbered from 0.
    pub(crate) fed: u64,
    fed_at: Instant,
    pub(crate) broker_kills: u64,
    pub(crate) worker_kills: u64,
    /// Workers that ended by themselves, because their client could not go on, and were started anew.
    pub(crate) restarts: u64,
}

impl<'a> Pipeline<'a> {
    /// Starts the filler and the workers.
    pub(crate) fn start(
        options: &'a Options,
        scene: &'a Scene,
        broker: Broker,
        chance: Chance,
    ) -> Result<Pipeline<'a>, String> {
        let partitions = options.partitions.to_string();
        let filler = scene.start(options.client, "fill", &["fill", &scene.bootstrap, INPUT, &partitions])?;
        let mut pipeline = Pipeline {
            options,
            scene,
            chance,
            broker,
            filler,
            workers: Vec::new(),
            fed: 0,
            fed_at: Instant::now(),
            broker_kills: 0,
            worker_kills: 0,
            restarts: 0,
        };
        for slot in 0..options.workers {
            let worker = pipeline.worker(slot)?;
            pipeline.workers.push(worker);
        }
        Ok(pipeline)
    }

    /// A worker for this slot. The last one is a dynamic member, whose death the group notices when its session times out; the
    /// others are static members, whose successors take over at once.
    fn worker(&mut self, slot: u32) -> Result<Running, String> {
        let kind = if slot + 1 == self.options.workers { "dynamic" } else { "static" };
        let (slot, seed) = (slot.to_string(), self.chance.below(u64::MAX).to_string());
        let words = ["work", &self.scene.bootstrap, INPUT, OUTPUT, GROUP, &slot, kind, &seed];
        self.scene.start(self.options.client, &format!("work-{slot}"), &words)
    }

    /// Keeps the pipeline full and kills something after every so many records that were moved.
    pub(crate) fn run_with_kills(&mut self) -> Result<(), String> {
        // Nothing is killed before the pipeline moves: the first portion of work is not part of any gap.
        self.progress(1)?;
        for kill in 0..self.options.kills {
            let mean = self.options.records / (self.options.kills + 1);
            let gap = 1 + self.chance.below(2 * mean);
            self.progress(gap)?;
            std::thread::sleep(Duration::from_millis(self.chance.below(20)));
            self.kill(kill)?;
        }
        while self.fed < self.options.records {
            self.progress(PORTION)?;
        }
        Ok(())
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

    /// Asks for more records when the workers may run dry. A worker that was killed after a commit did not say so; hence more
    /// also after a while.
    fn feed(&mut self, moved: u64) -> Result<(), String> {
        let hungry = self.fed < moved + AHEAD || self.fed_at.elapsed() > Duration::from_millis(500);
        if hungry {
            self.filler.say(&PORTION.to_string())?;
            self.fed += PORTION;
            self.fed_at = Instant::now();
        }
        Ok(())
    }

    /// Starts workers anew that gave up.
    fn revive(&mut self) -> Result<(), String> {
        for slot in 0..self.workers.len() {
            if self.workers[slot].has_ended()? {
                self.restarts += 1;
                if self.restarts > 50 + 10 * self.options.kills {
                    return Err("the workers do not stay alive".to_owned());
                }
                self.workers[slot] = self.worker(slot as u32)?;
            }
        }
        Ok(())
    }

    fn kill(&mut self, number: u64) -> Result<(), String> {
        // The first two are one of each kind, so that two kills test both.
        let at_the_broker = if number < 2 { number == 0 } else { self.chance.below(2) == 0 };
        if at_the_broker { self.kill_broker() } else { self.kill_worker() }
    }

    fn kill_broker(&mut self) -> Result<(), String> {
        self.broker_kills += 1;
        self.broker.kill();
        if self.chance.below(3) == 0 {
            let after = Duration::from_millis(self.chance.below(15));
            self.broker.stumble(after)?;
        }
        std::thread::sleep(Duration::from_millis(self.chance.below(200)));
        self.broker.restart()
    }

    fn kill_worker(&mut self) -> Result<(), String> {
        self.worker_kills += 1;
        let slot = self.chance.below(self.workers.len() as u64) as u32;
        let next = self.worker(slot)?;
        let old = std::mem::replace(&mut self.workers[slot as usize], next);
        // Sometimes the two meet: then the old one must be fenced, and nothing may be doubled.
        if self.chance.below(3) == 0 {
            std::thread::sleep(Duration::from_millis(self.chance.below(800)));
        }
        old.kill();
        Ok(())
    }

    /// Lets everything be moved, then ends all programs in peace. Returns how many values were asked for, how many workers gave up,
    /// and the broker.
    pub(crate) fn drain(mut self) -> Result<(u64, u64, Broker), String> {
        self.filler.close();
        while !self.filler.has_ended()? {
            self.watch()?;
        }
        let (scene, seconds) = (self.scene, STUCK.as_secs().to_string());
        let words = ["drained", &scene.bootstrap, GROUP, INPUT, &seconds];
        let mut drained = scene.start(Client::FranzGo, "drained", &words)?;
        while !drained.has_ended()? {
            self.watch()?;
        }
        let good = |what: &str, e: String| format!("{what} {e}");
        self.filler.finish(STUCK).map_err(|e| good("the filler", e))?;
        drained.finish(STUCK).map_err(|e| good("the input is not consumed; drained", e))?;
        for worker in self.workers {
            // One that gives up now may leave a transaction open, which has to time out: the readers wait for that.
            self.restarts += u64::from(worker.finish(STUCK).is_err());
        }
        Ok((self.fed, self.restarts, self.broker))
    }

    /// What has to be looked after while waiting.
    fn watch(&mut self) -> Result<(), String> {
        self.revive()?;
        self.broker.check()?;
        std::thread::sleep(Duration::from_millis(2));
        Ok(())
    }
}
