//! The brokers that are measured, as commands that start one on a port with fresh data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{e2e, kafka, process};

/// A broker to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// Ottla on a folder, each acknowledgement after fdatasync.
    OttlaDisk,
    /// Ottla in memory.
    OttlaMemory,
    /// franz-go's broker for tests, in memory.
    Kfake,
    /// Apache Kafka, which acknowledges from the page cache.
    Kafka,
}

impl Peer {
    pub(super) const ALL: [Peer; 4] = [Peer::OttlaDisk, Peer::OttlaMemory, Peer::Kfake, Peer::Kafka];

    pub(super) fn title(self) -> &'static str {
        match self {
            Peer::OttlaDisk => "Ottla, on disk (fdatasync)",
            Peer::OttlaMemory => "Ottla, in memory",
            Peer::Kfake => "kfake, in memory",
            Peer::Kafka => "Apache Kafka 4.4.0, page cache",
        }
    }

    /// A command that starts it on `port` with no data; whatever can be made ready before is.
    pub(super) fn command(self, port: u16) -> Result<Command, String> {
        match self {
            Peer::OttlaDisk => ottla(port, &["--data", &fresh("ottla")?.display().to_string()]),
            Peer::OttlaMemory => ottla(port, &["--memory"]),
            Peer::Kfake => {
                let mut command = Command::new(kfake_binary());
                command.arg(port.to_string());
                Ok(quiet(command))
            }
            Peer::Kafka => {
                let folder = kafka::fresh_folder("node-bench")?;
                kafka::prepare(&kafka::Options { port, advertised: port, folder, settings: Vec::new() })
            }
        }
    }

    /// Bytes of the program as installed; of Kafka its jars, without the Java runtime.
    pub(super) fn size(self) -> Result<u64, String> {
        let length = |path: &Path| fs::metadata(path).map(|m| m.len());
        let size = match self {
            Peer::OttlaDisk | Peer::OttlaMemory => length(&ottla_binary()),
            Peer::Kfake => length(&kfake_binary()),
            Peer::Kafka => fs::read_dir(kafka::fetch()?)
                .and_then(|jars| jars.map(|jar| length(&jar?.path())).sum::<std::io::Result<u64>>()),
        };
        size.map_err(|e| format!("size of {}: {e}", self.title()))
    }
}

/// Builds and fetches what is measured.
pub(super) fn prepare() -> Result<(), String> {
    e2e::build_ottla()?;
    kafka::fetch()?;
    build_kfake()
}

pub(super) fn build_kfake() -> Result<(), String> {
    let folder = process::root().join("e2e/peers/kfake");
    let out = kfake_binary();
    let out = out.to_str().ok_or("the path of the repository is not UTF-8")?;
    process::run(&folder, &["go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "."])
}

fn ottla_binary() -> PathBuf {
    process::root().join("target/release/ottla")
}

pub(super) fn kfake_binary() -> PathBuf {
    process::root().join("target/peers/kfake")
}

pub(super) fn ottla(port: u16, more: &[&str]) -> Result<Command, String> {
    let mut command = Command::new(ottla_binary());
    command.args(["serve", "--listen", &format!("127.0.0.1:{port}")]).args(more);
    Ok(quiet(command))
}

pub(super) fn quiet(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

pub(super) fn fresh(name: &str) -> Result<PathBuf, String> {
    let folder = process::root().join("target/bench").join(name);
    match fs::remove_dir_all(&folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot empty {}: {e}", folder.display()))
        }
        _ => Ok(folder),
    }
}
