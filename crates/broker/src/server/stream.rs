//! Serves connections that do not come from a TCP listener, such as pipes in simulation.

use crate::Limits;
use crate::api::Dispatch;
use crate::context::Context;
use crate::net::{Connection, ConnectionInfo, RequestHandler, RequestReader, ResponseWriter};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

/// A broker without a listener: it serves the streams that the caller gives it, on the tokio runtime of the caller.
#[derive(Debug)]
pub struct StreamServer {
    context: Arc<Context>,
    limits: Arc<Limits>,
    /// One sender for each connection: a shared one would wake the connections in a random order.
    stops: Vec<watch::Sender<bool>>,
    served: u64,
}

impl StreamServer {
    /// A broker that can be reached only by [`StreamServer::serve`].
    pub fn new(context: Context) -> StreamServer {
        let limits = Arc::new(context.limits.clone());
        StreamServer { context: Arc::new(context), limits, stops: Vec::new(), served: 0 }
    }

    /// The broker's context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Serves one connection. The future returns the reason for which the connection ended. Dropping it cuts the
    /// connection.
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
        let info = ConnectionInfo { number: self.served, peer, certificate_name: None };
        let dispatch = Arc::new(Dispatch::new(Arc::clone(&self.context), Arc::clone(&self.context.listener)));
        let budget = Arc::clone(&self.context.request_budget);
        let reader = RequestReader::new(source, budget, Arc::clone(&self.limits), dispatch.frame_bounds());
        let limits = Arc::clone(&self.limits);
        let connection = Connection::new(dispatch, limits, info, reader, ResponseWriter::new(sink));
        let (stop, stopping) = watch::channel(false);
        self.stops.retain(|stop| !stop.is_closed());
        self.stops.push(stop);
        async move { connection.serve(stopping).await.to_string() }
    }

    /// Stops reading and gives responses under way [`Limits::stop_grace`], as [`crate::Server::stop`] does.
    pub fn stop(&self) {
        for stop in &self.stops {
            stop.send_replace(true);
        }
    }
}
