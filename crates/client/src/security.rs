//! How a client reaches brokers with TLS and SASL, from the properties that Kafka's clients take.

use crate::error::ClientError;
use ottla_auth::jaas::JaasConfig;
use ottla_auth::scram::{ClientExchange, Mechanism};
use ottla_auth::secret::Secret;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How a client reaches brokers. The default is without encryption and without a login.
#[derive(Clone, Default)]
pub struct Security {
    tls: Option<Arc<ClientConfig>>,
    login: Option<Login>,
}

/// Who a client is to a broker with SASL.
#[derive(Clone)]
pub(crate) struct Login {
    mechanism: LoginMechanism,
    user: String,
    password: Secret,
    is_token: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoginMechanism {
    Plain,
    Scram(Mechanism),
}

/// Why properties of a client are refused. No text shows a secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{property}: {why}")]
pub struct SecurityError {
    /// The property.
    pub property: &'static str,
    /// What is wrong.
    pub why: String,
}

impl SecurityError {
    fn new(property: &'static str, why: impl Into<String>) -> SecurityError {
        SecurityError { property, why: why.into() }
    }
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let login = self.login.as_ref().map(|login| login.mechanism);
        f.debug_struct("Security").field("tls", &self.tls.is_some()).field("login", &login).finish()
    }
}

/// Client properties by Kafka's names.
pub type Properties = BTreeMap<String, String>;

impl Security {
    /// Reads `security.protocol`, `sasl.*` and `ssl.*` as Kafka's clients do. Certificates and keys are PEM: files
    /// (`ssl.truststore.location`, `ssl.keystore.location`) or text (`ssl.truststore.certificates`, `ssl.keystore.key`,
    /// `ssl.keystore.certificate.chain`).
    ///
    /// # Errors
    /// A property is not legal, or a file cannot be read.
    pub fn from_properties(properties: &Properties) -> Result<Security, SecurityError> {
        let text = |key: &str| properties.get(key).map(|value| value.trim()).unwrap_or_default();
        let (has_tls, has_sasl) = match text("security.protocol") {
            "" | "PLAINTEXT" => (false, false),
            "SSL" => (true, false),
            "SASL_PLAINTEXT" => (false, true),
            "SASL_SSL" => (true, true),
            other => {
                let why = format!("'{other}' is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL");
                return Err(SecurityError::new("security.protocol", why));
            }
        };
        let tls = if has_tls { Some(Arc::new(tls_config(properties)?)) } else { None };
        let login = if has_sasl { Some(login(properties)?) } else { None };
        Ok(Security { tls, login })
    }

    /// Makes the TLS handshake with a broker; none if the connection is not encrypted.
    pub(crate) async fn encrypt(
        &self,
        peer: &str,
        socket: TcpStream,
    ) -> Result<Result<TlsStream<TcpStream>, TcpStream>, ClientError> {
        let Some(config) = &self.tls else { return Ok(Err(socket)) };
        let lost = |reason: String| ClientError::ConnectionLost { peer: peer.to_owned(), reason };
        let host = peer.rsplit_once(':').map_or(peer, |(host, _)| host).trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).map_err(|error| lost(error.to_string()))?;
        let connecting = TlsConnector::from(Arc::clone(config)).connect(name, socket);
        connecting.await.map(Ok).map_err(|error| lost(format!("the TLS handshake failed: {error}")))
    }

    pub(crate) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }
}

/// The client's side of a SASL exchange.
pub(crate) enum Exchange {
    Plain,
    Scram(Box<ClientExchange>),
}

impl Login {
    /// SASL's name of the mechanism.
    pub(crate) fn mechanism(&self) -> &'static str {
        match self.mechanism {
            LoginMechanism::Plain => "PLAIN",
            LoginMechanism::Scram(scram) => scram.name(),
        }
    }

    /// The first token, and the exchange that answers the broker's.
    pub(crate) fn begin(&self) -> Result<(Exchange, Vec<u8>), ClientError> {
        let scram = match self.mechanism {
            LoginMechanism::Plain => {
                let token = ottla_auth::plain::initial_response(&self.user, &self.password);
                return Ok((Exchange::Plain, token));
            }
            LoginMechanism::Scram(scram) => scram,
        };
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| ClientError::Misuse(error.to_string()))?;
        let nonce: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let password = self.password.clone();
        let (exchange, token) = ClientExchange::begin(scram, &self.user, password, &nonce, self.is_token);
        Ok((Exchange::Scram(Box::new(exchange)), token))
    }
}

fn login(properties: &Properties) -> Result<Login, SecurityError> {
    let text = |key: &str| properties.get(key).map(|value| value.trim()).unwrap_or_default();
    let mechanism = match text("sasl.mechanism") {
        "PLAIN" => LoginMechanism::Plain,
        "SCRAM-SHA-256" => LoginMechanism::Scram(Mechanism::Sha256),
        "SCRAM-SHA-512" => LoginMechanism::Scram(Mechanism::Sha512),
        other => {
            let why = format!("'{other}' is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512");
            return Err(SecurityError::new("sasl.mechanism", why));
        }
    };
    let jaas = JaasConfig::parse(text("sasl.jaas.config"))
        .map_err(|error| SecurityError::new("sasl.jaas.config", error.to_string()))?;
    let option = |name: &str| {
        let missing = || SecurityError::new("sasl.jaas.config", format!("the option {name} is missing"));
        jaas.option(name).cloned().ok_or_else(missing)
    };
    let user = String::from_utf8(option("username")?.bytes().to_vec());
    let user = user.map_err(|_| SecurityError::new("sasl.jaas.config", "the user name is not UTF-8"))?;
    let is_token = jaas.option("tokenauth").is_some_and(|value| value.bytes() == b"true");
    Ok(Login { mechanism, user, password: option("password")?, is_token })
}

fn tls_config(properties: &Properties) -> Result<ClientConfig, SecurityError> {
    let text = |key: &str| properties.get(key).map(String::as_str).unwrap_or_default();
    for key in ["ssl.truststore.type", "ssl.keystore.type"] {
        if !["", "PEM"].contains(&text(key).trim()) {
            return Err(SecurityError::new("ssl.truststore.type", format!("{key} must be PEM here")));
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let roots = Arc::new(roots(properties)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
    let verifier =
        verifier.map_err(|error| SecurityError::new("ssl.truststore.location", error.to_string()))?;
    let checks_names =
        properties.get("ssl.endpoint.identification.algorithm").is_none_or(|name| !name.is_empty());
    let verifier: Arc<dyn ServerCertVerifier> =
        if checks_names { verifier } else { Arc::new(AnyName(verifier)) };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| SecurityError::new("ssl.protocol", error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let own =
        pem(properties, "ssl.keystore.location", &["ssl.keystore.key", "ssl.keystore.certificate.chain"])?;
    let Some(own) = own else { return Ok(builder.with_no_client_auth()) };
    let wrong = |why: String| SecurityError::new("ssl.keystore.location", why);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&own).collect();
    let chain = chain.map_err(|error| wrong(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&own).map_err(|error| wrong(error.to_string()))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| wrong(error.to_string()))
}

fn roots(properties: &Properties) -> Result<RootCertStore, SecurityError> {
    let wrong = |why: String| SecurityError::new("ssl.truststore.location", why);
    let given = pem(properties, "ssl.truststore.location", &["ssl.truststore.certificates"])?;
    let given =
        given.ok_or_else(|| wrong("TLS needs the certificates that sign those of the brokers".into()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&given) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(roots)
}

/// The PEM text in the file of one property, or in the values of others.
fn pem(
    properties: &Properties,
    location: &'static str,
    inline: &[&str],
) -> Result<Option<Vec<u8>>, SecurityError> {
    if let Some(path) = properties.get(location) {
        let read = std::fs::read(path.trim());
        return read.map(Some).map_err(|error| SecurityError::new(location, format!("{path}: {error}")));
    }
    let texts: Vec<&str> = inline.iter().filter_map(|key| properties.get(*key)).map(String::as_str).collect();
    Ok((!texts.is_empty()).then(|| texts.join("\n").into_bytes()))
}

/// Takes a broker's certificate whatever its names are, as Kafka's clients do when
/// `ssl.endpoint.identification.algorithm` is empty.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(given: &[(&str, &str)]) -> String {
        let given = given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Security::from_properties(&given).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn properties_are_refused_by_name_and_without_secrets() {
        let jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"u\";";
        for (given, expected) in [
            (vec![("security.protocol", "TLS")], "security.protocol: 'TLS'"),
            (vec![("security.protocol", "SSL")], "ssl.truststore.location"),
            (vec![("security.protocol", "SASL_PLAINTEXT")], "sasl.mechanism"),
            (
                vec![
                    ("security.protocol", "SASL_PLAINTEXT"),
                    ("sasl.mechanism", "SCRAM-SHA-256"),
                    ("sasl.jaas.config", jaas),
                ],
                "the option password is missing",
            ),
            (
                vec![("security.protocol", "SSL"), ("ssl.truststore.location", "/no/such/file")],
                "/no/such/file",
            ),
            (vec![("security.protocol", "SSL"), ("ssl.keystore.type", "JKS")], "must be PEM"),
        ] {
            let refused = refused(&given);
            assert!(refused.contains(expected), "{expected}: {refused}");
        }
        assert_eq!(refused(&[]), "");
    }
}
