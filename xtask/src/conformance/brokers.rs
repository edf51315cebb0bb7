//! The two brokers of a run, each on a folder of its own.

use crate::e2e::broker;
use crate::kafka;
use crate::process::{self, Guard};
use ottla_conformance::normal::Rules;
use ottla_conformance::peer::Peer;
use ottla_conformance::player::{Manners, Player};
use ottla_conformance::suite::{SETTINGS, secured, secured_settings};
use ottla_wire::{ApiInfo, Versions};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Kafka answers a change of topics or configuration before its broker has learned of it from its controller.
const SETTLE: Duration = Duration::from_millis(120);

/// Settings of Kafka alone: as many partitions of committed offsets as it has if nothing is said, so that a group is in
/// the same.
const KAFKAS: [(&str, &str); 1] = [("offsets.topic.num.partitions", "50")];

/// Apache Kafka.
pub(super) struct Kafka {
    port: u16,
    sasl: Option<u16>,
    _node: kafka::Node,
}

impl Kafka {
    /// Starts a node on a fresh folder.
    pub(super) fn start(is_secured: bool) -> Result<Kafka, String> {
        let port = process::free_port()?;
        let folder = kafka::fresh_folder("node-conformance")?;
        let sasl = if is_secured { Some(process::free_port()?) } else { None };
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut settings = if is_secured { secured_settings() } else { SETTINGS.map(owned).to_vec() };
        settings.extend(KAFKAS.map(owned));
        let node = kafka::start(&kafka::Options { port, advertised: port, sasl, folder, settings })?;
        Ok(Kafka { port, sasl, _node: node })
    }

    /// A player connected to it.
    pub(super) fn player<'a>(
        &self,
        rules: &'a Rules,
        served: &'a dyn Fn(&ApiInfo) -> Versions,
    ) -> Player<'a> {
        Player::new(peer(self.port, self.sasl), Manners { settle: SETTLE }, rules, served)
    }
}

/// A broker on these ports of 127.0.0.1.
fn peer(port: u16, sasl: Option<u16>) -> Peer {
    let peer = Peer::new(process::local(port));
    match sasl {
        None => peer,
        Some(sasl) => peer.with_secured(secured(process::local(sasl))),
    }
}

/// Ottla, the binary.
pub(super) struct Ottla {
    binary: PathBuf,
    port: u16,
    sasl: Option<u16>,
    folder: PathBuf,
    guard: Option<Guard>,
}

impl Ottla {
    /// Builds it and starts it on a fresh folder.
    pub(super) fn start(is_secured: bool) -> Result<Ottla, String> {
        let root = process::root();
        process::run(&root, &["cargo", "build", "--quiet", "-p", "ottla"])?;
        let binary = process::built("debug/ottla");
        let (folder, port) = (root.join("target/e2e/conformance"), process::free_port()?);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|e| format!("cannot empty {}: {e}", folder.display()))?;
        }
        fs::create_dir_all(root.join("target/e2e")).map_err(|e| format!("cannot make target/e2e: {e}"))?;
        let sasl = if is_secured { Some(process::free_port()?) } else { None };
        let mut ottla = Ottla { binary, port, sasl, folder, guard: None };
        ottla.restart()?;
        Ok(ottla)
    }

    /// Kills it, if it runs (`kill -9`), and starts it on what it left.
    pub(super) fn restart(&mut self) -> Result<SocketAddr, String> {
        if let Some(guard) = self.guard.take() {
            guard.kill();
        }
        let log = self.folder.with_extension("log");
        let mut command = broker::ottla(&self.binary, self.port, self.port, &self.folder, &log)?;
        if let Some(sasl) = self.sasl {
            let port = self.port;
            let listeners = format!("PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl}");
            command.args(["--set", &format!("listeners={listeners}")]);
            for (name, value) in secured_settings() {
                command.args(["--set", &format!("{name}={value}")]);
            }
        }
        self.guard = Some(broker::wait_until_ready(command, self.port, &log)?);
        Ok(process::local(self.port))
    }

    /// A connection to it.
    pub(super) fn peer(&self) -> Peer {
        peer(self.port, self.sasl)
    }

    /// A player connected to it that may restart it.
    pub(super) fn player<'a>(
        &'a mut self,
        rules: &'a Rules,
        served: &'a dyn Fn(&ApiInfo) -> Versions,
    ) -> Player<'a> {
        let mut player = Player::new(self.peer(), Manners::default(), rules, served);
        player.on_restart(Box::new(move || self.restart().map(Some)));
        player
    }
}
