//! Accepts HTTP connections, within limits.

use crate::{App, routes};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

/// The most open connections; a further one waits until another is closed.
const MAX_CONNECTIONS: usize = 256;
/// The longest time for a client to send the head of a request, from the end of the one before.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a failed accept, for example when file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The running HTTP server. Dropping it closes the listener and all connections.
#[derive(Debug)]
pub struct Web {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Web {
    /// Serves HTTP on `listener`, on the tokio runtime of the caller.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn start(listener: TcpListener, app: App) -> io::Result<Web> {
        let address = listener.local_addr()?;
        Ok(Web { address, accepting: tokio::spawn(accept_all(listener, Arc::new(app))) })
    }

    /// The address that the server listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept_all(listener: TcpListener, app: Arc<App>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    let mut router = None;
    loop {
        // The semaphore is never closed.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, _)) => {
                let router = router.get_or_insert_with(|| routes(Arc::clone(&app))).clone();
                connections.spawn(async move {
                    serve(stream, router).await;
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept an HTTP connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, router: axum::Router) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = served.await {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}
