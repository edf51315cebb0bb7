//! Connections that come from elsewhere than a listener: over pipes, in simulation.

use super::connection::{Connection, Guest};
use super::intake::Intake;
use super::outbox::Outbox;
use super::{Allowance, Budget};
use crate::api::Dispatch;
use crate::{Context, Limits};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

/// Serves Kafka's protocol over any stream, on the tokio runtime of the caller.
#[derive(Debug)]
pub struct Door {
    context: Arc<Context>,
    limits: Arc<Limits>,
    /// One for each connection: a shared one would wake them in an order by chance.
    stops: Vec<watch::Sender<bool>>,
    served: u64,
}

impl Door {
    /// A broker that can be reached only by [`Door::serve`].
    pub fn new(mut context: Context, limits: Limits) -> Door {
        context.answers = Allowance::new(limits.max_response_bytes);
        context.requests = Budget::of(&limits, Some(context.reader.clone()));
        Door { context: Arc::new(context), limits: Arc::new(limits), stops: Vec::new(), served: 0 }
    }

    /// What its answers are made from.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Serves one connection; the future says at last why it ended. Dropping it cuts the connection.
    pub fn serve<R, W>(
        &mut self,
        peer: SocketAddr,
        source: R,
        sink: W,
    ) -> impl Future<Output = String> + Send + 'static
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        self.served += 1;
        let guest = Guest { number: self.served, peer };
        let intake = Intake::new(source, Arc::clone(&self.context.requests), Arc::clone(&self.limits));
        let dispatch = Arc::new(Dispatch(Arc::clone(&self.context)));
        let limits = Arc::clone(&self.limits);
        let connection = Connection::new(dispatch, limits, guest, intake, Outbox::new(sink));
        let (stop, stopping) = watch::channel(false);
        self.stops.retain(|stop| !stop.is_closed());
        self.stops.push(stop);
        async move { connection.serve(stopping).await.to_string() }
    }

    /// Lets connections finish what is under way, as [`crate::Server::stop`] does.
    pub fn stop(&self) {
        for stop in &self.stops {
            stop.send_replace(true);
        }
    }
}
