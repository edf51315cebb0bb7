//! Accepts HTTP connections on the runtime it is started on, within limits.

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

/// Open connections; one more waits until another is closed.
const MOST_CONNECTIONS: usize = 256;
/// How long a peer may take to send the head of a request, or stay silent between two.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long to wait when no connection can be accepted, for want of file descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The HTTP side at work. Dropping it ends it and its connections at once.
#[derive(Debug)]
pub struct Web {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Web {
    /// Serves HTTP to whoever connects to `listener`, on the tokio runtime this is called on.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn start(listener: TcpListener, app: App) -> io::Result<Web> {
        let address = listener.local_addr()?;
        Ok(Web { address, accepting: tokio::spawn(accept_all(listener, Arc::new(app))) })
    }

    /// The address it listens on.
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
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut guests = JoinSet::new();
    let mut router = None;
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = guests.join_next() => continue,
        };
        match accepted {
            Ok((stream, _)) => {
                let router = router.get_or_insert_with(|| routes(Arc::clone(&app))).clone();
                guests.spawn(async move {
                    serve(stream, router).await;
                    drop(place);
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
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = served.await {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}
