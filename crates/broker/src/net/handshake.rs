//! The TLS handshake of a new connection, with a deadline, on a thread of its own: the operations of private keys do
//! not delay the connections that are served (S-31).

use crate::tls::Tls;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Time that a client gets for its handshake.
const DEADLINE: Duration = Duration::from_secs(10);

/// The thread of handshakes. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct HandshakeThread(Option<Runtime>);

impl HandshakeThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start() -> io::Result<HandshakeThread> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("ottla-tls").enable_time().build()?;
        Ok(HandshakeThread(Some(runtime)))
    }

    pub(crate) fn handle(&self) -> Option<Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for HandshakeThread {
    fn drop(&mut self) {
        // A runtime may not be dropped inside another one in the usual way.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// How new connections of a listener with TLS are accepted.
#[derive(Clone, Debug)]
pub(crate) struct TlsHandshakes {
    pub(crate) tls: Arc<Tls>,
    pub(crate) thread: Handle,
}

impl TlsHandshakes {
    /// Makes the handshake. When it fails, the client has received the alert that says why (S-29).
    pub(super) async fn accept(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
        let acceptor = TlsAcceptor::from(self.tls.config());
        let handshake = self.thread.spawn(timeout(DEADLINE, acceptor.accept(stream)));
        match handshake.await {
            Ok(Ok(Ok(stream))) => Ok(stream),
            Ok(Ok(Err(error))) => Err(format!("the TLS handshake failed: {error}")),
            Ok(Err(_)) => Err(format!("the TLS handshake took more than {} s", DEADLINE.as_secs())),
            Err(_) => Err("the broker stops".to_owned()),
        }
    }
}

/// The certificate that the client presented, in DER.
pub(super) fn client_certificate(stream: &TlsStream<TcpStream>) -> Option<&[u8]> {
    stream.get_ref().1.peer_certificates()?.first().map(AsRef::as_ref)
}
