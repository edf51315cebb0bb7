//! One cell on one side: the topic, the load program, its line of figures.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::Pace;
use super::cells::{Cell, Load, Rate, Work};
use super::clients;
use super::figures::{Figure, Figures, P99, Sample};
use super::sides::Running;
use crate::bench::peers::raw_binary;
use crate::process::{self, Guard};

/// A topic's name that was not used before: what is said of one that was deleted must not be taken for it.
fn fresh_topic() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("load-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A measurement about to be made.
pub(super) struct Case<'a> {
    pub(super) broker: &'a Running,
    pub(super) pace: &'a Pace,
    pub(super) topic: String,
}

/// Measures a cell. Rates may depend on what was measured before.
pub(super) fn measure(
    cell: &Cell,
    broker: &Running,
    pace: &Pace,
    before: &Figures,
) -> Result<Sample, String> {
    let case = Case { broker, pace, topic: fresh_topic() };
    let outcome = case.work(&cell.work, before);
    broker.delete(&case.topic)?;
    if broker.side.leaves_dirty_pages() {
        // What the system still has to write would slow down the side that comes next.
        rustix::fs::sync();
    }
    outcome
}

impl Case<'_> {
    fn work(&self, work: &Work, before: &Figures) -> Result<Sample, String> {
        let partitions = match work {
            Work::Produce(load) | Work::Paced { load, .. } => load.partitions,
            _ => 1,
        };
        let config = match work {
            Work::Retention => "config=retention.bytes:67108864,segment.bytes:16777216",
            _ => "",
        };
        self.broker.create(&self.topic, partitions, config)?;
        match work {
            Work::Produce(load) => finish(&mut self.produce(load), self.pace),
            Work::Paced { load, rate, consumers } => self.paced(load, *rate, *consumers, before),
            Work::Fetch { preload, cold } => self.fetch(*preload, *cold),
            Work::Drain => self.drain(),
            Work::Single => finish(&mut self.program("single"), self.pace),
            Work::Retention => self.retention(),
            Work::ProduceWith { client, record } => clients::produce(self, *client, *record),
            Work::ConsumeWith { client } => {
                self.preload(&self.topic, 256 << 20)?;
                clients::consume(self, *client)
            }
        }
    }

    /// A load program of that kind, for the topic.
    fn program(&self, kind: &str) -> Command {
        let mut command = Command::new(raw_binary());
        command.args([
            kind,
            &format!("broker={}", self.broker.address),
            &format!("pid={}", self.broker.process),
            &format!("millis={}", self.pace.millis),
            &format!("warm={}", self.pace.warm),
            &format!("topic={}", self.topic),
        ]);
        command
    }

    fn produce(&self, load: &Load) -> Command {
        let Load { record, batch, producers, in_flight, partitions, each, .. } = load;
        let active = if load.active == 0 { *partitions } else { load.active };
        let mut command = self.program("produce");
        command.args([
            format!("record={record}"),
            format!("batch={batch}"),
            format!("connections={producers}"),
            format!("inflight={in_flight}"),
            format!("partitions={partitions}"),
            format!("active={active}"),
            format!("each={each}"),
            format!("bytes={}", self.pace.bytes),
        ]);
        command
    }

    fn paced(&self, load: &Load, rate: Rate, consumers: u32, before: &Figures) -> Result<Sample, String> {
        let rate = match rate {
            Rate::Megabytes(megabytes) => f64::from(megabytes) * 1e6 / f64::from(load.batch),
            Rate::TenthOf(cell, side) => match before.of(cell, side, Figure::Requests) {
                Some((middle, ..)) => middle / 10.0,
                None => return Err(format!("the rate is a tenth of that of \"{cell}\", which has none")),
            },
        };
        let mut command = self.produce(load);
        command.arg(format!("rate={rate}"));
        let mut follow = self.program("fetch");
        follow.args([format!("connections={consumers}"), format!("partitions={}", load.partitions)]);
        follow.arg("follow=1");
        let followers = consumers > 0 && !self.broker.side.is_sink();
        let follower = followers.then(|| Guard::start(&mut quiet(follow))).transpose()?;
        let sample = finish(&mut command, self.pace);
        drop(follower);
        let mut sample = sample?;
        sample.set("offered", rate);
        Ok(sample)
    }

    /// Writes so many bytes in batches of 16 KiB.
    fn preload(&self, topic: &str, bytes: u64) -> Result<Sample, String> {
        if self.broker.side.is_sink() {
            return Sample::read("requests=1");
        }
        let mut command = Command::new(raw_binary());
        command.args([
            "produce",
            &format!("broker={}", self.broker.address),
            &format!("topic={topic}"),
            &format!("bytes={bytes}"),
            "millis=60000",
            "warm=0",
            "inflight=32",
        ]);
        finish(&mut command, &Pace { millis: 60_000, ..*self.pace })
    }

    fn fetch(&self, preload: u64, cold: bool) -> Result<Sample, String> {
        self.preload(&self.topic, preload)?;
        let mut command = self.program("fetch");
        if cold {
            self.broker.forget_pages();
            // Once through, from the first byte on; the sink has no end, and a time instead.
            if !self.broker.side.is_sink() {
                command.args(["millis=0", "warm=0"]);
            }
        }
        command.arg(format!("max={}", 1 << 20));
        finish(&mut command, self.pace)
    }

    /// Comes back with the figures of the second part, beside them those of the first and the rate of reading.
    fn drain(&self) -> Result<Sample, String> {
        let backlog = format!("{}-backlog", self.topic);
        self.broker.create(&backlog, 1, "")?;
        let outcome = self.preload(&backlog, 512 << 20).and_then(|_| {
            let paced = || {
                let mut command = self.produce(&Load { in_flight: 1000, ..Load::ONE });
                command.arg("rate=500");
                command
            };
            let quiet = finish(&mut paced(), self.pace)?;
            let mut read = self.program("fetch");
            read.args([format!("topic={backlog}"), format!("warm={}", self.pace.warm / 2)]);
            read.arg(format!("millis={}", self.pace.millis + self.pace.warm / 2));
            let reading = std::thread::scope(|scope| {
                let reader = scope.spawn(|| finish(&mut read, self.pace));
                let sample = finish(&mut paced(), self.pace);
                let read = reader.join().unwrap_or_else(|_| Err("the reader panicked".to_owned()));
                Ok::<_, String>((sample?, read?))
            });
            let (mut sample, read) = reading?;
            sample.set("quiet_p99", quiet.get(P99).unwrap_or_default());
            sample.set("drained", read.get(Figure::Megabytes).unwrap_or_default());
            Ok(sample)
        });
        self.broker.delete(&backlog)?;
        outcome
    }

    fn retention(&self) -> Result<Sample, String> {
        let pace = Pace { millis: self.pace.sustained, bytes: u64::MAX, ..*self.pace };
        let case = Case { broker: self.broker, pace: &pace, topic: self.topic.clone() };
        let mut command = case.produce(&Load { batch: 1 << 20, in_flight: 100, ..Load::ONE });
        command.arg("rate=50");
        let mut sample = finish(&mut command, &pace)?;
        sample.set("disk", self.broker.disk() as f64 / f64::from(1 << 20));
        Ok(sample)
    }
}

fn quiet(mut command: Command) -> Command {
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    command
}

fn finish(command: &mut Command, pace: &Pace) -> Result<Sample, String> {
    let patience = Duration::from_millis(pace.millis + pace.warm) + Duration::from_secs(60);
    let output = process::capture(command, patience)?;
    match output.status {
        Some(status) if status.success() => Sample::read(&output.stdout),
        Some(_) => Err(output.stderr.trim().to_owned()),
        None => Err("the load program does not come to an end".to_owned()),
    }
}
