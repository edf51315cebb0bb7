//! The application and its helpers (e2e/streams): how they are built and started, and what they say.

use crate::process;
use crate::program::Running;
use serde::Deserialize;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

/// `application.id`: the group, and the first part of the names of the application's own topics.
pub(crate) const ID: &str = "shop";

fn out() -> PathBuf {
    process::root().join("target/e2e/streams")
}

/// Fetches and builds the programs.
pub(crate) fn prepare() -> Result<(), String> {
    let (folder, out) = (process::root().join("e2e/streams"), out());
    let pom = folder.join("pom.xml");
    let pom = fs::read_to_string(&pom).map_err(|e| format!("cannot read {}: {e}", pom.display()))?;
    let stamp = out.join("installed");
    fs::create_dir_all(&out).map_err(|e| format!("cannot make {}: {e}", out.display()))?;
    let out = out.display();
    if fs::read_to_string(&stamp).map_or(true, |done| done != pom) {
        let target = format!("-DoutputDirectory={out}/jars");
        process::run(&folder, &["mvn", "-q", "-B", "dependency:copy-dependencies", &target])?;
        fs::write(&stamp, pom).map_err(|e| format!("cannot write {}: {e}", stamp.display()))?;
    }
    let build = format!("javac -d {out}/classes -cp '{out}/jars/*' src/*.java");
    process::run(&folder, &["sh", "-c", &build])
}

fn command(arguments: &[&str]) -> Command {
    let out = out().display().to_string();
    let mut command = Command::new("java");
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]);
    command.args([
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
    ]);
    command.args(["-cp", &format!("{out}/classes:{out}/jars/*"), "Main"]);
    command.args(arguments);
    command
}

/// One line that a program wrote to stdout.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Event {
    #[serde(rename = "e")]
    pub(crate) kind: Kind,
    #[serde(rename = "t", default)]
    pub(crate) topic: String,
    #[serde(rename = "p", default)]
    pub(crate) partition: i32,
    #[serde(rename = "o", default)]
    pub(crate) offset: i64,
    #[serde(rename = "v", default)]
    pub(crate) value: String,
    #[serde(rename = "n", default)]
    pub(crate) count: u64,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// `feed`: the topics are there.
    Ready,
    /// `feed`: a record could not be sent.
    Unsent,
    /// `app`: so many updates of totals went through, committed or not.
    Updates,
    /// `app`: a thread of the application gave up and was replaced.
    Fatal,
    /// `app`: a value that is in a store of this instance.
    Stored,
    /// `app`: all that it stores was said.
    Dumped,
    /// `look`: a record.
    Record,
    /// `look`: the high watermark of a partition.
    High,
    /// `look`: the last stable offset of a partition.
    Stable,
    /// `look`: a topic that the application made for itself.
    Topic,
    /// `look`: what the application has committed.
    Committed,
}

/// What programs said so far.
#[derive(Clone, Default)]
pub(crate) struct Ledger {
    events: Arc<Mutex<Vec<Event>>>,
}

impl Ledger {
    /// How many things of this kind happened.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.lock().iter().filter(|event| event.kind == kind).count()
    }

    /// The sum of the numbers that were said.
    pub(crate) fn sum(&self, kind: Kind) -> u64 {
        self.lock().iter().filter(|event| event.kind == kind).map(|event| event.count).sum()
    }

    /// All things of this kind.
    pub(crate) fn all(&self, kind: Kind) -> Vec<Event> {
        self.lock().iter().filter(|event| event.kind == kind).cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The run's folder, where every program leaves what it said; and all that was said.
pub(crate) struct Scene {
    pub(crate) folder: PathBuf,
    pub(crate) ledger: Ledger,
}

impl Scene {
    /// Starts a program; what it says goes to the ledger. `name` names its logs.
    pub(crate) fn start(&self, name: &str, arguments: &[&str]) -> Result<Running, String> {
        let ledger = self.ledger.clone();
        Running::start(command(arguments), &self.folder, name, move |line| {
            if let Ok(event) = serde_json::from_str(line) {
                ledger.lock().push(event);
            }
        })
    }
}
