//! A blocking connection to a broker, or to the null broker, whose answers are empty.

use ottla_client::BlockingConnection;
use ottla_wire::Request;
use std::fmt::Display;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The longest wait for an answer, unless the broker hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Connection {
    inner: BlockingConnection,
    /// The other end is the null broker.
    null: bool,
}

impl Connection {
    /// Connects to `HOST:PORT`, or to the null broker at `null@HOST:PORT`.
    pub(crate) fn open(address: &str) -> Result<Connection, String> {
        let (null, address) = match address.strip_prefix("null@") {
            Some(rest) => (true, rest),
            None => (false, address),
        };
        let failed = |e: &dyn Display| format!("{address}: {e}");
        let broker = address.to_socket_addrs().map_err(|e| failed(&e))?.next();
        let broker = broker.ok_or_else(|| failed(&"it has no address"))?;
        let inner = BlockingConnection::open(broker, "bench", PATIENCE).map_err(|e| failed(&e))?;
        Ok(Connection { inner, null })
    }

    /// Sends a request and waits for its answer; that of the null broker counts as one without errors.
    pub(crate) fn call<R: Request>(&mut self, ask: &R, version: i16) -> Result<R::Response, String> {
        self.ask(ask, version)?;
        self.hear::<R>(version)
    }

    /// Sends a request.
    pub(crate) fn ask<R: Request>(&mut self, ask: &R, version: i16) -> Result<(), String> {
        self.inner.send(ask, version).map_err(|e| format!("{}: {e}", R::KEY.name()))
    }

    /// Waits for the answer to a request of that kind.
    pub(crate) fn hear<R: Request>(&mut self, version: i16) -> Result<R::Response, String> {
        let answer = match self.null {
            true => self.inner.receive_bytes().map(|_| R::Response::default()),
            false => self.inner.receive::<R>(version),
        };
        answer.map_err(|e| format!("{}: {e}", R::KEY.name()))
    }

    /// As [`Connection::call`], with the null sink too, whose answers to this request are complete.
    pub(crate) fn exchange<R: Request>(&mut self, ask: &R, version: i16) -> Result<R::Response, String> {
        let null = std::mem::replace(&mut self.null, false);
        let answer = self.call(ask, version);
        self.null = null;
        answer
    }

    /// The socket, for a caller that continues without this type.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.inner.into_stream()
    }

    /// Whether the other end is the null broker.
    pub(crate) fn is_null(&self) -> bool {
        self.null
    }
}
