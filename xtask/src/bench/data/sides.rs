//! The brokers that a shape is measured on, side by side.

use crate::bench::peers::{self, Alive, raw_binary};
use crate::kafka;
use crate::process::{self, Guard};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A broker with a promise about what it acknowledges, or a limit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub(super) enum Side {
    /// Ottla with its defaults: nothing is acknowledged before fdatasync.
    OttlaDisk,
    /// Apache Kafka with log.flush.interval.messages=1: each append is flushed before it is acknowledged.
    KafkaFlush,
    /// Ottla with --durability os: acknowledged from the page cache.
    OttlaOs,
    /// Apache Kafka with its defaults: acknowledged from the page cache.
    KafkaCache,
    /// Ottla, synced, with a tail so short that everything is rewritten at once.
    OttlaRewrites,
    /// Ottla, synced, with 10,000 partitions and a snapshot after every 4 MiB of log.
    OttlaSnapshots,
    /// The build of Ottla that --other names, synced.
    OtherDisk,
    /// The build of Ottla that --other names, from the page cache.
    OtherOs,
    /// The null sink: one write and one sync for all bytes that have arrived; Fetch from memory.
    Sink,
    /// The null sink that drops the bytes; Fetch from memory.
    SinkDiscard,
    /// The null sink with Fetch from the page cache.
    SinkFile,
    /// The null sink with Fetch from the disk.
    SinkCold,
}

impl Side {
    pub(super) fn title(self) -> &'static str {
        match self {
            Side::OttlaDisk => "Ottla, synced",
            Side::KafkaFlush => "Kafka, flushed",
            Side::OttlaOs => "Ottla, page cache",
            Side::KafkaCache => "Kafka, page cache",
            Side::OttlaRewrites => "Ottla, synced, short tail",
            Side::OttlaSnapshots => "Ottla, synced, a snapshot each 4 MiB",
            Side::OtherDisk => "the other Ottla, synced",
            Side::OtherOs => "the other Ottla, page cache",
            Side::Sink => "sink, synced",
            Side::SinkDiscard => "sink, nothing kept",
            Side::SinkFile => "sink, cached file",
            Side::SinkCold => "sink, from disk",
        }
    }

    pub(super) fn is_sink(self) -> bool {
        matches!(self, Side::Sink | Side::SinkDiscard | Side::SinkFile | Side::SinkCold)
    }

    pub(super) fn is_kafka(self) -> bool {
        matches!(self, Side::KafkaFlush | Side::KafkaCache)
    }

    pub(super) fn is_other(self) -> bool {
        matches!(self, Side::OtherDisk | Side::OtherOs)
    }

    /// The same promise by the build that --other names.
    pub(super) fn other(self) -> Option<Side> {
        match self {
            Side::OttlaDisk => Some(Side::OtherDisk),
            Side::OttlaOs => Some(Side::OtherOs),
            _ => None,
        }
    }

    /// Whether it leaves pages for the system to write later.
    pub(super) fn leaves_dirty_pages(self) -> bool {
        matches!(self, Side::OttlaOs | Side::OtherOs | Side::KafkaCache)
    }
}

/// A broker that runs, stopped when dropped.
pub(super) struct Running {
    pub(super) side: Side,
    /// The address that clients use.
    pub(super) address: String,
    pub(super) process: u32,
    folder: PathBuf,
    _alive: Alive,
}

impl Running {
    /// Starts it with no data and waits until it answers; `other` is the program of the other Ottla.
    pub(super) fn start(side: Side, other: Option<&Path>) -> Result<Running, String> {
        let port = process::free_port()?;
        let name = format!("data-{side:?}").to_lowercase();
        if side.is_kafka() {
            let folder = kafka::fresh_folder(&format!("node-bench-{name}"))?;
            let node = start_kafka(side, port, &folder)?;
            let address = format!("127.0.0.1:{port}");
            return Ok(Running { side, address, process: node.id(), folder, _alive: Alive::Kafka(node) });
        }
        let folder = peers::fresh(&name)?;
        fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        let guard = Guard::start(&mut command(side, port, &folder, other)?)?;
        let address =
            if side.is_sink() { format!("null@127.0.0.1:{port}") } else { format!("127.0.0.1:{port}") };
        let running = Running { side, address, process: guard.id(), folder, _alive: Alive::Child(guard) };
        peers::await_answer(port, side.is_sink(), side.title())?;
        if side == Side::OttlaSnapshots {
            running.create("many", 10_000, "")?;
        }
        Ok(running)
    }

    /// Creates a topic and waits until it can be written to.
    pub(super) fn create(&self, topic: &str, partitions: u32, config: &str) -> Result<(), String> {
        self.topic(&["do=create", &format!("topic={topic}"), &format!("partitions={partitions}"), config])
    }

    /// Deletes a topic.
    pub(super) fn delete(&self, topic: &str) -> Result<(), String> {
        self.topic(&["do=delete", &format!("topic={topic}")])
    }

    fn topic(&self, words: &[&str]) -> Result<(), String> {
        if self.side.is_sink() {
            return Ok(());
        }
        let mut command = Command::new(raw_binary());
        command.arg("topic").arg(format!("broker={}", self.address));
        command.args(words.iter().filter(|word| !word.is_empty()));
        let output = process::capture(&mut command, Duration::from_secs(180))?;
        match output.status {
            Some(status) if status.success() => Ok(()),
            _ => Err(format!("{}: {}", self.side.title(), output.stderr.trim())),
        }
    }

    /// Bytes of all its files.
    pub(super) fn disk(&self) -> u64 {
        size_of(&self.folder)
    }

    /// Drops the clean pages of all its files from the page cache.
    pub(super) fn forget_pages(&self) {
        each_file(&self.folder, &mut |path| {
            if let Ok(file) = fs::File::open(path) {
                // This is advice: pages that cannot be dropped stay.
                let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            }
        });
    }
}

fn size_of(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    each_file(folder, &mut |path| sum += fs::metadata(path).map_or(0, |found| found.blocks() * 512));
    sum
}

fn each_file(folder: &Path, work: &mut impl FnMut(&Path)) {
    // A broker creates and removes files meanwhile: a removed file is skipped.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => each_file(&entry.path(), work),
            _ => work(&entry.path()),
        }
    }
}

fn start_kafka(side: Side, port: u16, folder: &Path) -> Result<kafka::Node, String> {
    // Deleted topics give their space back at once, and retention is looked at as often as Ottla does.
    let mut settings =
        vec![("log.segment.delete.delay.ms", "200"), ("log.retention.check.interval.ms", "1000")];
    if side == Side::KafkaFlush {
        settings.push(("log.flush.interval.messages", "1"));
    }
    let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    kafka::start(&kafka::Options {
        port,
        advertised: port,
        sasl: None,
        folder: folder.to_path_buf(),
        settings,
    })
}

fn command(side: Side, port: u16, folder: &Path, other: Option<&Path>) -> Result<Command, String> {
    let data = folder.display().to_string();
    let mut command = Command::new(raw_binary());
    let (keep, reads) = match side {
        Side::Sink => ("durable", "memory"),
        Side::SinkDiscard => ("discard", "memory"),
        Side::SinkFile => ("discard", "file"),
        Side::SinkCold => ("discard", "cold"),
        _ => return ottla(side, port, &data, other),
    };
    command.args(["sink", &port.to_string(), &data, keep, reads]).stdin(Stdio::null());
    Ok(command)
}

fn ottla(side: Side, port: u16, data: &str, other: Option<&Path>) -> Result<Command, String> {
    let durability = if matches!(side, Side::OttlaOs | Side::OtherOs) { "os" } else { "disk" };
    let mut more = vec!["--http", "off", "--durability", durability, "--data", data];
    match side {
        // Half of it is rewritten, a quarter at once.
        Side::OttlaRewrites => more.extend(["--set", "ottla.tail.max.batches=4000"]),
        Side::OttlaSnapshots => more.extend(["--set", "ottla.snapshot.bytes=4194304"]),
        _ => {}
    }
    let ours = peers::ottla(port, &more)?;
    if !side.is_other() {
        return Ok(ours);
    }
    let mut command = Command::new(other.ok_or("the other Ottla needs --other")?);
    command.args(ours.get_args());
    Ok(peers::quiet(command))
}
