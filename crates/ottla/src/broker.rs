//! A broker in this process: it is started from a configuration and stops when it is dropped.

use crate::config::{BadConfig, Config, Durability, Http, Storage};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ottla_broker::host::{self, Host, HostOptions, RunningHost, Snapshots};
use ottla_broker::{
    AdvertisedAddress, Context, ContextOptions, Limits, ListenerConfig, ListenerError, Randomness,
    ServedListener, Server, Trace,
};
use ottla_core::config::Settings;
use ottla_store::{DiskMedium, Medium, MemoryMedium, Options};
use ottla_web::{App, Web};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Bytes of log after which a broker in memory takes a snapshot, which frees old commits.
const SNAPSHOT_EVERY_IN_MEMORY: u64 = 64 << 20;

/// Limit of the threads that read the disk for consumers.
const MAX_READER_THREADS: usize = 16;

/// The least number of segments that should fit on the disk when a folder is created.
const MIN_SEGMENTS: u64 = 16;
/// The smallest segment in bytes, since a batch must fit into half of one.
const MIN_SEGMENT_SIZE: u64 = 4 << 20;

/// A running broker. Dropping it stops it: connections are closed, and everything acknowledged is durable.
#[derive(Debug)]
pub struct Broker {
    address: SocketAddr,
    addresses: Vec<(String, SocketAddr)>,
    description: String,
    server: Option<Server>,
    web: Option<Web>,
    host: Host,
    shard: Option<JoinHandle<()>>,
    failure: watch::Receiver<Option<String>>,
    runtime: Option<Runtime>,
}

/// Configures and starts a broker.
#[derive(Clone, Debug)]
pub struct Builder {
    config: Config,
    settings: Vec<(String, String)>,
}

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is not legal.
    #[error(transparent)]
    Config(#[from] BadConfig),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The data folder cannot be created or is in use; the message names it.
    #[error(transparent)]
    Folder(Box<dyn std::error::Error + Send + Sync>),
    /// The data cannot be opened.
    #[error("{place}: {source}")]
    Data {
        /// The folder, or "memory".
        place: String,
        /// The error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system refuses a thread, random bytes or a socket.
    #[error("the system refuses {what}: {source}")]
    System {
        /// What was requested.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

/// The log of the broker failed: state in memory may not be on disk, so the broker stopped answering.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log failed, nothing more is acknowledged: {0}")]
pub struct BrokerFailure(String);

impl Broker {
    /// A broker that keeps its data in memory, on a free port of 127.0.0.1. The data is lost when it stops.
    pub fn in_memory() -> Builder {
        Builder::from_storage(Storage::Memory)
    }

    /// A broker that keeps its data in a folder, on a free port of 127.0.0.1.
    pub fn on_folder(folder: impl Into<PathBuf>) -> Builder {
        Builder::from_storage(Storage::Folder(folder.into()))
    }

    /// Starts a broker from a whole configuration.
    ///
    /// # Errors
    /// The configuration is not legal, the address is taken, or the data cannot be opened.
    pub fn start(config: &Config) -> Result<Broker, StartError> {
        let place = storage_name(config);
        let settings = config.settings()?;
        let listeners = bind_listeners(config, &settings)?;
        let limits = Limits::of(&settings);
        let trace = Trace::new(bytes(&settings, "ottla.trace.bytes"));
        let http = listen_http(&config.http)?;
        check_http_is_local(&http, &settings)?;
        let started = start_host(config)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(MAX_READER_THREADS)
            .thread_name("ottla-net")
            .enable_all()
            .build()
            .map_err(|source| StartError::System { what: "threads", source })?;
        let names: Vec<String> = listeners.iter().map(|(_, served)| served.name().to_owned()).collect();
        let RunningHost { host, reader, failure, description, thread, .. } = started;
        let bind = async {
            let advertised = listeners.first().map(|(_, served)| served.advertised().clone());
            let advertised = advertised.unwrap_or_else(|| AdvertisedAddress { host: String::new(), port: 0 });
            let options = ContextOptions { limits, trace, ..ContextOptions::new(advertised, place) };
            let context = Context::new(host.clone(), reader, options).await.map_err(io::Error::other)?;
            if let Some(ring) = config.trace {
                context.trace().start(ring);
            }
            let mut sockets = Vec::with_capacity(listeners.len());
            for (socket, served) in listeners {
                sockets.push((tokio::net::TcpListener::from_std(socket)?, served));
            }
            let server = Server::bind_all(sockets, context)?;
            let web = match http {
                Some((listener, names)) => Some(start_web(listener, names, &server, &failure)?),
                None => None,
            };
            Ok((server, web))
        };
        let (server, web) = match run_on(&runtime, bind) {
            Ok(both) => both,
            Err(source) => {
                host.stop();
                runtime.shutdown_background();
                return Err(StartError::System { what: "the server", source });
            }
        };
        let address = server.local_addr();
        let addresses = names.into_iter().zip(server.local_addrs()).collect();
        Ok(Broker {
            address,
            addresses,
            description,
            server: Some(server),
            web,
            host,
            shard: Some(thread),
            failure,
            runtime: Some(runtime),
        })
    }

    /// The address clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The addresses of all listeners with their names, in the order of `listeners`.
    pub fn addresses(&self) -> &[(String, SocketAddr)] {
        &self.addresses
    }

    /// Reads the keys and certificates of all listeners again. A set that cannot be used is logged, and the one before
    /// stays in force.
    pub fn reload_certificates(&self) {
        if let Some(server) = &self.server {
            server.reload_certificates();
        }
    }

    /// The address of the pages, metrics and health; none if HTTP is off or its default port was in use.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.web.as_ref().map(Web::local_addr)
    }

    /// A short description of the log and its medium.
    pub fn describe(&self) -> &str {
        &self.description
    }

    /// Waits until the log of the broker fails, after which the process should end. Pending until then.
    pub async fn failed(&self) -> BrokerFailure {
        let mut failure = self.failure.clone();
        let failed = failure.wait_for(Option::is_some).await;
        match failed.as_deref() {
            Ok(Some(why)) => BrokerFailure(why.clone()),
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Stops the broker: it reads no more requests, sends the responses in progress, and closes the log.
    ///
    /// # Errors
    /// The log had failed.
    pub fn stop(mut self) -> Result<(), BrokerFailure> {
        self.finish();
        let failure = self.failure.borrow().clone();
        failure.map_or(Ok(()), |why| Err(BrokerFailure(why)))
    }

    fn finish(&mut self) {
        drop(self.web.take());
        if let (Some(server), Some(runtime)) = (self.server.take(), self.runtime.take()) {
            // A runtime must not be entered or dropped inside another one, and the caller may be inside one.
            let host = self.host.clone();
            let end = std::thread::spawn(move || {
                runtime.block_on(server.stop());
                host.stop();
                runtime.shutdown_background();
            });
            drop(end.join());
        }
        if let Some(shard) = self.shard.take() {
            drop(shard.join());
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Builder {
    fn from_storage(storage: Storage) -> Builder {
        let listen = "127.0.0.1:0".to_owned();
        let config = Config { listen, http: Http::Off, storage, ..Config::default() };
        Builder { config, settings: Vec::new() }
    }

    /// Listens on this address, `host:port`.
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> Builder {
        self.config.listen = address.into();
        self
    }

    /// Tells clients to connect to this address, `host:port`.
    #[must_use]
    pub fn advertise(mut self, address: impl Into<String>) -> Builder {
        self.config.advertise = Some(address.into());
        self
    }

    /// Serves pages, metrics and health over HTTP at this address, `host:port`; port 0 takes a free port. Off by
    /// default.
    #[must_use]
    pub fn http(mut self, address: impl Into<String>) -> Builder {
        self.config.http = Http::At(address.into());
        self
    }

    /// When a write is acknowledged.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.config.durability = durability;
        self
    }

    /// Sets a broker configuration key under Kafka's name.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Builder {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Starts the broker; it is ready when this returns.
    ///
    /// # Errors
    /// The configuration is not legal, the address is taken, or the data cannot be opened.
    pub fn start(mut self) -> Result<Broker, StartError> {
        for (name, value) in &self.settings {
            self.config.set("Builder::set", name, value)?;
        }
        Broker::start(&self.config)
    }
}

/// Runs work on a runtime from a thread of its own, because the caller may be inside another runtime, as async tests
/// are.
fn run_on<T: Send>(runtime: &Runtime, work: impl Future<Output = io::Result<T>> + Send) -> io::Result<T> {
    let done = std::thread::scope(|scope| scope.spawn(|| runtime.block_on(work)).join());
    done.unwrap_or_else(|_| Err(io::Error::other("the thread that starts the server panicked")))
}

fn listen(address: &str) -> Result<TcpListener, StartError> {
    let refused = |source| StartError::Listen { address: address.to_owned(), source };
    let listener = TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    Ok(listener)
}

/// The listener of HTTP, and the host name in its configuration.
fn listen_http(http: &Http) -> Result<Option<(TcpListener, Vec<String>)>, StartError> {
    match http {
        Http::Off => Ok(None),
        Http::At(address) => {
            let name = address.rsplit_once(':').map_or(address.as_str(), |(name, _)| name);
            Ok(Some((listen(address)?, vec![name.to_owned()])))
        }
        Http::IfFree => match listen(Http::DEFAULT) {
            Ok(listener) => Ok(Some((listener, Vec::new()))),
            Err(error) => {
                tracing::warn!("{error}; no pages, metrics or health over HTTP; --http chooses an address");
                Ok(None)
            }
        },
    }
}

/// S-17: the pages know no users, so they are for this machine only while an authorizer is configured.
fn check_http_is_local(
    http: &Option<(TcpListener, Vec<String>)>,
    settings: &Settings,
) -> Result<(), StartError> {
    let Some((listener, _)) = http else { return Ok(()) };
    let has_authorizer = settings.given("authorizer.class.name").is_some_and(|name| !name.trim().is_empty());
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    if has_authorizer && !is_local {
        let why =
            "with authorizer.class.name HTTP is served on loopback only, because its pages check no ACLs";
        return Err(BadConfig::new("http", why).into());
    }
    Ok(())
}

fn start_web(
    listener: TcpListener,
    names: Vec<String>,
    server: &Server,
    failure: &watch::Receiver<Option<String>>,
) -> io::Result<Web> {
    let address = listener.local_addr()?;
    let app = App::new(Arc::clone(server.context()), failure.clone(), address, names)
        .map_err(|error| io::Error::other(error.to_string()))?;
    Web::start(tokio::net::TcpListener::from_std(listener)?, app)
}

pub(crate) fn start_host(config: &Config) -> Result<RunningHost, StartError> {
    let settings = config.settings()?;
    let cluster_id = cluster_id()?;
    let refused = |source: Box<dyn std::error::Error + Send + Sync>| StartError::Data {
        place: storage_name(config),
        source,
    };
    let started = match &config.storage {
        Storage::Memory => {
            let log = Options::memory();
            let options = HostOptions {
                settings,
                log,
                cluster_id,
                snapshots: Snapshots::every(SNAPSHOT_EVERY_IN_MEMORY),
            };
            host::start(Arc::new(MemoryMedium::new()), options)
        }
        Storage::Folder(folder) => {
            let medium = DiskMedium::open(folder).map_err(|error| StartError::Folder(error.into()))?;
            // Direct writes would wait for the disk although the page cache is enough.
            let medium = match config.durability {
                Durability::Disk => medium,
                Durability::Os => medium.through_page_cache(),
            };
            let segment_size = segment_size(&medium);
            let recent = bytes(&settings, "ottla.recent.bytes");
            let durability = durability(config.durability);
            let zero_fill = durability == ottla_store::Durability::Sync;
            let log = Options { durability, segment_size, recent, zero_fill, ..Options::disk() };
            let snapshots = Snapshots::every(bytes(&settings, "ottla.snapshot.bytes") as u64);
            let options = HostOptions { settings, log, cluster_id, snapshots };
            host::start(Arc::new(medium), options)
        }
    };
    started.map_err(|error| refused(error.into()))
}

/// The value of a setting in bytes.
fn bytes(settings: &Settings, key: &str) -> usize {
    let value = settings.value(key).and_then(|text| text.trim().parse::<u64>().ok());
    value.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// The size of segments in a new folder: the default, or less on a small disk, where a few large segments would fill
/// the disk before the log could free one.
fn segment_size(medium: &DiskMedium) -> u64 {
    let free = medium.free_space().unwrap_or(u64::MAX);
    let mut size = Options::disk().segment_size;
    while size > MIN_SEGMENT_SIZE && size > free / MIN_SEGMENTS {
        size /= 2;
    }
    size
}

fn durability(durability: Durability) -> ottla_store::Durability {
    match durability {
        Durability::Disk => ottla_store::Durability::Sync,
        Durability::Os => ottla_store::Durability::Os,
    }
}

fn storage_name(config: &Config) -> String {
    match &config.storage {
        Storage::Memory => "memory".to_owned(),
        Storage::Folder(folder) => absolute(folder).display().to_string(),
    }
}

fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf())
}

/// Binds the listeners of a configuration, and reads their keys and users.
fn bind_listeners(
    config: &Config,
    settings: &Settings,
) -> Result<Vec<(TcpListener, ServedListener)>, StartError> {
    let refused = |error: ListenerError| BadConfig::new("broker configuration", error.to_string());
    let mut configured = ListenerConfig::all(settings, &config.listen).map_err(refused)?;
    if let (Some(given), [only]) = (&config.advertise, &mut configured[..]) {
        only.advertised = Some(advertise(given)?);
    }
    let randomness = Randomness::default();
    let mut listeners = Vec::with_capacity(configured.len());
    for listener in configured {
        let socket = listen(&listener.bind)?;
        let bound = socket.local_addr();
        let bound = bound.map_err(|source| StartError::System { what: "the local address", source })?;
        let served = listener.serve(settings, listener.advertised(bound), &randomness).map_err(refused)?;
        listeners.push((socket, served));
    }
    Ok(listeners)
}

/// The address of `--advertise`.
fn advertise(given: &str) -> Result<AdvertisedAddress, BadConfig> {
    let bad = || BadConfig::new("advertised address", format!("'{given}' is not host:port"));
    let (host, port) = given.rsplit_once(':').ok_or_else(bad)?;
    let port = port.parse().map_err(|_| bad())?;
    Ok(AdvertisedAddress { host: host.trim_matches(['[', ']']).to_owned(), port })
}

/// A new cluster id: 16 random bytes as 22 characters of URL-safe base64.
fn cluster_id() -> Result<String, StartError> {
    let mut random = [0; 16];
    let drawn = getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()));
    drawn.map_err(|source| StartError::System { what: "random bytes", source })?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advertised_for(listen: &str, advertise: Option<&str>) -> (String, u16) {
        let (listen, advertise) = (listen.to_owned(), advertise.map(str::to_owned));
        let config = Config { listen, advertise, ..Config::default() };
        let listeners = bind_listeners(&config, &config.settings().unwrap()).unwrap();
        let (socket, served) = &listeners[0];
        let port = socket.local_addr().unwrap().port();
        let AdvertisedAddress { host, port: told } = served.advertised().clone();
        (host, if told == port { 0 } else { told })
    }

    #[test]
    fn clients_are_told_the_address_listened_on_unless_another_is_configured() {
        assert_eq!(advertised_for("127.0.0.1:0", None), ("127.0.0.1".to_owned(), 0));
        assert_eq!(advertised_for("0.0.0.0:0", None), ("localhost".to_owned(), 0));
        assert_eq!(
            advertised_for("127.0.0.1:0", Some("kafka.example:9094")),
            ("kafka.example".to_owned(), 9094)
        );
        assert_eq!(advertised_for("127.0.0.1:0", Some("[::1]:9094")), ("::1".to_owned(), 9094));
    }
}
