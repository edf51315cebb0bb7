//! The broker under test, killed and started again on the same folder and port.

use crate::e2e::broker;
use crate::process::{self, Guard};
use crate::{kafka, process::free_port};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A broker that may be down.
pub(crate) struct Broker {
    pub(crate) title: String,
    pub(crate) port: u16,
    kind: Kind,
}

enum Kind {
    Kafka { folder: PathBuf, node: Option<kafka::Node> },
    Ottla { binary: PathBuf, folder: PathBuf, guard: Option<Guard> },
}

impl Broker {
    /// Starts `ottla`, of this binary if one is given, or `kafka` on a fresh folder below the run's.
    pub(crate) fn start(against: &str, binary: Option<PathBuf>, run: &Path) -> Result<Broker, String> {
        let (folder, port) = (run.join("data"), free_port()?);
        let (title, kind) = match against {
            "kafka" => (format!("Apache Kafka {}", kafka::VERSION), Kind::Kafka { folder, node: None }),
            "ottla" => {
                let binary = binary.map_or_else(broker::build_ottla, Ok)?;
                ("Ottla".to_owned(), Kind::Ottla { binary, folder, guard: None })
            }
            other => return Err(format!("--against takes ottla or kafka, not {other}")),
        };
        let mut broker = Broker { title, port, kind };
        broker.restart()?;
        Ok(broker)
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        match &mut self.kind {
            Kind::Kafka { node, .. } => drop(node.take().map(kafka::Node::kill)),
            Kind::Ottla { guard, .. } => drop(guard.take().map(Guard::kill)),
        }
    }

    /// Pauses the process (SIGSTOP), as a machine does that swaps or migrates.
    pub(crate) fn pause(&self, time: Duration) {
        let guard = match &self.kind {
            Kind::Kafka { node, .. } => node.as_ref().map(kafka::Node::guard),
            Kind::Ottla { guard, .. } => guard.as_ref(),
        };
        if let Some(guard) = guard {
            guard.pause();
            std::thread::sleep(time);
            guard.resume();
        }
    }

    /// Starts it on the same folder, and returns when it answers.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        let port = self.port;
        match &mut self.kind {
            Kind::Kafka { folder, node } => {
                let settings = broker::settings();
                let folder = folder.clone();
                *node = Some(kafka::start(&kafka::Options {
                    port,
                    advertised: port,
                    sasl: None,
                    folder,
                    settings,
                })?);
            }
            Kind::Ottla { binary, folder, guard } => {
                let log = folder.with_extension("log");
                *guard = Some(broker::serve(binary, port, port, folder, &log)?);
            }
        }
        Ok(())
    }

    /// Starts it and kills it again after so long, ready or not: a crash during recovery. Only where a start is a
    /// matter of milliseconds; else it does nothing and says so.
    pub(crate) fn stumble(&mut self, after: Duration) -> Result<bool, String> {
        let Kind::Ottla { binary, folder, .. } = &self.kind else {
            return Ok(false);
        };
        let log = folder.with_extension("log");
        let guard = Guard::start(&mut broker::ottla(binary, self.port, self.port, folder, &log)?)?;
        std::thread::sleep(after);
        guard.kill();
        Ok(true)
    }

    /// Whether it ended by itself, which it never should.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let Kind::Ottla { guard: Some(guard), folder, .. } = &mut self.kind else {
            return Ok(());
        };
        match guard.ended()? {
            None => Ok(()),
            Some(status) => {
                let log = folder.with_extension("log");
                Err(format!("the broker ended by itself with {status}; see {}", log.display()))
            }
        }
    }

    pub(crate) fn bootstrap(&self) -> String {
        process::local(self.port).to_string()
    }
}
