//! The local ports: each stands for one broker, and is opened when a response first names that broker.

use ottla_wire::Text;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use tokio::net::TcpListener;

/// Brokers that get a port: more than any cluster has, so that a broken response cannot open ports without limit.
const MAX_BROKERS: usize = 1000;
/// Ports that are tried for one broker.
const MAX_TRIES: u16 = 1000;

/// Host and port of a broker, as the cluster gives them.
pub(crate) type BrokerAddress = (String, u16);

/// The ports that are open.
#[derive(Debug)]
pub(crate) struct BrokerPorts {
    /// The first listener.
    listen: SocketAddr,
    /// The addresses of the broker that it forwards to.
    first_broker: Vec<SocketAddr>,
    known: Mutex<BTreeMap<BrokerAddress, Option<u16>>>,
    /// The port opened last. Locked while a port is opened, so that each broker gets one.
    opening: tokio::sync::Mutex<u16>,
}

impl BrokerPorts {
    /// The ports before any other broker is known: the first listener forwards to `to`.
    pub(crate) async fn new(listen: SocketAddr, to: BrokerAddress) -> BrokerPorts {
        let first_broker = resolve(&to).await;
        let known = BTreeMap::from([(to, Some(listen.port()))]);
        let opening = tokio::sync::Mutex::new(listen.port());
        BrokerPorts { listen, first_broker, known: Mutex::new(known), opening }
    }

    /// The address that a client connected to `ip` uses for a broker. Inner `None`: the broker has no port; outer
    /// `None`: it is new.
    pub(crate) fn get(&self, host: &str, port: u16, ip: IpAddr) -> Option<Option<(Text, u16)>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let local = *known.get(&(host.to_owned(), port))?;
        Some(local.map(|port| (Text::from(ip.to_canonical().to_string()), port)))
    }

    /// Opens a port for a broker. `None` if it has one already, which may be the first listener.
    ///
    /// # Errors
    /// No port is free. The broker's address then stays as it is in responses.
    pub(crate) async fn open(&self, broker: &BrokerAddress) -> io::Result<Option<TcpListener>> {
        let mut last = self.opening.lock().await;
        if self.lock().contains_key(broker) {
            return Ok(None);
        }
        if self.is_first(&resolve(broker).await) {
            self.lock().insert(broker.clone(), Some(self.listen.port()));
            return Ok(None);
        }
        let opened = if self.lock().len() < MAX_BROKERS {
            self.bind(&mut last).await
        } else {
            Err(io::Error::other(format!("{MAX_BROKERS} brokers have a port already")))
        };
        if let Ok(listener) = &opened {
            *last = listener.local_addr()?.port();
            self.lock().insert(broker.clone(), Some(*last));
        } else if self.lock().len() < 2 * MAX_BROKERS {
            self.lock().insert(broker.clone(), None);
        }
        opened.map(Some)
    }

    /// Listens on the next free port after the last one.
    async fn bind(&self, last: &mut u16) -> io::Result<TcpListener> {
        let mut refused = io::Error::from(io::ErrorKind::AddrInUse);
        for port in (1..=MAX_TRIES).filter_map(|step| last.checked_add(step)) {
            match TcpListener::bind((self.listen.ip(), port)).await {
                Ok(listener) => return Ok(listener),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// True if an address is that of the broker that the first listener forwards to, or of the tap itself.
    fn is_first(&self, addresses: &[SocketAddr]) -> bool {
        let is_tap = |address: &SocketAddr| {
            address.port() == self.listen.port()
                && (address.ip() == self.listen.ip()
                    || self.listen.ip().is_unspecified() && address.ip().is_loopback())
        };
        addresses.iter().any(|address| self.first_broker.contains(address) || is_tap(address))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<BrokerAddress, Option<u16>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The addresses of a host name; none if it is unknown.
async fn resolve((host, port): &BrokerAddress) -> Vec<SocketAddr> {
    tokio::net::lookup_host((host.as_str(), *port)).await.map(Iterator::collect).unwrap_or_default()
}

/// Parses `HOST:PORT`, with an IPv6 address in brackets. The default port is 9092.
pub(crate) fn parse(text: &str) -> Option<BrokerAddress> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, 9092),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn addresses_are_split() {
        let parsed = |text| parse(text).map(|(host, port)| format!("{host} {port}"));
        assert_eq!(parsed("kafka:9093").as_deref(), Some("kafka 9093"));
        assert_eq!(parsed("kafka").as_deref(), Some("kafka 9092"));
        assert_eq!(parsed("[::1]:19092").as_deref(), Some("::1 19092"));
        assert_eq!(parsed("::1").as_deref(), Some("::1 9092"));
        assert_eq!(parsed("kafka:port"), None);
        assert_eq!(parsed(":9092"), None);
    }

    #[tokio::test]
    async fn each_broker_gets_one_port_and_the_first_one_the_first() {
        let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listen = first.local_addr().unwrap();
        let ports = BrokerPorts::new(listen, ("127.0.0.1".to_owned(), 9)).await;
        let text = Text::from_static("127.0.0.1");
        assert_eq!(ports.get("127.0.0.1", 9, LOCAL), Some(Some((text.clone(), listen.port()))));
        for (host, port) in [("localhost", 9), ("localhost", listen.port())] {
            assert_eq!(ports.get(host, port, LOCAL), None);
            assert!(ports.open(&(host.to_owned(), port)).await.unwrap().is_none());
            assert_eq!(ports.get(host, port, LOCAL), Some(Some((text.clone(), listen.port()))), "{host}");
        }
        let other = ("127.0.0.1".to_owned(), 10);
        let opened = ports.open(&other).await.unwrap().unwrap();
        let port = opened.local_addr().unwrap().port();
        assert!(port != listen.port());
        assert_eq!(ports.get("127.0.0.1", 10, LOCAL), Some(Some((text, port))));
        assert!(ports.open(&other).await.unwrap().is_none());
    }
}
