//! Broker keys of security: listeners, TLS, SASL, authorization. They are given at start; a key of TLS or SASL may be
//! given for one listener, as `listener.name.<listener>.<key>`, or for one of its mechanisms (S-14).

use super::check::Kind;
use super::key::BrokerKey;

const fn key(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> BrokerKey {
    BrokerKey { name, kind, default, dynamic: false, has_effect: true, doc }
}

const fn ignored(name: &'static str, kind: Kind, default: &'static str) -> BrokerKey {
    let doc = "accepted for compatibility with Kafka, has no effect";
    BrokerKey { name, kind, default, dynamic: false, has_effect: false, doc }
}

/// The keys, by name.
pub const SECURITY_KEYS: &[BrokerKey] = &[
    key(
        "advertised.listeners",
        Kind::Text,
        "",
        "the addresses that clients connect to, as NAME://host:port with commas between; the default is listeners",
    ),
    key(
        "allow.everyone.if.no.acl.found",
        Kind::Boolean,
        "false",
        "allow every client to use a resource that no ACL names",
    ),
    key(
        "authorizer.class.name",
        Kind::OneOf(&["", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"]),
        "",
        "the authorizer; if empty, every client may do everything",
    ),
    key(
        "connection.failed.authentication.delay.ms",
        Kind::Int(0, 60_000),
        "100",
        "how long the answer to a failed login is held back, in milliseconds",
    ),
    key(
        "connections.max.reauth.ms",
        Kind::Long(0, i64::MAX),
        "0",
        "how long a login lasts before the client has to authenticate again, in milliseconds; 0 for no limit",
    ),
    ignored("inter.broker.listener.name", Kind::Text, ""),
    key(
        "listener.security.protocol.map",
        Kind::Text,
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "the security protocol of each listener name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
    ),
    key(
        "listeners",
        Kind::Text,
        "",
        "the addresses to listen on, as NAME://host:port with commas between; the default is the address of --listen",
    ),
    key(
        "sasl.enabled.mechanisms",
        Kind::List(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
        "",
        "the SASL mechanisms by which clients may authenticate",
    ),
    key(
        "sasl.jaas.config",
        Kind::Password,
        "",
        "the users of PLAIN, as the line that Kafka's PlainLoginModule takes",
    ),
    ignored("sasl.mechanism.inter.broker.protocol", Kind::Text, "GSSAPI"),
    key(
        "sasl.server.max.receive.size",
        Kind::Int(1, i32::MAX),
        "524288",
        "the largest request before a client is authenticated, in bytes",
    ),
    ignored("security.inter.broker.protocol", Kind::Text, "PLAINTEXT"),
    ignored("ssl.cipher.suites", Kind::List(&[]), ""),
    key(
        "ssl.client.auth",
        Kind::OneOf(&["none", "requested", "required"]),
        "none",
        "whether clients present a certificate",
    ),
    key(
        "ssl.enabled.protocols",
        Kind::List(&["TLSv1.2", "TLSv1.3"]),
        "TLSv1.2,TLSv1.3",
        "the versions of TLS that clients may use",
    ),
    ignored("ssl.endpoint.identification.algorithm", Kind::Text, "https"),
    key("ssl.key.password", Kind::Password, "", "the password of the private key"),
    key(
        "ssl.keystore.certificate.chain",
        Kind::Text,
        "",
        "the broker's certificate and those that signed it, as PEM text",
    ),
    key("ssl.keystore.key", Kind::Password, "", "the broker's private key, as PEM text"),
    key("ssl.keystore.location", Kind::Text, "", "the file of the broker's private key and certificates"),
    key("ssl.keystore.password", Kind::Password, "", "the password of a PKCS12 file; PEM files have none"),
    key(
        "ssl.keystore.type",
        Kind::OneOf(&["PEM", "PKCS12", "JKS"]),
        "PEM",
        "the format of the keystore; JKS cannot be read and is refused with the command that converts it",
    ),
    key(
        "ssl.principal.mapping.rules",
        Kind::Text,
        "DEFAULT",
        "the rules that make a principal of the subject of a client's certificate",
    ),
    ignored("ssl.protocol", Kind::Text, "TLSv1.3"),
    key(
        "ssl.truststore.certificates",
        Kind::Text,
        "",
        "the certificates that sign those of clients, as PEM text",
    ),
    key("ssl.truststore.location", Kind::Text, "", "the file of the certificates that sign those of clients"),
    key("ssl.truststore.password", Kind::Password, "", "the password of a PKCS12 file; PEM files have none"),
    key(
        "ssl.truststore.type",
        Kind::OneOf(&["PEM", "PKCS12", "JKS"]),
        "PEM",
        "the format of the truststore; JKS cannot be read and is refused with the command that converts it",
    ),
    key(
        "super.users",
        Kind::Text,
        "",
        "principals that may do everything, as Type:name with semicolons between",
    ),
];

/// Keys that may be given for one listener begin with one of these.
const OF_A_LISTENER: [&str; 4] = ["ssl.", "sasl.", "connections.max.reauth.ms", "max.connection"];

/// The key that a name with the prefix `listener.name.<listener>.` or `listener.name.<listener>.<mechanism>.` sets for
/// one listener; none if the name has no such prefix, or the key cannot be set for one.
pub(super) fn without_listener(name: &str) -> Option<&str> {
    let (_, key) = name.strip_prefix("listener.name.")?.split_once('.')?;
    let of_listener = |key: &&str| OF_A_LISTENER.iter().any(|prefix| key.starts_with(prefix));
    let of_mechanism = || {
        let (mechanism, key) = key.split_once('.')?;
        let known = ["plain", "scram-sha-256", "scram-sha-512", "oauthbearer"].contains(&mechanism);
        known.then_some(key)
    };
    Some(key).filter(of_listener).or_else(|| of_mechanism().filter(of_listener))
}
