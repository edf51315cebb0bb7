//! Sockets: accepting, reading frames within limits, answering in order, writing.
//! It must not know Kafka's messages: whoever answers them is an [`Answerer`].

mod allowance;
mod budget;
mod complaints;
mod connection;
mod door;
mod intake;
mod outbox;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use allowance::{Allowance, Hold};
pub(crate) use budget::Budget;
pub use door::Door;
pub use server::Server;

use crate::trace::{Arrived, Recording};
use bytes::Bytes;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

/// What the answer to a request came to.
#[derive(Debug)]
pub(crate) enum Reply {
    /// These bytes, the length prefix included; what they hold of the allowance is given back when they are written.
    Send(Vec<Bytes>, Option<Hold>),
    /// Nothing is sent (Produce with acks 0).
    Nothing,
    /// The connection is closed; the text says why and goes to the log.
    Close(String),
    /// This reply, and after it nothing that the peer sends is looked at for so long.
    Muted(Box<Reply>, Duration),
}

/// Why a request is not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It cannot be answered: the connection is closed, the text goes to the log.
    Bad(String),
    /// Its lists take more memory than it was given.
    Room,
}

/// A request under way. Polled once when it begins, then in the order of the requests.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// How connections come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coming {
    /// One was accepted.
    Accepted,
    /// One that was accepted is over.
    Closed,
    /// One was closed at once: there were too many.
    TurnedAway,
}

/// Whoever answers requests.
pub(crate) trait Answerer: Send + Sync + 'static {
    /// Begins to answer a request; `frame` starts behind the length prefix and has at least eight bytes, and its lists may take
    /// `room` bytes.
    fn begin(
        &self,
        peer: SocketAddr,
        frame: Bytes,
        room: usize,
        recording: Option<&Recording>,
    ) -> Result<Answering, Refused>;

    /// Whether requests that arrive now shall be recorded.
    fn is_recording(&self) -> bool {
        false
    }

    /// Begins to record a request, if it is wanted.
    fn record(&self, _arrived: Arrived, _frame: &Bytes) -> Option<Box<Recording>> {
        None
    }

    /// A connection came or went.
    fn came(&self, coming: Coming);

    /// True if a request that starts with these bytes may begin while earlier ones of its kind are unanswered.
    fn may_overlap(&self, head: &[u8]) -> bool;
}
