//! A proxy between Kafka clients and any Kafka cluster that reports every frame that passes.
//! It must not know how frames are shown or kept: the program that started it reads [`Event`]s and does that.
//!
//! Bytes pass unchanged, except in responses that name brokers. In those the tap replaces each broker's address with
//! its own and a port that stands for that broker, so that clients reach the whole cluster through the tap.
//!
//! Memory is bounded. An event that is not received holds up the connection it is about, and a slow reader on one side
//! slows down the other side.
#![forbid(unsafe_code)]

mod frames;
mod mask;
mod pending;
mod ports;
mod relay;
mod rewrite;

pub use ottla_microscope::conversation::Head;

use bytes::Bytes;
use frames::{Budget, Reservation};
use ports::{BrokerAddress, BrokerPorts};
use relay::Relay;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Events that may wait to be received.
const QUEUED_EVENTS: usize = 64;
/// How long to wait after accepting a connection failed, as it does when too many files are open.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// What a tap reports.
#[derive(Debug)]
pub enum Event {
    /// A port was opened for a broker.
    PortOpened {
        /// The address at which clients reach that broker.
        local: SocketAddr,
        /// Its address as the cluster gives it.
        broker: String,
    },
    /// A client has connected.
    ConnectionOpened {
        /// The number of the connection, counted from 1.
        connection: u64,
        /// The client.
        client: SocketAddr,
        /// The address it connected to.
        local: SocketAddr,
        /// The broker that the port stands for.
        broker: String,
    },
    /// A frame was received.
    Frame(RelayedFrame),
    /// Something that no frame shows.
    Note {
        /// The connection, if it is about one.
        connection: Option<u64>,
        /// A sentence without its full stop.
        text: String,
    },
    /// A connection has ended.
    ConnectionClosed {
        /// Its number.
        connection: u64,
    },
}

/// A frame as it was received, with its secrets masked.
#[derive(Debug)]
pub struct RelayedFrame {
    /// The connection.
    pub connection: u64,
    /// True for a frame from the client.
    pub is_request: bool,
    /// When its last byte arrived.
    pub at: SystemTime,
    /// Its bytes, the size in front included. Only the beginning of a frame above 100 MiB, or when too many large
    /// frames are in transit.
    pub bytes: Bytes,
    /// How many bytes it has, the size in front included.
    pub size: usize,
    /// The header of the request; for a response, the header of the request that it answers with the version of the
    /// response, which is 0 for the answer to an ApiVersions request of an unknown version. None for SASL tokens
    /// without a header, and for a response whose request is not known.
    pub head: Option<Head>,
    /// Only for a response: the time since the last byte of the request arrived.
    pub latency: Option<Duration>,
    /// True if the client gets other addresses than this response has.
    pub rewritten: bool,
    /// A remark, in a sentence without its full stop.
    pub note: Option<String>,
    _reservation: Option<Reservation>,
}

impl RelayedFrame {
    /// A whole frame of a capture file, without a known header.
    pub fn from_capture(connection: u64, is_request: bool, at: SystemTime, bytes: Bytes) -> RelayedFrame {
        let size = bytes.len();
        let (head, latency, note) = (None, None, None);
        RelayedFrame {
            connection,
            is_request,
            at,
            bytes,
            size,
            head,
            latency,
            rewritten: false,
            note,
            _reservation: None,
        }
    }
}

/// Why a tap did not start.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The broker's address is not `HOST:PORT`.
    #[error("'{0}' is not HOST:PORT")]
    Address(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// A running tap; dropping it closes every port and connection.
#[derive(Debug)]
pub struct Tap {
    address: SocketAddr,
    shared: Arc<TapState>,
}

impl Tap {
    /// Listens on an address and forwards to a broker, both `HOST:PORT`. Port 0 takes a free port; further brokers get
    /// the next free ports after it. The broker need not run yet. Returns the tap and its events, which end when the
    /// tap is dropped.
    ///
    /// # Errors
    /// An address is malformed, or cannot be listened on.
    pub async fn start(listen: &str, to: &str) -> Result<(Tap, mpsc::Receiver<Event>), TapError> {
        let broker = ports::parse(to).ok_or_else(|| TapError::Address(to.to_owned()))?;
        let at = ports::parse(listen).ok_or_else(|| TapError::Address(listen.to_owned()))?;
        let refused = |source| TapError::Listen { address: listen.to_owned(), source };
        let listener = TcpListener::bind((at.0.as_str(), at.1)).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (events, receiver) = mpsc::channel(QUEUED_EVENTS);
        let shared = Arc::new(TapState {
            ports: BrokerPorts::new(address, broker.clone()).await,
            events,
            budget: Budget::default(),
            connections: AtomicU64::new(0),
            tasks: Mutex::default(),
        });
        shared.spawn(accept(shared.clone(), listener, broker));
        Ok((Tap { address, shared }, receiver))
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

/// State that all connections share.
#[derive(Debug)]
struct TapState {
    ports: BrokerPorts,
    events: mpsc::Sender<Event>,
    budget: Budget,
    /// The number of connections since the start.
    connections: AtomicU64,
    tasks: Mutex<JoinSet<()>>,
}

impl TapState {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Waits until the queue of events has space. Events are dropped once the receiver is.
    async fn report(&self, event: Event) {
        let _ = self.events.send(event).await;
    }

    async fn note(&self, connection: Option<u64>, text: String) {
        self.report(Event::Note { connection, text }).await;
    }

    /// Opens the port of a broker and serves it.
    async fn open(self: &Arc<TapState>, broker: BrokerAddress) {
        match self.ports.open(&broker).await {
            Ok(None) => {}
            Ok(Some(listener)) => {
                if let Ok(local) = listener.local_addr() {
                    self.report(Event::PortOpened { local, broker: host_and_port(&broker) }).await;
                }
                self.spawn(boxed_accept(self.clone(), listener, broker));
            }
            Err(why) => {
                let text = format!(
                    "clients connect to {} directly, because no port is free for it: {why}",
                    host_and_port(&broker)
                );
                self.note(None, text).await;
            }
        }
    }
}

/// An address as `HOST:PORT`, with an IPv6 address in brackets.
fn host_and_port((host, port): &BrokerAddress) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Boxed, because the future of a connection can open a port, and the future of a port contains those of its
/// connections.
fn boxed_accept(
    shared: Arc<TapState>,
    listener: TcpListener,
    broker: BrokerAddress,
) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(accept(shared, listener, broker))
}

/// Accepts connections for one broker.
async fn accept(shared: Arc<TapState>, listener: TcpListener, broker: BrokerAddress) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => shared.spawn(serve_connection(shared.clone(), client, broker.clone())),
            Err(why) => {
                shared.note(None, format!("cannot accept a connection: {why}")).await;
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Relays one connection from its beginning to its end.
async fn serve_connection(shared: Arc<TapState>, client: TcpStream, broker: BrokerAddress) {
    let connection = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let (Ok(peer), Ok(local)) = (client.peer_addr(), client.local_addr()) else { return };
    let name = host_and_port(&broker);
    shared.report(Event::ConnectionOpened { connection, client: peer, local, broker: name.clone() }).await;
    match TcpStream::connect((broker.0.as_str(), broker.1)).await {
        Ok(broker) => Relay::new(connection, local.ip(), shared.clone()).run(client, broker).await,
        Err(why) => shared.note(Some(connection), format!("cannot reach {name}: {why}")).await,
    }
    shared.report(Event::ConnectionClosed { connection }).await;
}
