//! A proxy between Kafka clients and any Kafka cluster that reports every frame that passes.
//! It must not know how frames are shown or kept: the program that started it reads [`Event`]s and does that.
//!
//! Bytes pass unchanged, except in responses that name brokers. In those the tap replaces each broker's address with its own and a
//! port that stands for that broker, so that clients reach the whole cluster through the tap.
//!
//! Memory is bounded. An event that is not received holds up the connection it is about, and a slow reader on one side slows down
//! the other side.
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

/// Events that may wait to be taken.
const QUEUED_EVENTS: usize = 64;
/// How long to wait after the system refused a connection, which it does when too many are open.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Something that a tap has seen or done.
#[derive(Debug)]
pub enum Event {
    /// A port was opened for a broker.
    PortOpened {
        /// Where clients reach it from now on.
        local: SocketAddr,
        /// Where the cluster says that it is.
        broker: String,
    },
    /// A client has connected.
    ConnectionOpened {
        /// The number of the connection, counted from 1.
        connection: u64,
        /// The client.
        client: SocketAddr,
        /// The port it has reached.
        local: SocketAddr,
        /// The broker that the port stands for.
        broker: String,
    },
    /// A frame has passed.
    Frame(RelayedFrame),
    /// Something that no frame tells.
    Note {
        /// The connection, if it is about one.
        connection: Option<u64>,
        /// What is the matter, in a sentence without its full stop.
        text: String,
    },
    /// A connection has ended.
    ConnectionClosed {
        /// Its number.
        connection: u64,
    },
}

/// A frame as it came, secrets masked.
#[derive(Debug)]
pub struct RelayedFrame {
    /// The connection.
    pub connection: u64,
    /// From the client, or to it.
    pub is_request: bool,
    /// When it was there as a whole.
    pub at: SystemTime,
    /// Its bytes, the size in front included. Of a frame above 100 MiB, or when too many large ones are under way, only the beginning.
    pub frame: Bytes,
    /// How many bytes it has, the size in front included.
    pub size: usize,
    /// The header of the request, of a response that of the request that it answers, with the version of the response: 0 for the
    /// answer to an ApiVersions request of an unknown version. None for SASL tokens without a header and
    /// for a response to nothing.
    pub head: Option<Head>,
    /// Of a response: the time since the request was there as a whole.
    pub latency: Option<Duration>,
    /// Whether the client is given other addresses than this answer has.
    pub rewritten: bool,
    /// What else is to be said about it.
    pub note: Option<String>,
    _reservation: Option<Reservation>,
}

impl RelayedFrame {
    /// A frame that passed elsewhere, as a capture file tells of it: whole, without a header that is known.
    pub fn elsewhere(connection: u64, is_request: bool, at: SystemTime, frame: Bytes) -> RelayedFrame {
        let size = frame.len();
        let (head, latency, note) = (None, None, None);
        RelayedFrame {
            connection,
            is_request,
            at,
            frame,
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
        /// What the system says.
        source: io::Error,
    },
}

/// A running tap; dropping it closes every port and connection.
#[derive(Debug)]
pub struct Tap {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Tap {
    /// Listens on an address (port 0 takes a free one; ports for further brokers are the next free ones behind it) and forwards to a
    /// broker, `HOST:PORT`, which need not run yet. Comes back with what it tells; the events end when the tap is dropped.
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
        let shared = Arc::new(Shared {
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

/// What all connections share.
#[derive(Debug)]
struct Shared {
    ports: BrokerPorts,
    events: mpsc::Sender<Event>,
    budget: Budget,
    /// Connections so far.
    connections: AtomicU64,
    tasks: Mutex<JoinSet<()>>,
}

impl Shared {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Waits until there is room for the event. Nobody need listen.
    async fn report(&self, event: Event) {
        let _ = self.events.send(event).await;
    }

    async fn note(&self, connection: Option<u64>, text: String) {
        self.report(Event::Note { connection, text }).await;
    }

    /// Gives a broker its port.
    async fn open(self: &Arc<Shared>, broker: BrokerAddress) {
        match self.ports.open(&broker).await {
            Ok(None) => {}
            Ok(Some(listener)) => {
                if let Ok(local) = listener.local_addr() {
                    self.report(Event::PortOpened { local, broker: host_and_port(&broker) }).await;
                }
                self.spawn(boxed_accept(self.clone(), listener, broker));
            }
            Err(why) => {
                let text =
                    format!("clients go past the tap to {}: no port for it: {why}", host_and_port(&broker));
                self.note(None, text).await;
            }
        }
    }
}

/// An address as people write it.
fn host_and_port((host, port): &BrokerAddress) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Carrying a connection can open a port, and a port carries connections: one of the two must not be part of the other's type.
fn boxed_accept(
    shared: Arc<Shared>,
    listener: TcpListener,
    broker: BrokerAddress,
) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(accept(shared, listener, broker))
}

/// Takes connections to one broker.
async fn accept(shared: Arc<Shared>, listener: TcpListener, broker: BrokerAddress) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => shared.spawn(serve_connection(shared.clone(), client, broker.clone())),
            Err(why) => {
                shared.note(None, format!("cannot take a connection: {why}")).await;
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Carries one connection from its beginning to its end.
async fn serve_connection(shared: Arc<Shared>, client: TcpStream, broker: BrokerAddress) {
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
