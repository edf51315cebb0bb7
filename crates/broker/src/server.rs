//! Composes a broker: the [`Context`], the dispatch of its APIs, and the connections they answer.

mod stream;

pub use stream::StreamServer;

use crate::api::Dispatch;
use crate::context::Context;
use crate::net::ListenerTask;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// A broker that serves one TCP listener. Dropping it ends it and its connections at once; [`Server::stop`] lets
/// responses under way leave first.
#[derive(Debug)]
pub struct Server {
    context: Arc<Context>,
    listener: ListenerTask,
}

impl Server {
    /// Serves Kafka's protocol on `listener`, on the tokio runtime this is called on.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn bind(listener: TcpListener, context: Context) -> io::Result<Server> {
        let context = Arc::new(context);
        let dispatch = Arc::new(Dispatch::new(Arc::clone(&context)));
        let (limits, budget) = (context.limits.clone(), Arc::clone(&context.request_budget));
        let listener = ListenerTask::start(listener, dispatch, limits, budget)?;
        Ok(Server { context, listener })
    }

    /// The address on which the listener accepts.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// The broker's context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Stops accepting and reading, gives responses under way [`crate::Limits::stop_grace`], then closes all
    /// connections.
    pub async fn stop(self) {
        // Readers that wait for records are answered now; a host that is gone has none.
        for host in self.context.shards.all() {
            let _ = host.peek(|_, _, watchers| watchers.close()).await;
        }
        self.listener.stop().await;
    }
}
