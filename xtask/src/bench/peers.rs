//! The brokers that are measured, as commands that start one on a port with fresh data.

use crate::process::Guard;
use crate::{e2e, kafka, process, raw};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
                kafka::prepare(&kafka::Options {
                    port,
                    advertised: port,
                    sasl: None,
                    folder,
                    settings: Vec::new(),
                })
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
    e2e::broker::build_ottla()?;
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
    process::built("release/ottla")
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

/// The program with the raw client and the null broker.
pub(super) fn raw_binary() -> PathBuf {
    process::built("release/ottla-bench")
}

/// What keeps a broker running until it is dropped.
pub(super) enum Alive {
    Child(#[expect(dead_code, reason = "held for its drop")] Guard),
    Kafka(#[expect(dead_code, reason = "held for its drop")] kafka::Node),
}

/// Waits until a broker, or the limit beside it, answers on this port.
pub(super) fn await_answer(port: u16, is_limit: bool, title: &str) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let answers = || match is_limit {
        true => std::net::TcpStream::connect(process::local(port)).map(drop).map_err(|e| e.to_string()),
        false => raw::api_versions(process::local(port)).map(drop),
    };
    while let Err(why) = answers() {
        if Instant::now() > deadline {
            return Err(format!("{title} does not answer: {why}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A Java program of these jars, but for its name: it says nothing that is not asked for.
pub(super) fn java(jars: &Path) -> Command {
    let mut command = Command::new("java");
    command.args(["-Xmx512m", "-Dorg.apache.logging.log4j.level=OFF", "-Dlog4j2.StatusLogger.level=OFF"]);
    command.arg("-cp").arg(jars.join("*"));
    command
}

/// CPU time of a process with all its threads, ended ones included. Linux counts it in hundredths of a second.
pub(super) fn cpu(process: u32) -> Result<Duration, String> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    // The name, in brackets, may hold blanks; user and system time are the 12th and 13th word behind it.
    let words: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| words.get(place).and_then(|word| word.parse::<u64>().ok());
    match (ticks(11), ticks(12)) {
        (Some(user), Some(system)) => Ok(Duration::from_millis(10 * (user + system))),
        _ => Err(format!("{path} is not understood")),
    }
}

/// The resident memory of a process, in MiB.
pub(super) fn resident(process: u32) -> Result<f64, String> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| format!("{path} has no VmRSS"))
}
