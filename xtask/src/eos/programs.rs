//! The programs of a run: how they are started, and the lines that they write (e2e/exactly-once.md).

use crate::e2e::clients;
use crate::process;
use crate::program::Running;
use clap::ValueEnum;
use serde::Deserialize;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

impl Scene {
    /// Starts a program beside the others; what it says goes to the ledger. `name` names its logs.
    pub(crate) fn start(&self, client: Client, name: &str, arguments: &[&str]) -> Result<Running, String> {
        let moves = arguments.first() == Some(&"work");
        let mut scribe = Scribe { ledger: self.ledger.clone(), moves, reads: 0, ending: String::new() };
        Running::start(client.command(arguments), &self.folder, name, move |line| scribe.add(line))
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

/// Reads a line.
pub(crate) fn parse(line: &str) -> Result<Line, String> {
    serde_json::from_str(line).map_err(|e| format!("not a line of the contract: {line:?}: {e}"))
}
