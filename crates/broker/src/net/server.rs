//! Accepts connections, counts them, and ends them when the broker stops.

use super::budget::Budget;
use super::complaints::Complaints;
use super::connection::{Connection, Guest};
use super::intake::Intake;
use super::outbox::Outbox;
use super::{Allowance, Answerer, Coming};
use crate::api::Dispatch;
use crate::{Context, Limits};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// How long to wait when no connection can be accepted, for want of file descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How much longer than the connections themselves the server waits for them.
const STOP_MARGIN: Duration = Duration::from_millis(500);

/// A broker that serves. Dropping it ends it and its connections at once; [`Server::stop`] lets them finish.
#[derive(Debug)]
pub struct Server {
    context: Arc<Context>,
    listening: Listening,
}

impl Server {
    /// Serves Kafka's protocol to whoever connects to `listener`, on the tokio runtime this is called on.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn bind(listener: TcpListener, mut context: Context, limits: Limits) -> io::Result<Server> {
        if context.advertised.port == 0 {
            context.advertised.port = listener.local_addr()?.port();
        }
        context.answers = Allowance::new(limits.max_response_bytes);
        context.requests = Budget::of(&limits, Some(context.reader.clone()));
        let (budget, context) = (Arc::clone(&context.requests), Arc::new(context));
        let dispatch = Arc::new(Dispatch(Arc::clone(&context)));
        let listening = Listening::start(listener, dispatch, limits, budget)?;
        Ok(Server { context, listening })
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.listening.address
    }

    /// What its answers are made from.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Stops accepting and reading, lets answers that are under way leave within [`Limits::stop_grace`], closes all connections.
    pub async fn stop(self) {
        self.listening.stop().await;
    }
}

/// A listener at work, whoever answers. Dropping it ends it and its connections at once.
#[derive(Debug)]
pub(crate) struct Listening {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Listening {
    pub(crate) fn start<A: Answerer>(
        listener: TcpListener,
        answerer: Arc<A>,
        limits: Limits,
        budget: Arc<Budget>,
    ) -> io::Result<Listening> {
        let address = listener.local_addr()?;
        let (stop, stopping) = watch::channel(false);
        let house = House {
            answerer,
            limits: Arc::new(limits),
            budget,
            stopping,
            accepted: 0,
            turned_away: Complaints::default(),
            misbehaved: Arc::default(),
        };
        let accepting = tokio::spawn(house.accept_all(listener));
        Ok(Listening { address, stop, accepting })
    }

    /// The address it listens on.
    #[cfg(test)]
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// See [`Server::stop`].
    pub(crate) async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.accepting).await
            && error.is_panic()
        {
            tracing::error!(%error, "the accepting task panicked");
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// What the connections of a server share.
struct House<A> {
    answerer: Arc<A>,
    limits: Arc<Limits>,
    budget: Arc<Budget>,
    stopping: watch::Receiver<bool>,
    accepted: u64,
    turned_away: Complaints,
    misbehaved: Arc<Complaints>,
}

impl<A: Answerer> House<A> {
    async fn accept_all(mut self, listener: TcpListener) {
        let mut guests = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.admit(stream, peer, &mut guests),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(left) = guests.join_next() => note_panic(left),
                _ = self.stopping.changed() => break,
            }
        }
        drop(listener);
        let all = async {
            while let Some(left) = guests.join_next().await {
                note_panic(left);
            }
        };
        // Whoever is left after that is cut off as the set is dropped.
        let _ = timeout(self.limits.stop_grace + STOP_MARGIN, all).await;
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, guests: &mut JoinSet<()>) {
        let most = self.limits.max_connections;
        if guests.len() >= most {
            self.answerer.came(Coming::TurnedAway);
            self.turned_away.warn(peer, format_args!("max.connections ({most}) are open already"));
            return;
        }
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
        }
        self.accepted += 1;
        let guest = Guest { number: self.accepted, peer };
        let (source, sink) = stream.into_split();
        let intake = Intake::new(source, Arc::clone(&self.budget), Arc::clone(&self.limits));
        let connection = Connection::new(
            Arc::clone(&self.answerer),
            Arc::clone(&self.limits),
            guest,
            intake,
            Outbox::new(sink),
        );
        let stopping = self.stopping.clone();
        let misbehaved = Arc::clone(&self.misbehaved);
        let open = Open::new(Arc::clone(&self.answerer));
        guests.spawn(async move {
            let _open = open;
            let closed = connection.serve(stopping).await;
            if closed.is_ordinary() {
                tracing::debug!(%peer, "closed: {closed}");
            } else {
                misbehaved.warn(peer, closed);
            }
        });
    }
}

/// A connection that is open: its end is told, whatever ends it.
struct Open<A: Answerer>(Arc<A>);

impl<A: Answerer> Open<A> {
    fn new(answerer: Arc<A>) -> Open<A> {
        answerer.came(Coming::Accepted);
        Open(answerer)
    }
}

impl<A: Answerer> Drop for Open<A> {
    fn drop(&mut self) {
        self.0.came(Coming::Closed);
    }
}

fn note_panic(left: Result<(), JoinError>) {
    if let Err(error) = left
        && error.is_panic()
    {
        tracing::error!(%error, "closed: a handler panicked; its connection is lost, this is a bug in the broker");
    }
}
