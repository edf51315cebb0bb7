//! The client programs: built and started once, then given cell after cell.

use crate::bench::peers;
use crate::e2e::clients;
use crate::kafka;
use crate::process::{self, Guard};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A kind of client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub(super) enum Client {
    /// Raw frames, at either version.
    Raw,
    /// Kafka's own client, which takes version 2.
    Java,
    /// librdkafka from C, which knows version 1.
    Librdkafka,
}

impl Client {
    pub(super) fn title(self) -> &'static str {
        match self {
            Client::Raw => "raw frames",
            Client::Java => "Java client 4.4.0",
            Client::Librdkafka => "librdkafka 2.16.0",
        }
    }
}

/// A client program that runs.
pub(super) struct Worker {
    guard: Guard,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Worker {
    /// Builds it if need be and starts it.
    pub(super) fn start(client: Client) -> Result<Worker, String> {
        let mut command = match client {
            Client::Raw => {
                let mut command = Command::new(peers::raw_binary());
                command.arg("worker");
                command
            }
            Client::Java => java()?,
            Client::Librdkafka => {
                let program = process::root().join("target/bench/txn-librdkafka");
                librdkafka(&sources().join("txn.c"), &program)?;
                Command::new(program)
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guard = Guard::start(&mut command)?;
        let child = guard.child();
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a worker has no pipes".to_owned());
        };
        let (said, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if said.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Worker { guard, stdin, lines })
    }

    /// Writes a line to it.
    pub(super) fn say(&mut self, line: &str) -> Result<(), String> {
        writeln!(self.stdin, "{line}").map_err(|e| format!("the client does not listen: {e}"))
    }

    /// Waits for a line that begins so, and returns it.
    pub(super) fn hear(&mut self, begin: &str, patience: Duration) -> Result<String, String> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).map_err(|e| format!("the client says nothing: {e}"))?;
            if line.starts_with(begin) {
                return Ok(line);
            }
            if line.starts_with("error ") {
                return Err(line);
            }
        }
    }

    /// CPU time that it has used.
    pub(super) fn cpu(&self) -> Result<Duration, String> {
        peers::cpu(self.guard.id())
    }
}

fn sources() -> PathBuf {
    process::root().join("e2e/bench/txn")
}

fn java() -> Result<Command, String> {
    let mut command = peers::java(&kafka::fetch()?);
    command.arg(sources().join("Txn.java"));
    Ok(command)
}

/// Compiles a C program against the library that the Python client brings along.
pub(in crate::bench) fn librdkafka(source: &Path, program: &Path) -> Result<(), String> {
    for client in clients::load(&["confluent-kafka".to_owned()])? {
        client.prepare()?;
    }
    let lib = process::root().join("target/e2e/confluent-kafka/venv/lib");
    let library = find(&lib).ok_or_else(|| format!("no librdkafka below {}", lib.display()))?;
    let folder = library.parent().unwrap_or(&lib).display().to_string();
    let shown = |path: &Path| path.display().to_string();
    let (source, out, library) = (shown(source), shown(program), shown(&library));
    let run_path = format!("-Wl,-rpath,{folder}");
    let words = ["cc", "-O2", "-pthread", &source, &library, &run_path, "-o", &out];
    fs::create_dir_all(program.parent().unwrap_or(program)).map_err(|e| format!("{out}: {e}"))?;
    process::run(&process::root(), &words)
}

/// The shared library in lib/pythonX/site-packages/confluent_kafka.libs.
fn find(lib: &Path) -> Option<PathBuf> {
    fs::read_dir(lib).ok()?.flatten().find_map(|python| {
        let libraries = fs::read_dir(python.path().join("site-packages/confluent_kafka.libs")).ok()?;
        let is_it = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("librdkafka"))
        };
        libraries.flatten().map(|entry| entry.path()).find(is_it)
    })
}
