//! The broker under test: Ottla or Apache Kafka behind the proxy, or one that already runs.

use super::proxy::Proxy;
use super::secured::{self, Secured};
use crate::process::{self, Guard};
use crate::{kafka, raw};
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Both brokers get the same ones; the README of e2e/ names them.
const SETTINGS: [(&str, &str); 3] = [
    ("num.partitions", "3"),
    ("auto.create.topics.enable", "true"),
    ("group.initial.rebalance.delay.ms", "0"),
];

/// A broker that answers; it is stopped when this is dropped, if the runner started it.
pub(crate) struct Broker {
    /// What the table calls it.
    pub(crate) title: String,
    /// Where clients connect.
    pub(crate) address: SocketAddr,
    /// Where the runner itself looks at stored batches.
    pub(crate) plain: SocketAddr,
    /// How clients reach it, if it takes them over SASL_SSL only.
    pub(crate) secured: Option<Secured>,
    /// The proxy's control port.
    pub(crate) control: Option<u16>,
    _running: Option<Running>,
}

enum Running {
    Kafka(#[expect(dead_code, reason = "held for its drop")] kafka::Node),
    Ottla(#[expect(dead_code, reason = "held for its drop")] Guard),
}

/// Starts `ottla` or `kafka`, or takes the broker at `HOST:PORT`.
pub(crate) fn start(against: &str) -> Result<Broker, String> {
    match against {
        "kafka" => start_kafka(),
        "ottla" => start_ottla(),
        "ottla-secured" => start_secured(),
        address => running(address),
    }
}

fn running(address: &str) -> Result<Broker, String> {
    let resolved = address.to_socket_addrs().ok().and_then(|mut all| all.next());
    let address = resolved
        .ok_or_else(|| format!("--against takes ottla, ottla-secured, kafka or HOST:PORT, not {address}"))?;
    raw::api_versions(address)?;
    Ok(Broker {
        title: address.to_string(),
        address,
        plain: address,
        secured: None,
        control: None,
        _running: None,
    })
}

fn start_kafka() -> Result<Broker, String> {
    let port = process::free_port()?;
    let proxy = Proxy::start(process::local(port))?;
    let node = kafka::start(&kafka::Options {
        sasl: None,
        port,
        advertised: proxy.port,
        folder: kafka::fresh_folder(&format!("node-e2e-{port}"))?,
        settings: settings(),
    })?;
    let title = format!("Apache Kafka {}", kafka::VERSION);
    Ok(behind(&proxy, title, Running::Kafka(node)))
}

fn behind(proxy: &Proxy, title: String, running: Running) -> Broker {
    Broker {
        title,
        address: process::local(proxy.port),
        plain: process::local(proxy.port),
        secured: None,
        control: Some(proxy.control),
        _running: Some(running),
    }
}

fn start_ottla() -> Result<Broker, String> {
    let (root, binary) = (process::root(), build_ottla()?);
    let port = process::free_port()?;
    let proxy = Proxy::start(process::local(port))?;
    let data = fresh_data(&root, port)?;
    let log = data.with_extension("log");
    let guard = serve(&binary, port, proxy.port, &data, &log)?;
    Ok(behind(&proxy, "Ottla".to_owned(), Running::Ottla(guard)))
}

/// Ottla with TLS, SASL and an authorizer.
fn start_secured() -> Result<Broker, String> {
    let (binary, port, secured_port) = (build_ottla()?, process::free_port()?, process::free_port()?);
    let proxy = Proxy::start(process::local(secured_port))?;
    let data = fresh_data(&process::root(), port)?;
    let (secured, settings) = secured::prepare(&binary, &data, port, (secured_port, proxy.port))?;
    let log = data.with_extension("log");
    let mut command = ottla(&binary, port, port, &data, &log)?;
    for setting in &settings {
        command.args(["--set", setting]);
    }
    let guard = wait_until_ready(command, port, &log)?;
    let broker = behind(&proxy, "Ottla over SASL_SSL".to_owned(), Running::Ottla(guard));
    Ok(Broker { plain: process::local(port), secured: Some(secured), ..broker })
}

fn fresh_data(root: &Path, port: u16) -> Result<PathBuf, String> {
    let data = root.join(format!("target/e2e/ottla-{port}"));
    if data.exists() {
        fs::remove_dir_all(&data).map_err(|e| format!("cannot empty {}: {e}", data.display()))?;
    }
    let parent = root.join("target/e2e");
    fs::create_dir_all(&parent).map_err(|e| format!("cannot make {}: {e}", parent.display()))?;
    Ok(data)
}

/// The settings that both brokers get, as owned pairs.
pub(crate) fn settings() -> Vec<(String, String)> {
    SETTINGS.map(|(n, v)| (n.to_owned(), v.to_owned())).into()
}

/// Builds Ottla as users run it and returns the binary.
pub(crate) fn build_ottla() -> Result<PathBuf, String> {
    let root = process::root();
    process::run(&root, &["cargo", "build", "--release", "-p", "ottla"])?;
    Ok(process::built("release/ottla"))
}

/// The command of `ottla serve`, with what it prints appended to the log.
pub(crate) fn ottla(
    binary: &Path,
    port: u16,
    advertised: u16,
    data: &Path,
    log: &Path,
) -> Result<Command, String> {
    let out = fs::OpenOptions::new().create(true).append(true).open(log);
    let out = out.map_err(|e| format!("cannot write {}: {e}", log.display()))?;
    let err = out.try_clone().map_err(|e| e.to_string())?;
    let mut command = Command::new(binary);
    command.args(["serve", "--listen", &format!("127.0.0.1:{port}")]);
    command.arg("--data").arg(data);
    command.args(["--advertise", &format!("127.0.0.1:{advertised}")]);
    for (name, value) in SETTINGS {
        command.args(["--set", &format!("{name}={value}")]);
    }
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    Ok(command)
}

/// Starts `ottla serve` and returns when it answers requests.
pub(crate) fn serve(
    binary: &Path,
    port: u16,
    advertised: u16,
    data: &Path,
    log: &Path,
) -> Result<Guard, String> {
    wait_until_ready(ottla(binary, port, advertised, data, log)?, port, log)
}

/// Starts a command of `ottla serve` and returns when it answers requests at the port.
pub(crate) fn wait_until_ready(mut command: Command, port: u16, log: &Path) -> Result<Guard, String> {
    let mut guard = Guard::start(&mut command)?;
    let deadline = Instant::now() + Duration::from_secs(30);
    let log = log.display();
    loop {
        let unready = match raw::api_versions(process::local(port)) {
            Ok(_) => return Ok(guard),
            Err(unready) => unready,
        };
        if let Some(status) = guard.ended()? {
            return Err(format!("ottla serve ended with {status}; see {log}"));
        }
        if Instant::now() >= deadline {
            return Err(format!("ottla serve is not ready after 30 s: {unready}; see {log}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
