//! Accepts the connections of one TCP listener, counts them, and ends them when the broker stops.

use super::protocol_errors::ProtocolErrors;
use super::{
    Connection, ConnectionEvent, ConnectionInfo, RequestBudget, RequestHandler, RequestReader, ResponseWriter,
};
use crate::Limits;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
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
        budget: Arc<RequestBudget>,
    ) -> io::Result<ListenerTask> {
        let address = listener.local_addr()?;
        let (stop, stopping) = watch::channel(false);
        let acceptor = Acceptor {
            handler,
            limits: Arc::new(limits),
            budget,
            stopping,
            accepted: 0,
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
    budget: Arc<RequestBudget>,
    stopping: watch::Receiver<bool>,
    /// Connections accepted so far; numbers them.
    accepted: u64,
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
        if connections.len() >= most {
            self.handler.connection_event(ConnectionEvent::Rejected);
            self.rejected.warn(peer, format_args!("max.connections ({most}) are open already"));
            return;
        }
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
        }
        self.accepted += 1;
        let info = ConnectionInfo { number: self.accepted, peer };
        let (source, sink) = stream.into_split();
        let reader = RequestReader::new(source, Arc::clone(&self.budget), Arc::clone(&self.limits));
        let connection = Connection::new(
            Arc::clone(&self.handler),
            Arc::clone(&self.limits),
            info,
            reader,
            ResponseWriter::new(sink),
        );
        let stopping = self.stopping.clone();
        let misbehaved = Arc::clone(&self.misbehaved);
        let counted = CountedConnection::new(Arc::clone(&self.handler));
        connections.spawn(async move {
            let _counted = counted;
            let reason = connection.serve(stopping).await;
            if reason.is_ordinary() {
                tracing::debug!(%peer, "closed: {reason}");
            } else {
                misbehaved.warn(peer, reason);
            }
        });
    }
}

/// Counts a connection as accepted, and as closed when dropped, also after a panic.
struct CountedConnection<H: RequestHandler>(Arc<H>);

impl<H: RequestHandler> CountedConnection<H> {
    fn new(handler: Arc<H>) -> CountedConnection<H> {
        handler.connection_event(ConnectionEvent::Accepted);
        CountedConnection(handler)
    }
}

impl<H: RequestHandler> Drop for CountedConnection<H> {
    fn drop(&mut self) {
        self.0.connection_event(ConnectionEvent::Closed);
    }
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "closed: a handler panicked; its connection is lost, this is a bug in the broker");
    }
}
