//! Accepts the connections of one TCP listener, counts them, and ends them when the broker stops.

use super::connection::CloseReason;
use super::handshake::{TlsHandshakes, client_certificate};
use super::protocol_errors::ProtocolErrors;
use super::{
    Connection, ConnectionEvent, ConnectionInfo, RequestBudget, RequestHandler, RequestReader, ResponseWriter,
};
use crate::Limits;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// Pause after a failed accept, for example when no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time beyond [`Limits::stop_grace`] after which connections that have not ended are cut.
const STOP_MARGIN: Duration = Duration::from_millis(500);

/// The task that accepts connections. Dropping this handle ends the task and its connections at once.
#[derive(Debug)]
pub(crate) struct ListenerTask {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl ListenerTask {
    /// Starts to accept, on the tokio runtime this is called on.
    ///
    /// # Errors
    /// The listener has no address.
    pub(crate) fn start<H: RequestHandler>(
        listener: TcpListener,
        handler: Arc<H>,
        limits: Limits,
        shared: SharedByListeners,
        tls: Option<TlsHandshakes>,
    ) -> io::Result<ListenerTask> {
        let address = listener.local_addr()?;
        let (stop, stopping) = watch::channel(false);
        let acceptor = Acceptor {
            handler,
            limits: Arc::new(limits),
            shared,
            tls,
            stopping,
            rejected: ProtocolErrors::default(),
            misbehaved: Arc::default(),
        };
        let accepting = tokio::spawn(acceptor.run(listener));
        Ok(ListenerTask { address, stop, accepting })
    }

    /// The address on which the listener accepts.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting and reading, gives responses under way [`Limits::stop_grace`], then closes all connections.
    pub(crate) async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.accepting).await
            && error.is_panic()
        {
            tracing::error!(%error, "the accepting task panicked");
        }
    }
}

impl Drop for ListenerTask {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// The state of the accepting task.
struct Acceptor<H> {
    handler: Arc<H>,
    limits: Arc<Limits>,
    shared: SharedByListeners,
    /// How TLS connections are accepted; none if the listener has no TLS.
    tls: Option<TlsHandshakes>,
    stopping: watch::Receiver<bool>,
    rejected: ProtocolErrors,
    misbehaved: Arc<ProtocolErrors>,
}

impl<H: RequestHandler> Acceptor<H> {
    async fn run(mut self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.admit(stream, peer, &mut connections),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(ended) = connections.join_next() => log_panic(ended),
                _ = self.stopping.changed() => break,
            }
        }
        drop(listener);
        let all = async {
            while let Some(ended) = connections.join_next().await {
                log_panic(ended);
            }
        };
        // Dropping the set cuts the connections that remain after the timeout.
        let _ = timeout(self.limits.stop_grace + STOP_MARGIN, all).await;
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, connections: &mut JoinSet<()>) {
        let most = self.handler.max_connections().unwrap_or(self.limits.max_connections);
        if !self.shared.open.try_add(most) {
            self.handler.connection_event(ConnectionEvent::Rejected);
            self.rejected.warn(peer, format_args!("max.connections ({most}) are open already"));
            return;
        }
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
        }
        let info = ConnectionInfo { number: self.shared.open.next_number(), peer, certificate_name: None };
        let misbehaved = Arc::clone(&self.misbehaved);
        let counted = CountedConnection::new(Arc::clone(&self.handler), Arc::clone(&self.shared.open));
        let acceptance = Acceptance {
            handler: Arc::clone(&self.handler),
            limits: Arc::clone(&self.limits),
            budget: Arc::clone(&self.shared.budget),
            stopping: self.stopping.clone(),
        };
        let tls = self.tls.clone();
        connections.spawn(async move {
            let _counted = counted;
            let reason = match tls {
                None => {
                    let (source, sink) = stream.into_split();
                    acceptance.serve(info, source, sink).await
                }
                Some(tls) => Box::pin(acceptance.serve_encrypted(&tls, info, stream)).await,
            };
            if reason.is_ordinary() {
                tracing::debug!(%peer, "closed: {reason}");
            } else {
                misbehaved.warn(peer, reason);
            }
        });
    }
}

/// What serves a connection that was accepted.
struct Acceptance<H> {
    handler: Arc<H>,
    limits: Arc<Limits>,
    budget: Arc<RequestBudget>,
    stopping: watch::Receiver<bool>,
}

impl<H: RequestHandler> Acceptance<H> {
    async fn serve<R, W>(self, info: ConnectionInfo, source: R, sink: W) -> CloseReason
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin,
    {
        let Acceptance { handler, limits, budget, stopping } = self;
        let reader = RequestReader::new(source, budget, Arc::clone(&limits), handler.frame_bounds());
        let connection = Connection::new(handler, limits, info, reader, ResponseWriter::new(sink));
        connection.serve(stopping).await
    }

    /// The same after the TLS handshake, which says who the client is if it presents a certificate.
    async fn serve_encrypted(
        self,
        tls: &TlsHandshakes,
        info: ConnectionInfo,
        stream: TcpStream,
    ) -> CloseReason {
        let mut stopping = self.stopping.clone();
        let accepted = tokio::select! {
            accepted = tls.accept(stream) => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => return CloseReason::Normal("the broker stops"),
        };
        let identified = accepted.and_then(|stream| {
            let certificate_name = self.handler.identify(client_certificate(&stream))?;
            Ok((stream, certificate_name))
        });
        match identified {
            Ok((stream, certificate_name)) => {
                let (source, sink) = tokio::io::split(stream);
                self.serve(ConnectionInfo { certificate_name, ..info }, source, sink).await
            }
            Err(why) => CloseReason::Refused(why),
        }
    }
}

/// What the listeners of a broker share: the connections that are open, and the memory of their requests.
#[derive(Clone, Debug)]
pub(crate) struct SharedByListeners {
    pub(crate) open: Arc<OpenConnections>,
    pub(crate) budget: Arc<RequestBudget>,
}

/// The connections of all listeners.
#[derive(Debug, Default)]
pub(crate) struct OpenConnections {
    open: AtomicUsize,
    accepted: AtomicU64,
}

impl OpenConnections {
    /// Counts one more connection, unless so many are open.
    fn try_add(&self, most: usize) -> bool {
        let add = |open: usize| (open < most).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Numbers the connections from 1.
    fn next_number(&self) -> u64 {
        self.accepted.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A connection that was added to the open ones. Dropping it counts it as closed, also after a panic.
struct CountedConnection<H: RequestHandler> {
    handler: Arc<H>,
    open: Arc<OpenConnections>,
}

impl<H: RequestHandler> CountedConnection<H> {
    fn new(handler: Arc<H>, open: Arc<OpenConnections>) -> CountedConnection<H> {
        handler.connection_event(ConnectionEvent::Accepted);
        CountedConnection { handler, open }
    }
}

impl<H: RequestHandler> Drop for CountedConnection<H> {
    fn drop(&mut self) {
        self.open.open.fetch_sub(1, Ordering::Relaxed);
        self.handler.connection_event(ConnectionEvent::Closed);
    }
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "closed: a handler panicked; its connection is lost, this is a bug in the broker");
    }
}
