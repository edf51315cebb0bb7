//! What peers may take of the broker: bytes, connections and time.

use std::time::Duration;

/// Limits on what peers may take. Names in backquotes are Kafka's configuration keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `socket.request.max.bytes`: the largest request, in bytes without its length prefix. Default 104857600.
    pub max_request_bytes: usize,
    /// `queued.max.request.bytes`: requests received or being answered, of all connections together, in bytes. Default 256 MiB.
    pub max_queued_bytes: usize,
    /// `max.connections`: open connections; one more is closed at once. Default 10000.
    pub max_connections: usize,
    /// `connections.max.idle.ms`: how long a connection may stay silent with no request unanswered. Default 10 minutes.
    pub max_idle: Duration,
    /// How long a peer may take for the next 64 KiB (or the rest) of a request it has begun. Default 30 seconds.
    pub read_stall: Duration,
    /// How long a peer may take to accept the next 64 KiB (or the rest) of an answer. As long as `max_idle` by default: a consumer
    /// that is busy with what it has does not read its socket.
    pub write_stall: Duration,
    /// How many requests of one connection may be under way or waiting for their turn. Default 16.
    pub max_pipelined: usize,
    /// How long answers under way may take once the broker stops. Default 1 second.
    pub stop_grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_request_bytes: 100 << 20,
            max_queued_bytes: 256 << 20,
            max_connections: 10_000,
            max_idle: Duration::from_secs(600),
            read_stall: Duration::from_secs(30),
            write_stall: Duration::from_secs(600),
            max_pipelined: 16,
            stop_grace: Duration::from_secs(1),
        }
    }
}
