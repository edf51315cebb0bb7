//! The session of a connection: the listener that accepted it, the client's address, its principal, and what the client
//! says of itself.

use crate::login::{Login, LoginOptions};
use crate::net::FrameBounds;
use crate::security_protocol::SecurityProtocol;
use ottla_auth::mapping_rules::MappingRules;
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
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    /// Its name in `listeners`.
    pub(crate) name: Text,
    pub(crate) protocol: SecurityProtocol,
    /// The address that clients of this listener connect to (S-13).
    pub(crate) advertised: AdvertisedAddress,
    /// How clients authenticate with SASL, if they do.
    pub(crate) login: Option<Arc<LoginOptions>>,
    /// From the subjects of certificates to principals; none for the subject itself.
    pub(crate) mapping_rules: Option<MappingRules>,
}

impl Listener {
    /// A listener without encryption and authentication.
    pub(crate) fn plaintext(advertised: AdvertisedAddress) -> Listener {
        let protocol = SecurityProtocol::Plaintext;
        Listener {
            name: Text::from_static(protocol.name()),
            protocol,
            advertised,
            login: None,
            mapping_rules: None,
        }
    }
}

/// The principal of clients that do not authenticate (S-50).
pub(crate) const ANONYMOUS: &str = "User:ANONYMOUS";

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
    /// The login of a connection that authenticates with SASL.
    login: Option<Arc<Login>>,
}

impl Session {
    /// The session of a connection without SASL.
    pub(crate) fn new(listener: Arc<Listener>, peer: SocketAddr) -> Session {
        Session {
            listener,
            peer,
            host: peer.ip().to_canonical(),
            principal: Text::from_static(ANONYMOUS),
            client_id: Text::from_static(""),
            login: None,
        }
    }

    /// The session of a connection whose client has yet to authenticate, if the listener has SASL. The login raises the
    /// bounds of frames when the client has authenticated.
    pub(crate) fn before_login(
        listener: Arc<Listener>,
        peer: SocketAddr,
        bounds: &Arc<FrameBounds>,
    ) -> Session {
        let login = listener
            .login
            .as_ref()
            .map(|options| Arc::new(Login::new(Arc::clone(options), Arc::clone(bounds))));
        Session { login, ..Session::new(listener, peer) }
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

    /// The login of a connection that authenticates with SASL.
    pub(crate) fn login(&self) -> Option<&Arc<Login>> {
        self.login.as_ref()
    }

    /// The client has proved who it is.
    pub(crate) fn set_principal(&mut self, principal: &str) {
        self.principal = Text::from(principal);
    }

    /// The address that this client connects to.
    pub(crate) fn advertised(&self) -> &AdvertisedAddress {
        &self.listener.advertised
    }

    /// Takes the principal of the login. Requests under way keep the session that they began with.
    pub(crate) fn take_principal(session: &mut Arc<Session>) {
        let principal = session.login.as_ref().and_then(|login| login.principal());
        if let Some(principal) = principal.filter(|principal| *principal != session.principal) {
            Arc::make_mut(session).principal = principal;
        }
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
