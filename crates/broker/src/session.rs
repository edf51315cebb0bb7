//! The session of a connection: the listener that accepted it, the client's address, and what the client says of
//! itself.

use ottla_wire::Text;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The address that clients connect to (`advertised.listeners`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedAddress {
    /// A host name or an IP address.
    pub host: String,
    /// The port. 0 is for a listener that is not bound yet.
    pub port: u16,
}

impl AdvertisedAddress {
    /// The same host, with the port of the bound address if the port is 0.
    #[must_use]
    pub fn bound_to(self, address: SocketAddr) -> AdvertisedAddress {
        let port = if self.port == 0 { address.port() } else { self.port };
        AdvertisedAddress { port, ..self }
    }
}

/// A listener as its clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    /// Its name in `listeners`.
    pub(crate) name: &'static str,
    /// The address that clients of this listener connect to (S-13).
    pub(crate) advertised: AdvertisedAddress,
}

impl Listener {
    /// The one kind of listener that is served: no encryption, no authentication.
    pub(crate) fn plaintext(advertised: AdvertisedAddress) -> Listener {
        Listener { name: "PLAINTEXT", advertised }
    }
}

/// The principal of clients that do not authenticate (S-50).
const ANONYMOUS: &str = "User:ANONYMOUS";

/// What the APIs know of the connection that a request came through.
///
/// The connection owns it. Each request gets the session of the moment at which it began, and keeps it while it waits
/// (S-02).
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// The listener that accepted the connection.
    pub(crate) listener: Arc<Listener>,
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// The client's address, as ACLs compare it: an IPv4 address mapped into IPv6 is the IPv4 address (S-206).
    host: IpAddr,
    /// Who the client is: `User:name`.
    principal: Text,
    /// The client id of the last request header; empty if the header has none.
    pub(crate) client_id: Text,
}

impl Session {
    pub(crate) fn new(listener: Arc<Listener>, peer: SocketAddr) -> Session {
        let host = peer.ip().to_canonical();
        let principal = Text::from_static(ANONYMOUS);
        Session { listener, peer, host, principal, client_id: Text::from_static("") }
    }

    /// Who the client is, as `Type:name`.
    pub(crate) fn principal(&self) -> &str {
        &self.principal
    }

    /// The client's address as ACLs compare it.
    pub(crate) fn host(&self) -> IpAddr {
        self.host
    }

    /// The name of the listener that accepted the connection.
    pub(crate) fn listener_name(&self) -> &str {
        &self.listener.name
    }

    /// The client has proved who it is.
    pub(crate) fn set_principal(&mut self, principal: &str) {
        self.principal = Text::from(principal);
    }

    /// The address that this client connects to.
    pub(crate) fn advertised(&self) -> &AdvertisedAddress {
        &self.listener.advertised
    }

    /// Notes the client id of a request header. Requests under way keep the session that they began with.
    pub(crate) fn set_client_id(session: &mut Arc<Session>, client_id: Option<&Text>) {
        let client_id = client_id.map_or("", |id| id);
        if session.client_id != client_id {
            // A copy: a slice of the frame would keep the whole frame in memory.
            Arc::make_mut(session).client_id = Text::from(client_id);
        }
    }
}
