//! The limits of clients: bytes, connections and time.

use ottla_core::config::Settings;
use std::time::Duration;

/// The limits of clients. Names in backquotes are Kafka's configuration keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `socket.request.max.bytes`: the largest request, in bytes without its length prefix. Default 64 MiB.
    pub max_request_bytes: usize,
    /// `queued.max.request.bytes`: requests that were received or are being answered, of all connections together, in
    /// bytes. One of the largest is counted separately. Default 88 MiB.
    pub max_queued_bytes: usize,
    /// `ottla.queued.max.response.bytes`: responses that their clients have not read yet, of all connections together,
    /// in bytes. Default 24 MiB.
    pub max_response_bytes: u64,
    /// `max.connections`: open connections; a further one is closed at once. Default 10000.
    pub max_connections: usize,
    /// `connections.max.idle.ms`: how long a connection may send nothing while no request is pending. Default 10
    /// minutes.
    pub max_idle: Duration,
    /// How long a client may take to send the next 64 KiB (or the rest) of a request it has begun. Default 30 seconds.
    pub read_stall: Duration,
    /// How long a client may take to read the next 64 KiB (or the rest) of a response. Default as `max_idle`, because a
    /// consumer that processes records does not read its socket meanwhile.
    pub write_stall: Duration,
    /// Requests of one connection that may be pending or queued. Default 128.
    pub max_pipelined: usize,
    /// How long pending requests may take once the broker stops. Default 1 second.
    pub stop_grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_request_bytes: 64 << 20,
            max_queued_bytes: 88 << 20,
            max_response_bytes: 24 << 20,
            max_connections: 10_000,
            max_idle: Duration::from_secs(600),
            read_stall: Duration::from_secs(30),
            write_stall: Duration::from_secs(600),
            max_pipelined: 128,
            stop_grace: Duration::from_secs(1),
        }
    }
}

impl Limits {
    /// The limits that the broker's configuration sets. The others have their defaults.
    pub fn of(settings: &Settings) -> Limits {
        let number = |key: &str| settings.value(key).and_then(|text| text.trim().parse::<u64>().ok());
        let size = |key: &str, default| {
            number(key).map_or(default, |number| usize::try_from(number).unwrap_or(usize::MAX))
        };
        let default = Limits::default();
        let max_idle = number("connections.max.idle.ms").map_or(default.max_idle, Duration::from_millis);
        Limits {
            max_request_bytes: size("socket.request.max.bytes", default.max_request_bytes),
            max_queued_bytes: size("queued.max.request.bytes", default.max_queued_bytes),
            max_response_bytes: number("ottla.queued.max.response.bytes")
                .unwrap_or(default.max_response_bytes),
            max_connections: size("max.connections", default.max_connections),
            max_idle,
            write_stall: max_idle,
            ..default
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn configuration_sets_limits_and_has_the_same_defaults() {
        assert_eq!(Limits::of(&Settings::default()), Limits::default());
        let given = [("socket.request.max.bytes", "1000"), ("connections.max.idle.ms", "5")];
        let given: BTreeMap<_, _> =
            given.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let limits = Limits::of(&Settings::from_configs(&given).unwrap());
        assert_eq!((limits.max_request_bytes, limits.max_idle), (1000, Duration::from_millis(5)));
    }
}
