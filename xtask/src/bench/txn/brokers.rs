//! The brokers that run side by side.

use crate::bench::peers::{self, Alive};
use crate::process::{self, Guard};
use crate::{e2e, kafka};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A broker with a promise about what it acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub(super) enum Side {
    /// Ottla with its defaults: nothing is acknowledged before fdatasync.
    OttlaDisk,
    /// Apache Kafka with log.flush.interval.messages=1: each append to each log is flushed before it is acknowledged.
    KafkaFlush,
    /// Ottla with --durability os: acknowledged from the page cache.
    OttlaOs,
    /// Apache Kafka with its defaults: acknowledged from the page cache.
    KafkaCache,
    /// franz-go's broker for tests on disk, synced.
    KfakeSync,
    /// franz-go's broker for tests in memory.
    KfakeMemory,
    /// No broker, but the limit: one write and one sync for what has arrived, and an empty answer.
    Null,
}

impl Side {
    pub(super) const ALL: [Side; 7] = [
        Side::OttlaDisk,
        Side::KafkaFlush,
        Side::OttlaOs,
        Side::KafkaCache,
        Side::KfakeSync,
        Side::KfakeMemory,
        Side::Null,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Side::OttlaDisk => "Ottla, synced",
            Side::KafkaFlush => "Apache Kafka, flushed",
            Side::OttlaOs => "Ottla, page cache",
            Side::KafkaCache => "Apache Kafka, page cache",
            Side::KfakeSync => "kfake, synced",
            Side::KfakeMemory => "kfake, in memory",
            Side::Null => "the limit",
        }
    }

    /// Whether it needs time for the just-in-time compiler.
    pub(super) fn is_java(self) -> bool {
        matches!(self, Side::KafkaFlush | Side::KafkaCache)
    }
}

/// Builds and fetches what is measured, and the programs that measure.
pub(super) fn prepare(sides: &[Side]) -> Result<(), String> {
    e2e::broker::build_ottla()?;
    process::run(&process::root(), &["cargo", "build", "--release", "-p", "ottla-bench"])?;
    // The Java client comes with the broker's jars.
    kafka::fetch()?;
    if sides.iter().any(|side| matches!(side, Side::KfakeSync | Side::KfakeMemory)) {
        peers::build_kfake()?;
    }
    Ok(())
}

/// A broker that runs, stopped when dropped.
pub(super) struct Running {
    pub(super) side: Side,
    /// The address that clients use.
    pub(super) address: String,
    process: u32,
    _alive: Alive,
}

impl Running {
    /// Starts it with no data, waits until it answers, and makes the topics.
    pub(super) fn start(side: Side) -> Result<Running, String> {
        let port = process::free_port()?;
        let folder = peers::fresh(&format!("txn-{side:?}").to_lowercase())?;
        let (process, alive) = match side {
            Side::KafkaFlush => kafka(port, &[("log.flush.interval.messages", "1")], "node-bench-flush")?,
            Side::KafkaCache => kafka(port, &[], "node-bench-cache")?,
            _ => {
                let mut command = command(side, port, &folder)?;
                let guard = Guard::start(&mut command)?;
                (guard.id(), Alive::Child(guard))
            }
        };
        let address = match side {
            Side::Null => format!("null@127.0.0.1:{port}"),
            _ => format!("127.0.0.1:{port}"),
        };
        let running = Running { side, address, process, _alive: alive };
        running.await_ready(port)?;
        Ok(running)
    }

    fn await_ready(&self, port: u16) -> Result<(), String> {
        peers::await_answer(port, self.side == Side::Null, self.side.title())?;
        if self.side == Side::Null {
            return Ok(());
        }
        let binary = peers::raw_binary();
        let mut topics = Command::new(&binary);
        topics.args(["topics", &self.address]);
        let output = process::capture(&mut topics, Duration::from_secs(60))?;
        match output.status {
            Some(status) if status.success() => Ok(()),
            _ => Err(format!("{}: {}", self.side.title(), output.stderr)),
        }
    }

    /// CPU time that it has used.
    pub(super) fn cpu(&self) -> Result<Duration, String> {
        peers::cpu(self.process)
    }
}

fn kafka(port: u16, settings: &[(&str, &str)], name: &str) -> Result<(u32, Alive), String> {
    let folder = kafka::fresh_folder(name)?;
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let node = kafka::start(&kafka::Options { port, advertised: port, sasl: None, folder, settings })?;
    Ok((node.id(), Alive::Kafka(node)))
}

fn command(side: Side, port: u16, folder: &std::path::Path) -> Result<Command, String> {
    let parent = folder.parent().unwrap_or(folder);
    fs::create_dir_all(parent).map_err(|e| format!("cannot make {}: {e}", parent.display()))?;
    let data = folder.display().to_string();
    match side {
        Side::OttlaDisk => peers::ottla(port, &["--http", "off", "--data", &data]),
        Side::OttlaOs => peers::ottla(port, &["--http", "off", "--durability", "os", "--data", &data]),
        Side::KfakeSync | Side::KfakeMemory => {
            let mut command = Command::new(peers::kfake_binary());
            command.arg(port.to_string());
            if side == Side::KfakeSync {
                command.arg(&data);
            }
            Ok(peers::quiet(command))
        }
        _ => {
            let mut command = Command::new(peers::raw_binary());
            let file = folder.with_extension("log").display().to_string();
            command.args(["null", &port.to_string(), &file]).stdin(Stdio::null());
            Ok(command)
        }
    }
}
