//! The listeners that the broker's configuration describes (S-10 to S-14): names, protocols, addresses, and how their
//! clients authenticate.

use crate::login::{LoginOptions, SaslMechanism};
use crate::randomness::Randomness;
use crate::security_protocol::SecurityProtocol;
use crate::session::{AdvertisedAddress, Listener};
use crate::tls::{Tls, TlsError};
use ottla_auth::jaas::{JaasConfig, JaasError, LoginModule};
use ottla_auth::mapping_rules::{MappingRules, RuleError};
use ottla_auth::plain::PlainUsers;
use ottla_core::config::Settings;
use ottla_wire::Text;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Why the listeners of a configuration are refused.
#[derive(Debug, Error)]
pub enum ListenerError {
    /// An entry of a list of listeners is not `NAME://host:port`.
    #[error("{key}: '{entry}' is not NAME://host:port")]
    Entry {
        /// The key.
        key: &'static str,
        /// The entry.
        entry: String,
    },
    /// Two listeners have the same name, or the same port.
    #[error("listeners: {0}")]
    Clash(String),
    /// A listener has no security protocol, or one that does not exist.
    #[error("listener.security.protocol.map: {0}")]
    Protocol(String),
    /// An advertised address cannot be used by clients, or belongs to no listener.
    #[error("advertised.listeners: {0}")]
    Advertised(String),
    /// The mechanisms of a listener with SASL.
    #[error("listener {listener}: {why}")]
    Mechanisms {
        /// The listener.
        listener: String,
        /// What is wrong.
        why: String,
    },
    /// The users of PLAIN.
    #[error("listener {listener}, sasl.jaas.config: {source}")]
    Jaas {
        /// The listener.
        listener: String,
        /// What is wrong.
        source: JaasError,
    },
    /// The rules from certificates to principals.
    #[error("listener {listener}, ssl.principal.mapping.rules: {source}")]
    MappingRules {
        /// The listener.
        listener: String,
        /// What is wrong.
        source: RuleError,
    },
    /// The keys and certificates of a listener.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system gives no random bytes.
    #[error("no random bytes for the secrets of SASL")]
    NoRandomness,
}

/// A listener as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// Its name.
    pub name: String,
    /// How clients connect.
    pub protocol: SecurityProtocol,
    /// The address to listen on, as `host:port`; port 0 takes a free port.
    pub bind: String,
    /// The address that clients connect to, if it is not the one listened on.
    pub advertised: Option<AdvertisedAddress>,
}

/// What a listener accepts connections with.
#[derive(Clone, Debug)]
pub struct ServedListener {
    pub(crate) listener: Arc<Listener>,
    pub(crate) tls: Option<Arc<Tls>>,
}

impl ServedListener {
    /// The name of the listener.
    pub fn name(&self) -> &str {
        &self.listener.name
    }

    /// The address that clients connect to.
    pub fn advertised(&self) -> &AdvertisedAddress {
        &self.listener.advertised
    }
}

impl ListenerConfig {
    /// The listeners that the settings describe. Without `listeners` there is one, PLAINTEXT, at `default_bind`.
    ///
    /// # Errors
    /// The settings are not legal.
    pub fn all(settings: &Settings, default_bind: &str) -> Result<Vec<ListenerConfig>, ListenerError> {
        let text = |key: &str| settings.value(key).unwrap_or_default();
        let protocols = protocols(&text("listener.security.protocol.map"))?;
        let listeners = text("listeners");
        let given = if listeners.trim().is_empty() {
            vec![("PLAINTEXT".to_owned(), default_bind.to_owned())]
        } else {
            entries("listeners", &listeners)?
        };
        check_distinct(&given)?;
        let mut advertised = advertised(&text("advertised.listeners"), &given)?;
        let config = |(name, bind): (String, String)| {
            let unknown = || ListenerError::Protocol(format!("the listener {name} has no entry"));
            let protocol = *protocols.get(&name).ok_or_else(unknown)?;
            let advertised = advertised.remove(&name);
            Ok(ListenerConfig { name, protocol, bind, advertised })
        };
        given.into_iter().map(config).collect()
    }

    /// The listener, once it is bound to an address.
    ///
    /// # Errors
    /// The settings of TLS or SASL are not legal, or a file cannot be read.
    pub fn serve(
        &self,
        settings: &Settings,
        advertised: AdvertisedAddress,
        randomness: &Randomness,
    ) -> Result<ServedListener, ListenerError> {
        let login = if self.protocol.has_sasl() {
            Some(Arc::new(self.login_options(settings, randomness)?))
        } else {
            None
        };
        let tls = if self.protocol.has_tls() {
            Some(Arc::new(Tls::load(settings, &self.name, self.protocol)?))
        } else {
            None
        };
        let rules = settings.value_for(&self.name, None, "ssl.principal.mapping.rules");
        let rules = MappingRules::parse(&rules.unwrap_or_default());
        let mapping_rules =
            rules.map_err(|source| ListenerError::MappingRules { listener: self.name.clone(), source })?;
        let name = Text::from(self.name.as_str());
        let listener =
            Listener { name, protocol: self.protocol, advertised, login, mapping_rules: Some(mapping_rules) };
        Ok(ServedListener { listener: Arc::new(listener), tls })
    }

    /// The address that clients connect to: the configured one, else the address that is listened on. For a wildcard
    /// address it is `localhost`, since no other name is known.
    pub fn advertised(&self, bound: SocketAddr) -> AdvertisedAddress {
        if let Some(given) = &self.advertised {
            return given.clone().bound_to(bound);
        }
        let host = match bound.ip() {
            ip if ip.is_unspecified() => "localhost".to_owned(),
            ip => ip.to_string(),
        };
        AdvertisedAddress { host, port: bound.port() }
    }

    fn login_options(
        &self,
        settings: &Settings,
        randomness: &Randomness,
    ) -> Result<LoginOptions, ListenerError> {
        let value = |key: &str| settings.value_for(&self.name, None, key).unwrap_or_default();
        let refused = |why: String| ListenerError::Mechanisms { listener: self.name.clone(), why };
        let mut mechanisms = BTreeMap::new();
        let enabled = value("sasl.enabled.mechanisms");
        for name in enabled.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let known = SaslMechanism::ALL.into_iter().find(|known| known.name() == name);
            let mechanism = known.ok_or_else(|| {
                let all = SaslMechanism::ALL.map(SaslMechanism::name).join(", ");
                refused(format!("the SASL mechanism {name} is not served; these are: {all}"))
            })?;
            let reauth = settings.value_for(&self.name, Some(name), "connections.max.reauth.ms");
            let reauth = reauth.and_then(|text| text.trim().parse::<u64>().ok()).filter(|millis| *millis > 0);
            mechanisms.insert(mechanism, reauth.map(Duration::from_millis));
        }
        if mechanisms.is_empty() {
            let why = "a listener with SASL needs sasl.enabled.mechanisms, for example SCRAM-SHA-512";
            return Err(refused(why.to_owned()));
        }
        let number = |key: &str| value(key).trim().parse::<u64>().unwrap_or(0);
        let mut scram_secret = [0; 32];
        randomness.fill(&mut scram_secret).map_err(|_| ListenerError::NoRandomness)?;
        Ok(LoginOptions {
            plain_users: self.plain_users(settings, &mechanisms)?,
            mechanisms,
            max_receive: usize::try_from(number("sasl.server.max.receive.size")).unwrap_or(usize::MAX),
            failure_delay: Duration::from_millis(number("connection.failed.authentication.delay.ms")),
            scram_secret,
        })
    }

    fn plain_users(
        &self,
        settings: &Settings,
        mechanisms: &BTreeMap<SaslMechanism, Option<Duration>>,
    ) -> Result<PlainUsers, ListenerError> {
        let line = settings.value_for(&self.name, Some("plain"), "sasl.jaas.config").unwrap_or_default();
        if line.trim().is_empty() || !mechanisms.contains_key(&SaslMechanism::Plain) {
            return Ok(PlainUsers::default());
        }
        let jaas = JaasConfig::parse(&line);
        let jaas = jaas.map_err(|source| ListenerError::Jaas { listener: self.name.clone(), source })?;
        if jaas.module != LoginModule::Plain {
            let why = "sasl.jaas.config of the mechanism PLAIN must name PlainLoginModule";
            return Err(ListenerError::Mechanisms { listener: self.name.clone(), why: why.to_owned() });
        }
        Ok(PlainUsers::new(jaas.users()))
    }
}

/// The protocol of each listener name.
fn protocols(map: &str) -> Result<BTreeMap<String, SecurityProtocol>, ListenerError> {
    let mut protocols = BTreeMap::new();
    for entry in map.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let wrong = || ListenerError::Protocol(format!("'{entry}' is not NAME:PROTOCOL"));
        let (name, protocol) = entry.split_once(':').ok_or_else(wrong)?;
        let known = SecurityProtocol::ALL.into_iter();
        let protocol = known.clone().find(|known| known.name() == protocol.trim());
        let protocol = protocol.ok_or_else(|| {
            let all = SecurityProtocol::ALL.map(SecurityProtocol::name).join(", ");
            ListenerError::Protocol(format!("'{entry}': the protocol must be one of {all}"))
        })?;
        protocols.insert(name.trim().to_uppercase(), protocol);
    }
    Ok(protocols)
}

/// The entries of a list of listeners: name and `host:port`. An empty host is the wildcard address.
fn entries(key: &'static str, list: &str) -> Result<Vec<(String, String)>, ListenerError> {
    let mut entries = Vec::new();
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let wrong = || ListenerError::Entry { key, entry: entry.to_owned() };
        let (name, address) = entry.split_once("://").ok_or_else(wrong)?;
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        if name.is_empty() || port.parse::<u16>().is_err() || (host.contains(':') && !host.starts_with('[')) {
            return Err(wrong());
        }
        let host = if host.is_empty() { "0.0.0.0" } else { host };
        entries.push((name.to_uppercase(), format!("{host}:{port}")));
    }
    Ok(entries)
}

/// Checks that names are distinct, and ports too, but for one IPv4 and one IPv6 address on the same port (S-10).
fn check_distinct(listeners: &[(String, String)]) -> Result<(), ListenerError> {
    let mut names = BTreeSet::new();
    let mut ports = BTreeSet::new();
    for (name, address) in listeners {
        if !names.insert(name) {
            return Err(ListenerError::Clash(format!("the name {name} occurs twice")));
        }
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
        if port != "0" && !ports.insert((port, host.starts_with('['))) {
            return Err(ListenerError::Clash(format!("the port {port} occurs twice")));
        }
    }
    Ok(())
}

/// The advertised address of each listener that has one.
fn advertised(
    list: &str,
    listeners: &[(String, String)],
) -> Result<BTreeMap<String, AdvertisedAddress>, ListenerError> {
    let mut addresses = BTreeMap::new();
    for (name, address) in entries("advertised.listeners", list)? {
        if listeners.iter().all(|(listener, _)| *listener != name) {
            return Err(ListenerError::Advertised(format!("there is no listener {name}")));
        }
        let (host, port) = address.rsplit_once(':').unwrap_or((&address, "0"));
        let host = host.trim_matches(['[', ']']);
        if ["0.0.0.0", "::"].contains(&host) {
            let why =
                format!("clients cannot connect to {host}, give the host name or address that they use");
            return Err(ListenerError::Advertised(why));
        }
        let port = port.parse().unwrap_or(0);
        let address = AdvertisedAddress { host: host.to_owned(), port };
        if addresses.insert(name.clone(), address).is_some() {
            return Err(ListenerError::Advertised(format!("the name {name} occurs twice")));
        }
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configs(given: &[(&str, &str)]) -> Result<Vec<ListenerConfig>, String> {
        let given = given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let settings = Settings::from_configs(&given).unwrap();
        ListenerConfig::all(&settings, "127.0.0.1:9092").map_err(|error| error.to_string())
    }

    #[test]
    fn s_10_s_11_listeners_have_names_protocols_and_addresses() {
        let all = configs(&[
            ("listeners", "plaintext://:9092, OUT://[::1]:9093,IN://0.0.0.0:0"),
            ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,OUT:SASL_SSL,IN:SSL"),
        ]);
        let all = all.unwrap();
        let shown: Vec<_> = all.iter().map(|one| (&*one.name, one.protocol.name(), &*one.bind)).collect();
        assert_eq!(
            shown,
            [
                ("PLAINTEXT", "PLAINTEXT", "0.0.0.0:9092"),
                ("OUT", "SASL_SSL", "[::1]:9093"),
                ("IN", "SSL", "0.0.0.0:0"),
            ]
        );
        assert_eq!(configs(&[]).unwrap()[0].bind, "127.0.0.1:9092");
        assert!(configs(&[("listeners", "PLAINTEXT://0.0.0.0:9092,SSL://[::]:9092")]).is_ok());
        for wrong in [
            "PLAINTEXT://:9092,PLAINTEXT://:9093",
            "PLAINTEXT://:9092,SSL://:9092",
            "OTHER://:9092",
            "PLAINTEXT:9092",
            "PLAINTEXT://host",
            "PLAINTEXT://::1:9092",
            "PLAINTEXT://:99999",
        ] {
            assert!(configs(&[("listeners", wrong)]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn s_12_advertised_addresses() {
        let of = |advertised: &str| {
            let given = [("listeners", "PLAINTEXT://:0,SSL://:0"), ("advertised.listeners", advertised)];
            configs(&given).map(|all| all[1].advertised.clone().map(|address| (address.host, address.port)))
        };
        assert_eq!(of("SSL://broker.example:443"), Ok(Some(("broker.example".to_owned(), 443))));
        assert_eq!(of("SSL://[2001:db8::1]:0,PLAINTEXT://a:0"), Ok(Some(("2001:db8::1".to_owned(), 0))));
        assert_eq!(of(""), Ok(None));
        for wrong in ["SSL://0.0.0.0:9", "SSL://[::]:9", "OTHER://a:1", "SSL://a:1,SSL://b:1", "SSL://:9"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
