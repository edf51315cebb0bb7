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

use super::check::{Reading, Record};
use crate::e2e::clients;
use crate::process::{self, Guard};

/// A client that can fill, work and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// confluent-kafka in Python: the oldest habits.
    Librdkafka,
    /// franz-go: transaction version 2.
    FranzGo,
}

impl Client {
    /// As the command line and messages call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Client::Librdkafka => "librdkafka",
            Client::FranzGo => "franz-go",
        }
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
        };
        command.args(arguments).current_dir(root);
        command
    }
}

/// Installs and builds the programs of both clients: one works, both read.
pub(crate) fn prepare() -> Result<(), String> {
    for client in clients::load(&["confluent-kafka".to_owned(), "franz-go".to_owned()])? {
        client.prepare()?;
    }
    Ok(())
}

/// One line that a program wrote to stdout.
#[derive(Clone, Deserialize)]
pub(crate) struct Event {
    #[serde(rename = "e")]
    kind: Kind,
    #[serde(rename = "p", default)]
    pub(crate) partition: i32,
    #[serde(rename = "o", default)]
    pub(crate) offset: i64,
    #[serde(rename = "v", default)]
    value: String,
    #[serde(default)]
    high: i64,
    #[serde(default)]
    stable: i64,
    #[serde(rename = "n", default)]
    count: u64,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// `fill`: a record is acknowledged.
    Ack,
    /// `fill`: nobody knows whether the record was stored.
    Unknown,
    /// `work`: a record was consumed.
    Seen,
    /// `work`: a transaction of so many records was committed.
    Commit,
    /// `work`: a transaction was aborted.
    Abort,
    /// `work`: the client cannot go on.
    Fatal,
    /// `read`: a record.
    Record,
    /// `read`: where a partition ends.
    End,
    /// `committed`: the group's offset.
    Committed,
}

/// What the programs said so far, and how much was moved.
#[derive(Clone, Default)]
pub(crate) struct Ledger {
    events: Arc<Mutex<Vec<Event>>>,
    moved: Arc<AtomicU64>,
}

impl Ledger {
    /// Records in transactions that a worker knows to be committed.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.lock().iter().filter(|event| event.kind == kind).count()
    }

    pub(crate) fn records(&self, kind: Kind) -> Vec<Record> {
        let events = self.lock();
        let record = |e: &Event| Record { partition: e.partition, offset: e.offset, value: e.value.clone() };
        events.iter().filter(|event| event.kind == kind).map(record).collect()
    }

    fn add(&self, event: Event) {
        if event.kind == Kind::Commit {
            self.moved.fetch_add(event.count, Ordering::Relaxed);
        }
        self.lock().push(event);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
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
        let ledger = self.ledger.clone();
        let reader = said.map(|said| std::thread::spawn(move || listen(said, copy, &ledger)));
        Ok(Running { guard, stdin, reader })
    }

    /// Runs a program to its end and returns what it said.
    pub(crate) fn ask(
        &self,
        client: Client,
        arguments: &[&str],
        limit: Duration,
    ) -> Result<Vec<Event>, String> {
        let output = process::capture(&mut client.command(arguments), limit)?;
        if !output.status.is_some_and(|status| status.success()) {
            let name = client.name();
            return Err(format!("{name} {} failed: {}", arguments.join(" "), output.stderr.trim()));
        }
        output.stdout.lines().map(parse).collect()
    }

    /// Reads a topic as a read_committed reader sees it.
    pub(crate) fn read(&self, client: Client, topic: &str) -> Result<Reading, String> {
        let events = self.ask(client, &["read", &self.bootstrap, topic], Duration::from_secs(90))?;
        let mut reading = Reading { reader: client.name().to_owned(), ..Reading::default() };
        for event in events {
            let (partition, offset) = (event.partition, event.offset);
            match event.kind {
                Kind::Record => reading.records.push(Record { partition, offset, value: event.value }),
                Kind::End => drop(reading.ends.insert(partition, (event.high, event.stable))),
                _ => {}
            }
        }
        Ok(reading)
    }
}

fn appended(path: &Path) -> Result<File, String> {
    let open = OpenOptions::new().create(true).append(true).open(path);
    open.map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn parse(line: &str) -> Result<Event, String> {
    serde_json::from_str(line).map_err(|e| format!("not a line of the contract: {line:?}: {e}"))
}

/// Passes on whole lines; a killed program may leave a torn one.
fn listen(said: ChildStdout, mut copy: File, ledger: &Ledger) {
    for line in BufReader::new(said).lines().map_while(Result::ok) {
        // The copy is for people; the ledger is what counts.
        let _ = writeln!(copy, "{line}");
        if let Ok(event) = parse(&line) {
            ledger.add(event);
        }
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
    pub(crate) fn finish(mut self, limit: Duration) -> Result<(), String> {
        self.close();
        let status = self.guard.wait(Instant::now() + limit)?;
        drop(self.guard);
        self.reader.map(JoinHandle::join);
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("ended with {status}")),
            None => Err(format!("no end after {} s", limit.as_secs())),
        }
    }
}
