//! A run of the application: it processes orders and payments, processes are killed at times, and everything is checked
//! at the end.

use super::Options;
use super::program::{ID, Kind, Scene};
use crate::eos::broker::Broker;
use crate::program::Running;
use ottla_checker::streams::Evidence;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Instances by the name of their place: `dynamic` is a dynamic member, any other a static one.
const INSTANCES: [&str; 2] = ["static", "dynamic"];
/// How far the input is ahead of the application.
const AHEAD: u64 = 400;
/// How many orders are asked for at once.
const PORTION: u64 = 100;
/// Nothing moves for so long: the application is stuck.
const STUCK: Duration = Duration::from_secs(90);

/// Longer than the session of a member.
const PAUSE: Duration = Duration::from_secs(8);

/// A run of the application.
pub(crate) struct Run<'a> {
    options: &'a Options,
    scene: &'a Scene,
    random: fastrand::Rng,
    pub(crate) broker: Broker,
    feed: Running,
    instances: Vec<Running>,
    /// The time of order 0 in ms since 1970: close to now, or the brokers would take window changelogs for old.
    epoch: String,
    fed: u64,
    fed_at: Instant,
    pub(crate) broker_kills: u64,
    pub(crate) instance_kills: u64,
    pub(crate) pauses: u64,
    pub(crate) restarts: u64,
}

impl<'a> Run<'a> {
    /// Makes the topics, and starts the fillers and the instances.
    pub(crate) fn start(
        options: &'a Options,
        scene: &'a Scene,
        broker: Broker,
        random: fastrand::Rng,
    ) -> Result<Run<'a>, String> {
        let feed = scene.start("feed", &["feed", &broker.bootstrap()])?;
        await_said(scene, Kind::Ready, 1)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
        let mut run = Run {
            options,
            scene,
            random,
            broker,
            feed,
            instances: Vec::new(),
            epoch: (now - now % 500).to_string(),
            fed: 0,
            fed_at: Instant::now(),
            broker_kills: 0,
            instance_kills: 0,
            pauses: 0,
            restarts: 0,
        };
        for place in INSTANCES {
            let instance = run.instance(place, place)?;
            run.instances.push(instance);
        }
        Ok(run)
    }

    fn state(&self, name: &str) -> PathBuf {
        self.scene.folder.join(format!("state-{name}"))
    }

    /// An instance of the application; its successor in the same place finds its folder.
    fn instance(&self, name: &str, place: &str) -> Result<Running, String> {
        let folder = self.state(name).display().to_string();
        let guarantee = &self.options.guarantee;
        let words = ["app", &self.broker.bootstrap(), ID, &folder, place, guarantee, &self.epoch];
        self.scene.start(&format!("app-{name}"), &words)
    }

    /// Keeps the input full and kills something after every so many updates.
    pub(crate) fn with_kills(&mut self) -> Result<(), String> {
        // Nothing is killed before the application runs: its first records are not part of any gap.
        self.progress(1)?;
        for kill in 0..self.options.kills {
            let mean = self.options.records / (self.options.kills + 1);
            let gap = 1 + self.random.u64(..=2 * mean);
            self.progress(gap)?;
            std::thread::sleep(Duration::from_millis(self.random.u64(..100)));
            // The first two are one of each kind, so that two kills test both.
            let at_the_broker = if kill < 2 { kill == 0 } else { self.random.u64(..2) == 0 };
            if at_the_broker {
                self.kill_broker()?;
            } else if kill > 2 && self.random.u64(..4) == 0 {
                self.pause_instance()?;
            } else {
                self.kill_instance()?;
            }
        }
        while self.fed < self.options.records {
            self.progress(PORTION)?;
        }
        Ok(())
    }

    /// Waits for so many more updates.
    fn progress(&mut self, updates: u64) -> Result<(), String> {
        let mut last = self.scene.ledger.sum(Kind::Updates);
        let (goal, mut moved_at) = (last + updates, Instant::now());
        while last < goal {
            self.feed(last)?;
            self.watch()?;
            let now = self.scene.ledger.sum(Kind::Updates);
            if now > last {
                (last, moved_at) = (now, Instant::now());
            }
            if moved_at.elapsed() > STUCK {
                return Err(format!("nothing was processed for {} s", STUCK.as_secs()));
            }
        }
        Ok(())
    }

    /// Asks for more input when the application may run dry. An instance that is killed may not have said all its
    /// updates; hence more also after a while.
    fn feed(&mut self, updates: u64) -> Result<(), String> {
        let hungry = self.fed < updates + AHEAD || self.fed_at.elapsed() > Duration::from_secs(3);
        if hungry {
            self.feed.say(&PORTION.to_string())?;
            self.fed += PORTION;
            self.fed_at = Instant::now();
        }
        Ok(())
    }

    /// The checks that are due while waiting: the broker must run, and an instance that gave up is started again. It
    /// gets an empty folder: RocksDB does not always open what it left when it was killed, and then no restart helps.
    fn watch(&mut self) -> Result<(), String> {
        for (slot, place) in INSTANCES.iter().enumerate() {
            let ended = self.instances.get_mut(slot).map_or(Ok(false), Running::has_ended)?;
            if ended {
                self.restarts += 1;
                if self.restarts > 10 + self.options.kills {
                    return Err("the application does not stay alive".to_owned());
                }
                let folder = self.state(place);
                let fail = |e: std::io::Error| format!("cannot remove {}: {e}", folder.display());
                fs::remove_dir_all(&folder).map_err(fail)?;
                self.instances[slot] = self.instance(place, place)?;
            }
        }
        self.broker.check()?;
        std::thread::sleep(Duration::from_millis(2));
        Ok(())
    }

    fn kill_broker(&mut self) -> Result<(), String> {
        self.broker_kills += 1;
        self.broker.kill();
        if self.random.u64(..3) == 0 {
            let after = Duration::from_millis(self.random.u64(..15));
            self.broker.stumble(after)?;
        }
        std::thread::sleep(Duration::from_millis(self.random.u64(..200)));
        self.broker.restart()
    }

    fn kill_instance(&mut self) -> Result<(), String> {
        self.instance_kills += 1;
        let slot = self.random.u64(..INSTANCES.len() as u64) as usize;
        self.instances.remove(slot).kill();
        std::thread::sleep(Duration::from_millis(self.random.u64(..500)));
        let next = self.instance(INSTANCES[slot], INSTANCES[slot])?;
        self.instances.insert(slot, next);
        Ok(())
    }

    /// Stops an instance until the group has given its work to the other; then it resumes, and must be fenced.
    fn pause_instance(&mut self) -> Result<(), String> {
        self.pauses += 1;
        let slot = self.random.u64(..INSTANCES.len() as u64) as usize;
        self.instances[slot].pause();
        let over = Instant::now() + PAUSE;
        while Instant::now() < over {
            self.feed(self.scene.ledger.sum(Kind::Updates))?;
            self.watch()?;
            std::thread::sleep(Duration::from_millis(500));
        }
        self.instances[slot].resume();
        Ok(())
    }

    /// Lets everything be processed, looks at the stores of the instances, ends them, restores all stores from the
    /// changelogs in a new instance, and looks at every topic.
    pub(crate) fn drain(&mut self) -> Result<Evidence, String> {
        self.feed.close();
        while !self.feed.has_ended()? {
            self.watch()?;
        }
        let bootstrap = self.broker.bootstrap();
        let mut drain = self.scene.start("drain", &["drain", &bootstrap, &self.fed.to_string()])?;
        while !drain.has_ended()? {
            self.watch()?;
        }
        drain.finish(STUCK)?;
        let stored = self.settled()?;
        end(std::mem::take(&mut self.instances))?;
        let mut newcomer = self.instance("restored", "dynamic")?;
        let restored =
            self.dump(&mut newcomer)?.ok_or("the instance that had to restore the stores gave up")?;
        end(vec![newcomer])?;
        self.scene.start("look", &["look", &bootstrap, ID])?.finish(STUCK)?;
        let ledger = &self.scene.ledger;
        let mut evidence = Evidence { orders: self.fed, stored, restored, ..Evidence::default() };
        for event in ledger.all(Kind::Record) {
            evidence.add(&event.topic, event.partition, event.offset, event.value);
        }
        let places = |kind| {
            let all = ledger.all(kind).into_iter();
            all.map(|event| (format!("{}-{}", event.topic, event.partition), event.offset)).collect()
        };
        evidence.high = places(Kind::High);
        evidence.stable = places(Kind::Stable);
        evidence.committed = places(Kind::Committed);
        evidence.own_topics = ledger.all(Kind::Topic).into_iter().map(|event| event.value).collect();
        Ok(evidence)
    }

    /// What all instances have in their stores, when that is twice the same: a rebalance may be on its way.
    fn settled(&mut self) -> Result<Vec<String>, String> {
        let (mut last, deadline) = (None, Instant::now() + STUCK);
        while Instant::now() < deadline {
            self.watch()?;
            let mut instances = std::mem::take(&mut self.instances);
            let all: Result<Vec<_>, String> =
                instances.iter_mut().map(|instance| self.dump(instance)).collect();
            self.instances = instances;
            let all: Option<Vec<_>> = all?.into_iter().collect();
            let all = all.map(|stored| stored.concat());
            if all.is_some() && all == last {
                return Ok(all.unwrap_or_default());
            }
            last = all;
            std::thread::sleep(Duration::from_millis(500));
        }
        Err(format!("the stores do not settle within {} s", STUCK.as_secs()))
    }

    /// What an instance has in its stores; none if it gave up.
    fn dump(&self, instance: &mut Running) -> Result<Option<Vec<String>>, String> {
        let ledger = &self.scene.ledger;
        let (dumped, stored) = (ledger.count(Kind::Dumped), ledger.count(Kind::Stored));
        let deadline = Instant::now() + STUCK;
        // It may have ended just now.
        let asked = instance.say("dump").is_ok();
        while asked && ledger.count(Kind::Dumped) == dumped && !instance.has_ended()? {
            if Instant::now() > deadline {
                return Err(format!("an instance does not say what it stores within {} s", STUCK.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if ledger.count(Kind::Dumped) == dumped {
            return Ok(None);
        }
        Ok(Some(ledger.all(Kind::Stored).into_iter().skip(stored).map(|event| event.value).collect()))
    }
}

/// Ends instances in peace, all at once.
fn end(mut instances: Vec<Running>) -> Result<(), String> {
    instances.iter_mut().for_each(Running::close);
    instances.iter_mut().try_for_each(|instance| instance.finish(STUCK))
}

fn await_said(scene: &Scene, kind: Kind, times: usize) -> Result<(), String> {
    let deadline = Instant::now() + STUCK;
    while scene.ledger.count(kind) < times {
        if Instant::now() > deadline {
            return Err(format!("no {kind:?} within {} s", STUCK.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
