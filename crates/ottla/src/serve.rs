//! `ottla serve`: runs a broker until a signal stops it or its log fails.

use crate::logging::Logging;
use crate::signals::{reload_signal, stop_signal};
use crate::terminal::{last_output, say};
use ottla::{BadConfig, Broker, Config, Durability, Http, Storage};
use ottla_wire::explain::escape_lines;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Exchanges of each connection that `--trace` without a number records: `ottla_broker::TRACE_RING` as text.
const DEFAULT_RING: &str = "100";
/// Exit status for a configuration that was refused.
const BAD_CONFIG: u8 = 2;

/// Serves Kafka clients. Configuration: built-in defaults, --config, KAFKA_… variables, flags; a later source overrides
/// an earlier one.
#[derive(clap::Args, Default)]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 takes a free port [default: 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT", env = "OTTLA_LISTEN")]
    listen: Option<String>,
    /// Address that clients connect to, if it is not the one listened on (containers, port mappings)
    #[arg(long, value_name = "HOST:PORT", env = "OTTLA_ADVERTISE")]
    advertise: Option<String>,
    /// Address of the pages, metrics and health over HTTP, or off [default: 127.0.0.1:9080, if it is free]
    #[arg(long, value_name = "HOST:PORT|off", env = "OTTLA_HTTP")]
    http: Option<Http>,
    /// Folder for the data; created if it does not exist [default: ./ottla-data]
    #[arg(long, value_name = "FOLDER", env = "OTTLA_DATA", conflicts_with = "memory")]
    data: Option<PathBuf>,
    /// Keep everything in memory; the data is lost when the broker stops
    #[arg(long, env = "OTTLA_MEMORY")]
    memory: bool,
    /// When a write is acknowledged: disk (after fdatasync) or os (from the page cache, as Kafka does) [default: disk]
    #[arg(long, value_enum, env = "OTTLA_DURABILITY")]
    durability: Option<Durability>,
    /// Broker configuration under Kafka's names, for example --set num.partitions=3; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// TOML file with listen, advertise, http, data, memory, durability and a table [broker] of Kafka's names
    #[arg(long, value_name = "FILE", env = "OTTLA_CONFIG")]
    config: Option<PathBuf>,
    /// Record the last N exchanges of every connection with their bytes, to be read over HTTP
    #[arg(long, value_name = "N", env = "OTTLA_TRACE", num_args = 0..=1, default_missing_value = DEFAULT_RING)]
    trace: Option<usize>,
    /// What to log to stderr: error, warn, info, debug, or a filter such as ottla_broker=debug
    #[arg(long, value_name = "FILTER", env = "OTTLA_LOG", default_value = "info")]
    log: String,
}

/// Runs `ottla serve`; `started` is when the process began.
pub(crate) fn run(args: &ServeArgs, started: Instant) -> ExitCode {
    let refused = |error: BadConfig| {
        // An error in a file has several lines: it quotes the file.
        eprintln!("ottla: {}", escape_lines(&error.to_string()));
        ExitCode::from(BAD_CONFIG)
    };
    let logging = match Logging::start(&args.log) {
        Ok(logging) => logging,
        Err(error) => return refused(error),
    };
    let config = match config(args) {
        Ok(config) => config,
        Err(error) => return refused(error),
    };
    let broker = match Broker::start(&config) {
        Ok(broker) => broker,
        Err(ottla::StartError::Config(error)) => return refused(error),
        Err(error) => {
            last_output(move || say(error.to_string()));
            return ExitCode::FAILURE;
        }
    };
    let (address, millis) = (broker.address(), started.elapsed().as_secs_f64() * 1e3);
    let pages = broker.http_address().map_or_else(String::new, |http| format!(", pages at http://{http}"));
    let more = broker.addresses().iter().skip(1).fold(String::new(), |mut text, (name, address)| {
        // Writing to a string cannot fail.
        let _ = write!(text, ", {name} on {address}");
        text
    });
    println!("Ottla serves on {address}{more}{pages}, {}, ready after {millis:.1} ms", broker.describe());
    let failed = wait(&broker, &logging);
    match failed.map_or_else(|| broker.stop(), Err) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            last_output(move || say(format!("{failed}; find out why before you start again")));
            ExitCode::FAILURE
        }
    }
}

/// Waits for Ctrl-C, SIGTERM or a failure of the log.
fn wait(broker: &Broker, logging: &Logging) -> Option<ottla::BrokerFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return None };
    runtime.block_on(async {
        tokio::select! {
            failed = broker.failed() => Some(failed),
            () = stop_signal() => None,
            () = logging.report_dropped() => None,
            () = reload_on_signal(broker) => None,
        }
    })
}

/// Reads the keys and certificates again at each SIGHUP.
async fn reload_on_signal(broker: &Broker) {
    let Some(mut signal) = reload_signal() else { return std::future::pending().await };
    while signal.recv().await.is_some() {
        broker.reload_certificates();
    }
    std::future::pending().await
}

fn config(args: &ServeArgs) -> Result<Config, BadConfig> {
    let mut config = Config::default();
    if let Some(path) = &args.config {
        config.merge_file(path)?;
    }
    for variable in config.merge_environment(std::env::vars())? {
        tracing::warn!(variable, "this environment variable means nothing to Ottla and is ignored");
    }
    if let Some(listen) = &args.listen {
        config.listen.clone_from(listen);
    }
    if args.advertise.is_some() {
        config.advertise.clone_from(&args.advertise);
    }
    if let Some(http) = &args.http {
        config.http.clone_from(http);
    }
    if let Some(folder) = &args.data {
        config.storage = Storage::Folder(folder.clone());
    }
    if args.trace.is_some() {
        config.trace = args.trace;
    }
    if args.memory {
        config.storage = Storage::Memory;
    }
    if let Some(durability) = args.durability {
        config.durability = durability;
    }
    for setting in &args.settings {
        let (name, value) = setting
            .split_once('=')
            .ok_or_else(|| BadConfig::new("--set", format!("'{setting}' is not NAME=VALUE")))?;
        config.set("--set", name.trim(), value)?;
    }
    Ok(config)
}
