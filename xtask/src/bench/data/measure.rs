//! One cell on one side: the topic, the load program, its line of figures.

use super::Pace;
use super::case::Case;
use super::cells::{Cell, Load, Rate, Work};
use super::clients;
use super::figures::{Figure, Figures, Sample};
use super::sides::Running;
use crate::bench::peers::raw_binary;
use crate::process::{self, Guard};
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// From this many partitions on, a broker is still busy after it has created them.
const MANY: u32 = 1000;
/// Pause after the creation of that many partitions.
const SETTLE: Duration = Duration::from_secs(2);

/// A topic name that was not used before: answers about a deleted topic must not be taken for answers about this one.
fn fresh_topic() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("load-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
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
            Work::Produce(load) | Work::Paced { load, .. } | Work::Backlog { load, .. } => load.partitions,
            _ => 1,
        };
        let config = match work {
            Work::Retention => "config=retention.bytes:67108864,segment.bytes:16777216",
            _ => "",
        };
        self.broker.create(&self.topic, partitions, config)?;
        if partitions >= MANY {
            std::thread::sleep(SETTLE);
        }
        match work {
            Work::Produce(load) => finish(&mut self.produce(load), self.pace),
            Work::Paced { load, rate, consumers } => self.paced(load, *rate, *consumers, before),
            Work::Fetch { preload, cold } => self.fetch(*preload, *cold),
            Work::Backlog { load, rate } => self.backlog(load, *rate, before),
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
        let mut follow = self.program("fetch");
        follow.args([format!("connections={consumers}"), format!("partitions={}", load.partitions)]);
        follow.arg("follow=1");
        let followers = consumers > 0 && !self.broker.side.is_sink();
        let follower = followers.then(|| Guard::start(&mut quiet(follow))).transpose()?;
        let sample = self.at_rate(load, rate, before);
        drop(follower);
        sample
    }

    fn at_rate(&self, load: &Load, rate: Rate, before: &Figures) -> Result<Sample, String> {
        let rate = match rate {
            Rate::Megabytes(megabytes) => f64::from(megabytes) * 1e6 / f64::from(load.batch),
            Rate::PartOf { parts, cell, side } => match before.of(cell, side, Figure::Requests) {
                Some((middle, ..)) => middle / f64::from(parts),
                None => return Err(format!("the rate is a part of that of \"{cell}\", which has none")),
            },
        };
        let mut command = self.produce(load);
        command.arg(format!("rate={rate}"));
        let mut sample = finish(&mut command, self.pace)?;
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
            rustix::fs::sync();
            self.broker.forget_pages();
            // Once through, from the first byte on; the sink has no end, and a time instead.
            if !self.broker.side.is_sink() {
                command.args(["millis=0", "warm=0"]);
            }
        }
        command.arg(format!("max={}", 1 << 20));
        finish(&mut command, self.pace)
    }

    /// Produces while 256 MiB of another topic are read off the disk, over and over; beside a sink, which has no
    /// topics, those of a file.
    fn backlog(&self, load: &Load, rate: Rate, before: &Figures) -> Result<Sample, String> {
        const CALM: Duration = Duration::from_millis(300);
        let backlog = format!("{}-backlog", self.topic);
        self.broker.create(&backlog, 1, "")?;
        let prepared = match self.broker.side.is_sink() {
            true => plain_file(BACKLOG),
            false => self.preload(&backlog, BACKLOG).map(drop),
        };
        let outcome = prepared.and_then(|()| {
            rustix::fs::sync();
            std::thread::sleep(CALM);
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| self.drain(&backlog, &done));
                let sample = self.at_rate(load, rate, before);
                done.store(true, Ordering::Relaxed);
                let read = reader.join().unwrap_or_else(|_| Err("the reader panicked".to_owned()));
                let mut sample = sample?;
                sample.set("drained", read?);
                Ok(sample)
            })
        });
        self.broker.delete(&backlog)?;
        outcome
    }

    /// Reads the topic from the start to the end, off the disk, until it is `done`. Returns MB/s.
    fn drain(&self, backlog: &str, done: &AtomicBool) -> Result<f64, String> {
        let (mut bytes, mut seconds) = (0.0, 0.0);
        while !done.load(Ordering::Relaxed) {
            if self.broker.side.is_sink() {
                let begun = Instant::now();
                bytes += read_file()? as f64;
                seconds += begun.elapsed().as_secs_f64();
                continue;
            }
            self.broker.forget_pages();
            let mut read = self.program("fetch");
            read.args(["millis=0", "warm=0"]).arg(format!("topic={backlog}")).arg(format!("max={}", 1 << 20));
            let sample = finish(&mut read, self.pace)?;
            bytes += sample.get(Figure::Named("bytes")).unwrap_or_default();
            seconds += sample.get(Figure::Named("seconds")).unwrap_or_default();
        }
        Ok(bytes / seconds / 1e6)
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

/// Bytes of a backlog.
const BACKLOG: u64 = 256 << 20;

fn plain_path() -> PathBuf {
    process::root().join("target/bench/backlog")
}

/// Writes the file that is read beside a sink.
fn plain_file(bytes: u64) -> Result<(), String> {
    let path = plain_path();
    let piece = vec![7; 1 << 20];
    let write = || {
        let mut file = File::create(&path)?;
        (0..bytes >> 20).try_for_each(|_| file.write_all(&piece))?;
        file.sync_all()
    };
    write().map_err(|e| format!("{}: {e}", path.display()))
}

/// Reads it once, off the disk.
fn read_file() -> Result<u64, String> {
    let path = plain_path();
    let read = || {
        let mut file = File::open(&path)?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        let (mut piece, mut sum) = (vec![0; 1 << 20], 0);
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(sum),
                count => sum += count as u64,
            }
        }
    };
    read().map_err(|e: std::io::Error| format!("{}: {e}", path.display()))
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
