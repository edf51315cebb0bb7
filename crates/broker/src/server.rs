//! Composes a broker: the [`Context`], the dispatch of its APIs, and the connections they answer.

mod stream;

pub use stream::StreamServer;

use crate::api::Dispatch;
use crate::context::Context;
use crate::listeners::ServedListener;
use crate::net::{HandshakeThread, ListenerTask, SharedByListeners, TlsHandshakes};
use crate::tls::Tls;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// How often the files of keys and certificates are looked at (S-42).
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// A broker that serves TCP listeners. Dropping it ends it and its connections at once; [`Server::stop`] lets
/// responses under way leave first.
#[derive(Debug)]
pub struct Server {
    context: Arc<Context>,
    listeners: Vec<ListenerTask>,
    tls: Vec<Arc<Tls>>,
    /// Reads changed certificates; none without TLS.
    reloading: Option<JoinHandle<()>>,
    _handshakes: Option<HandshakeThread>,
}

impl Server {
    /// Serves Kafka's protocol on `listener` without encryption and authentication, on the tokio runtime this is called
    /// on.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn bind(listener: TcpListener, context: Context) -> io::Result<Server> {
        let served = ServedListener { listener: Arc::clone(&context.listener), tls: None };
        Server::bind_all(vec![(listener, served)], context)
    }

    /// Serves Kafka's protocol on several listeners.
    ///
    /// # Errors
    /// A listener has no address, or the system refuses the thread of TLS handshakes.
    pub fn bind_all(listeners: Vec<(TcpListener, ServedListener)>, context: Context) -> io::Result<Server> {
        let context = Arc::new(context);
        let tls: Vec<Arc<Tls>> = listeners.iter().filter_map(|(_, served)| served.tls.clone()).collect();
        let handshakes = if tls.is_empty() { None } else { Some(HandshakeThread::start()?) };
        let thread = handshakes.as_ref().and_then(HandshakeThread::handle);
        let shared = SharedByListeners { open: Arc::default(), budget: Arc::clone(&context.request_budget) };
        let mut tasks = Vec::with_capacity(listeners.len());
        for (socket, served) in listeners {
            warn_of_open_listener(&served, socket.local_addr()?, &context);
            let dispatch = Arc::new(Dispatch::new(Arc::clone(&context), served.listener));
            let tls = served.tls.zip(thread.clone()).map(|(tls, thread)| TlsHandshakes { tls, thread });
            tasks.push(ListenerTask::start(socket, dispatch, context.limits.clone(), shared.clone(), tls)?);
        }
        let reloading = (!tls.is_empty()).then(|| tokio::spawn(reload_changed(tls.clone())));
        Ok(Server { context, listeners: tasks, tls, reloading, _handshakes: handshakes })
    }

    /// The address on which the first listener accepts.
    pub fn local_addr(&self) -> SocketAddr {
        self.listeners.first().map_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)), ListenerTask::local_addr)
    }

    /// The addresses on which the listeners accept, in their order.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(ListenerTask::local_addr).collect()
    }

    /// The broker's context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Reads the keys and certificates of all listeners again. A set that cannot be used is logged, and the one before
    /// stays in force.
    pub fn reload_certificates(&self) {
        self.tls.iter().for_each(|tls| reload(tls, true));
    }

    /// Stops accepting and reading, gives responses under way [`crate::Limits::stop_grace`], then closes all
    /// connections.
    pub async fn stop(mut self) {
        // Readers that wait for records are answered now; a host that is gone has none.
        for host in self.context.shards.all() {
            let _ = host.peek(|_, _, watchers| watchers.close()).await;
        }
        let stops: Vec<JoinHandle<()>> =
            self.listeners.drain(..).map(|listener| tokio::spawn(listener.stop())).collect();
        for stop in stops {
            let _ = stop.await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(reloading) = &self.reloading {
            reloading.abort();
        }
    }
}

/// Warns if a listener that everybody in the network may reach neither encrypts nor authenticates (S-16).
fn warn_of_open_listener(served: &ServedListener, address: SocketAddr, context: &Context) {
    let is_open = !served.listener.protocol.has_tls() && !served.listener.protocol.has_sasl();
    if !is_open || address.ip().is_loopback() {
        return;
    }
    let listener = served.name();
    if context.authorizer.is_on() && context.authorizer.anonymous_is_super_user() {
        tracing::error!(
            listener, %address,
            "every client that reaches this listener is a super user: take User:ANONYMOUS out of super.users"
        );
    } else {
        tracing::warn!(listener, %address, "this listener neither encrypts nor authenticates its clients");
    }
}

async fn reload_changed(tls: Vec<Arc<Tls>>) {
    loop {
        sleep(RELOAD_INTERVAL).await;
        tls.iter().for_each(|tls| reload(tls, false));
    }
}

fn reload(tls: &Tls, in_any_case: bool) {
    match tls.reload(in_any_case) {
        Ok(true) => tracing::info!("new keys and certificates are in force for new connections"),
        Ok(false) => {}
        Err(error) => tracing::error!("{error}; the keys and certificates before stay in force"),
    }
}
