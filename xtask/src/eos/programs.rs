//! The programs that a run consists of: how they are started, and what they say (e2e/exactly-once.md).

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Deserialize;

use crate::e2e::clients;
use crate::process::{self, Guard};

/// A client that can fill, work and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// confluent-kafka in Python: the oldest habits.
    Librdkafka,
    /// franz-go: transaction version 2.
    FranzGo,
    /// Java kafka-clients: Kafka's own producer and consumer.
    Java,
}

impl Client {
    /// As the command line and messages call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Client::Librdkafka => "librdkafka",
            Client::FranzGo => "franz-go",
            Client::Java => "java",
        }
    }

    /// Who fills the input while this one works.
    pub(crate) fn filler(self) -> Client {
        if self == Client::Java { Client::FranzGo } else { self }
    }

    fn command(self, arguments: &[&str]) -> Command {
        let root = process::root();
        let mut command = match self {
            Client::Librdkafka => {
                let mut python = Command::new(root.join("target/e2e/confluent-kafka/venv/bin/python"));
                python.arg(root.join("e2e/clients/confluent-kafka/eos.py"));
                python
            }
            Client::FranzGo => Command::new(root.join("target/e2e/franz-go/eos")),
            Client::Java => {
                let out = root.join("target/e2e/java").display().to_string();
                let mut java = Command::new("java");
                java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]);
                java.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
                java.args(["-cp", &format!("{out}/classes:{out}/jars/*"), "Eos"]);
                java
            }
        };
        command.args(arguments).current_dir(root);
        command
    }
}

/// Installs and builds the programs: of the client that works, and of those two that read.
pub(crate) fn prepare(worker: Client) -> Result<(), String> {
    let mut names = vec!["confluent-kafka".to_owned(), "franz-go".to_owned()];
    if worker == Client::Java {
        names.push("java".to_owned());
    }
    for client in clients::load(&names)? {
        client.prepare()?;
    }
    Ok(())
}

/// One line that a program wrote to stdout: an event of its history, in the checker's format.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Line {
    pub(crate) process: String,
    #[serde(flatten)]
    pub(crate) event: Event,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    Begin {},
    Read {
        key: String,
        offset: i64,
        value: String,
    },
    Write {
        key: String,
        value: String,
    },
    Ack {
        value: String,
        offset: i64,
    },
    Committed {
        key: String,
        offset: Option<i64>,
    },
    Ends {
        key: String,
        high: i64,
        stable: i64,
    },
    Ending {
        ending: String,
    },
    End {
        outcome: String,
    },
    #[serde(other)]
    Other,
}

/// What the programs said so far, and how much was moved.
#[derive(Clone, Default)]
pub(crate) struct Ledger {
    said: Arc<Mutex<String>>,
    moved: Arc<AtomicU64>,
    committed: Arc<AtomicU64>,
    aborted: Arc<AtomicU64>,
}

impl Ledger {
    /// Records in transactions that a worker knows to be committed.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// How many transactions are known to be committed, and how many to be aborted.
    pub(crate) fn transactions(&self) -> (u64, u64) {
        (self.committed.load(Ordering::Relaxed), self.aborted.load(Ordering::Relaxed))
    }

    /// Every line so far.
    pub(crate) fn text(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, line: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(line);
        said.push('\n');
    }
}

/// Takes down what one program says.
struct Scribe {
    ledger: Ledger,
    /// A worker: what it commits was moved.
    moves: bool,
    /// Records read in the operation under way, and how it was asked to end.
    reads: u64,
    ending: String,
}

impl Scribe {
    fn add(&mut self, line: &str) {
        let Ok(parsed) = parse(line) else {
            // A killed program may leave a torn line.
            return;
        };
        self.ledger.add(line);
        match parsed.event {
            Event::Begin {} => (self.reads, self.ending) = (0, String::new()),
            Event::Read { .. } => self.reads += 1,
            Event::Ending { ending } => self.ending = ending,
            Event::End { outcome } if outcome == "ok" => self.count(),
            _ => {}
        }
    }

    fn count(&self) {
        match self.ending.as_str() {
            "commit" => {
                self.ledger.committed.fetch_add(1, Ordering::Relaxed);
                if self.moves {
                    self.ledger.moved.fetch_add(self.reads, Ordering::Relaxed);
                }
            }
            "abort" => drop(self.ledger.aborted.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
    }
}

/// The run's folder: every program leaves there what it said.
pub(crate) struct Scene {
    pub(crate) folder: PathBuf,
    pub(crate) bootstrap: String,
    pub(crate) ledger: Ledger,
}

/// A program that runs until its stdin is closed.
pub(crate) struct Running {
    guard: Guard,
    stdin: Option<ChildStdin>,
    reader: Option<JoinHandle<()>>,
}

impl Scene {
    /// Starts a program beside the others; what it says goes to the ledger. `name` names its logs.
    pub(crate) fn start(&self, client: Client, name: &str, arguments: &[&str]) -> Result<Running, String> {
        let mut command = client.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(appended(&self.folder.join(format!("{name}.log")))?);
        let mut guard = Guard::start(&mut command)?;
        let stdin = guard.child().stdin.take();
        let said = guard.child().stdout.take();
        let copy = appended(&self.folder.join(format!("{name}.jsonl")))?;
        let moves = arguments.first() == Some(&"work");
        let scribe = Scribe { ledger: self.ledger.clone(), moves, reads: 0, ending: String::new() };
        let reader = said.map(|said| std::thread::spawn(move || listen(said, copy, scribe)));
        Ok(Running { guard, stdin, reader })
    }

    /// Runs a program to its end and adds what it said to the ledger.
    pub(crate) fn ask(&self, client: Client, arguments: &[&str], limit: Duration) -> Result<(), String> {
        let output = process::capture(&mut client.command(arguments), limit)?;
        if !output.status.is_some_and(|status| status.success()) {
            let name = client.name();
            return Err(format!("{name} {} failed: {}", arguments.join(" "), output.stderr.trim()));
        }
        for line in output.stdout.lines() {
            parse(line)?;
            self.ledger.add(line);
        }
        Ok(())
    }
}

fn appended(path: &Path) -> Result<File, String> {
    let open = OpenOptions::new().create(true).append(true).open(path);
    open.map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// Reads a line.
pub(crate) fn parse(line: &str) -> Result<Line, String> {
    serde_json::from_str(line).map_err(|e| format!("not a line of the contract: {line:?}: {e}"))
}

fn listen(said: ChildStdout, mut copy: File, mut scribe: Scribe) {
    for line in BufReader::new(said).lines().map_while(Result::ok) {
        // The copy is for people; the ledger is what counts.
        let _ = writeln!(copy, "{line}");
        scribe.add(&line);
    }
}

impl Running {
    /// Says a line to the program.
    pub(crate) fn say(&mut self, line: &str) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("stdin is closed")?;
        writeln!(stdin, "{line}").map_err(|e| format!("a program does not listen any more: {e}"))
    }

    /// Whether the program has ended by itself.
    pub(crate) fn has_ended(&mut self) -> Result<bool, String> {
        Ok(self.guard.ended()?.is_some())
    }

    /// Stops it in its tracks (`SIGSTOP`) until it may go on.
    pub(crate) fn pause(&self) {
        self.guard.pause();
    }

    /// Lets it go on (`SIGCONT`).
    pub(crate) fn resume(&self) {
        self.guard.resume();
    }

    /// Kills it at once.
    pub(crate) fn kill(self) {
        self.guard.kill();
        self.reader.map(JoinHandle::join);
    }

    /// Closes its stdin: it should come to an end.
    pub(crate) fn close(&mut self) {
        self.stdin = None;
    }

    /// Closes its stdin and waits for a good end.
    pub(crate) fn finish(&mut self, limit: Duration) -> Result<(), String> {
        self.close();
        let Some(status) = self.guard.wait(Instant::now() + limit)? else {
            return Err(format!("no end after {} s", limit.as_secs()));
        };
        self.reader.take().map(JoinHandle::join);
        match status.success() {
            true => Ok(()),
            false => Err(format!("ended with {status}")),
        }
    }
}
