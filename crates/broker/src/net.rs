//! Sockets: accepts connections, reads frames within limits, answers in the order of the requests.
//! It must not know Kafka's messages: a [`RequestHandler`] answers them.

mod connection;
mod frame_bounds;
mod handshake;
mod listener;
mod protocol_errors;
mod request_budget;
mod request_reader;
mod response_budget;
mod response_writer;
#[cfg(test)]
mod tests;

pub(crate) use connection::{Connection, ConnectionInfo};
pub(crate) use frame_bounds::FrameBounds;
pub(crate) use handshake::{HandshakeThread, TlsHandshakes};
pub(crate) use listener::{ListenerTask, SharedByListeners};
pub(crate) use request_budget::RequestBudget;
pub(crate) use request_reader::RequestReader;
pub(crate) use response_budget::{ResponseBudget, ResponseCharge};
pub(crate) use response_writer::ResponseWriter;

use crate::trace::{Arrival, Recording};
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// What a connection does once a request has been handled.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It sends these chunks, which start with the length prefix. The charge is returned to the response budget when
    /// they are written.
    Send(Vec<Bytes>, Option<ResponseCharge>),
    /// It sends nothing (Produce with acks 0).
    Nothing,
    /// It closes. The text gives the reason and goes to the log.
    Close(String),
    /// It sends these chunks and closes. The text gives the reason and goes to the log.
    SendAndClose(Vec<Bytes>, String),
    /// It carries out this reply and then begins no request for this long (KIP-219).
    Muted(Box<Reply>, Duration),
}

/// Why a request was not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BeginError {
    /// The request cannot be answered. The connection closes; the text gives the reason and goes to the log.
    Malformed(String),
    /// The arrays of the request take more memory than `begin` was given.
    NeedsMemory,
}

/// A request that has begun. It is polled once at that moment, and later in the order of the requests.
pub(crate) type ReplyFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// A change in the number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    /// A connection was accepted.
    Accepted,
    /// An accepted connection ended.
    Closed,
    /// A connection was closed at once, because `max.connections` were open.
    Rejected,
}

/// Answers the requests of connections.
pub(crate) trait RequestHandler: Send + Sync + 'static {
    /// What the handler keeps for each connection; the connection owns it.
    type Session: Send + 'static;

    /// Makes the session of a new connection. `bounds` are the sizes of frames that the connection may receive, which
    /// the session may change.
    fn open(&self, info: &ConnectionInfo, bounds: &Arc<FrameBounds>) -> Self::Session;

    /// The name of a client by the certificate that it presented, in DER; none if it presented none.
    ///
    /// # Errors
    /// The client gets no name by the certificate. The text gives the reason and goes to the log.
    fn identify(&self, _certificate: Option<&[u8]>) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// The sizes of frames that a new connection may receive.
    fn frame_bounds(&self) -> FrameBounds {
        FrameBounds::of_requests()
    }

    /// Begins to answer a request. `frame` starts behind the length prefix. The arrays of
    /// the request may take `memory` bytes.
    ///
    /// # Errors
    /// The request cannot be decoded, or only with more memory.
    fn begin(
        &self,
        session: &mut Self::Session,
        frame: Bytes,
        memory: usize,
        recording: Option<&Recording>,
    ) -> Result<ReplyFuture, BeginError>;

    /// Whether requests that arrive now are traced.
    fn is_recording(&self) -> bool {
        false
    }

    /// Begins the trace record of a request; none if the filter excludes the request.
    fn record(&self, _session: &Self::Session, _arrival: Arrival, _frame: &Bytes) -> Option<Box<Recording>> {
        None
    }

    /// How many connections may be open, if that was changed while the broker runs.
    fn max_connections(&self) -> Option<usize> {
        None
    }

    /// Counts a connection that was opened, closed or rejected.
    fn connection_event(&self, event: ConnectionEvent);

    /// Whether a request that starts with these bytes may begin before earlier requests of the same kind are answered.
    fn may_overlap(&self, head: &[u8]) -> bool;
}
