//! Certificates, brokers, and connections with and without TLS.

use ottla::{Broker, Builder};
use ottla_auth::scram::{ClientExchange, Mechanism};
use ottla_auth::secret::Secret;
use ottla_wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use ottla_wire::messages::{
    AlterUserScramCredentialsRequest, Request, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest,
};
use ottla_wire::{Message, Text, frame};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
pub(crate) const PLAIN_USERS: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required \
                                      user_admin=\"admin-secret\" user_alice=\"alice-secret\";";

/// A certificate and its private key, as PEM.
pub(crate) struct Identity {
    pub(crate) chain: String,
    pub(crate) key: String,
}

/// An authority that signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn key(&self) -> String {
        self.0.key().serialize_pem()
    }

    pub(crate) fn identity(&self, name: &str) -> Identity {
        let mut params =
            CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Org");
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let chain = params.signed_by(&key, &self.0).unwrap().pem();
        Identity { chain, key: key.serialize_pem() }
    }
}

/// A builder of a broker with these listeners, whose keys are given as text.
pub(crate) fn builder(listeners: &str, server: &Identity, trusted: &str) -> Builder {
    let builder = Broker::in_memory().set("listeners", listeners);
    let builder = builder.set("ssl.keystore.key", &server.key);
    let builder = builder.set("ssl.keystore.certificate.chain", &server.chain);
    if trusted.is_empty() { builder } else { builder.set("ssl.truststore.certificates", trusted) }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// A connection for typed requests.
pub(crate) struct Client {
    stream: Box<dyn ReadWrite>,
    sent: i32,
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

impl Client {
    pub(crate) fn plain(address: SocketAddr) -> Client {
        Client { stream: Box::new(connect(address)), sent: 0 }
    }

    /// A connection with TLS. Its first request shows whether the broker takes the certificate.
    pub(crate) fn encrypted(address: SocketAddr, trusted: &str, own: Option<&Identity>) -> Client {
        Client::with_config(address, client_config(trusted, own))
    }

    pub(crate) fn with_config(address: SocketAddr, config: ClientConfig) -> Client {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        Client { stream: Box::new(StreamOwned::new(connection, connect(address))), sent: 0 }
    }

    /// Sends a request and waits for its response.
    pub(crate) fn call<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.try_call(request, version).unwrap()
    }

    /// The same; an error if the connection ends.
    pub(crate) fn try_call<R: Request>(&mut self, request: &R, version: i16) -> io::Result<R::Response> {
        self.sent += 1;
        let sent = frame::request(self.sent, Some(&Text::from_static("test")), request, version).unwrap();
        let got = self.exchange(&sent.to_bytes())?;
        let (_, mut body) = frame::read_response_header(&got.into(), R::KEY, version).unwrap();
        Ok(R::Response::decode(&mut body, version).unwrap())
    }

    /// Sends bytes and waits for a frame, which is returned without its length.
    pub(crate) fn exchange(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.stream.write_all(bytes)?;
        self.stream.flush()?;
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        let mut got = vec![0; usize::try_from(u32::from_be_bytes(size)).unwrap()];
        self.stream.read_exact(&mut got)?;
        Ok(got)
    }

    /// Sends bytes, and returns everything until the broker closes the connection.
    pub(crate) fn send_to_end(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.stream.write_all(bytes).unwrap();
        let mut got = Vec::new();
        // A reset is an end too.
        let _ = self.stream.read_to_end(&mut got);
        got
    }

    pub(crate) fn handshake(&mut self, mechanism: &'static str) -> i16 {
        let request = SaslHandshakeRequest { mechanism: Text::from_static(mechanism), ..Default::default() };
        self.call(&request, 1).error_code
    }

    pub(crate) fn token(&mut self, token: &[u8]) -> SaslAuthenticateResponse {
        let auth_bytes = bytes::Bytes::copy_from_slice(token);
        self.call(&SaslAuthenticateRequest { auth_bytes, ..Default::default() }, 2)
    }

    /// Logs in with PLAIN and returns the last response.
    pub(crate) fn log_in_plain(&mut self, user: &str, password: &str) -> SaslAuthenticateResponse {
        assert_eq!(self.handshake("PLAIN"), 0);
        self.token(&ottla_auth::plain::initial_response(user, &Secret::new(password)))
    }

    /// Logs in with SCRAM and returns the last response; the broker proves that it knows the user.
    pub(crate) fn log_in_scram(
        &mut self,
        mechanism: Mechanism,
        user: &str,
        password: &str,
    ) -> SaslAuthenticateResponse {
        assert_eq!(self.handshake(mechanism.name()), 0);
        let (mut exchange, first) =
            ClientExchange::begin(mechanism, user, Secret::new(password), "0123456789abcdef", false);
        let first = self.token(&first);
        assert_eq!(first.error_code, 0);
        let last = self.token(&exchange.answer(&first.auth_bytes).unwrap());
        if last.error_code == 0 {
            exchange.finish(&last.auth_bytes).unwrap();
        }
        last
    }
}

/// The configuration of a client that trusts these certificates and presents this one.
pub(crate) fn client_config(trusted: &str, own: Option<&Identity>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.unwrap().with_root_certificates(roots);
    match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = CertificateDer::pem_slice_iter(own.chain.as_bytes());
            let chain = chain.collect::<Result<_, _>>().unwrap();
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    }
}

/// A request that stores a user's credential, as Kafka's tools send it.
pub(crate) fn store_user(
    mechanism: Mechanism,
    user: &str,
    password: &str,
) -> AlterUserScramCredentialsRequest {
    let salt = b"salt of a test".to_vec();
    let salted = mechanism.salted_password(&Secret::new(password), &salt, 4096);
    let upsertion = ScramCredentialUpsertion {
        name: Text::from(user),
        mechanism: if mechanism == Mechanism::Sha256 { 1 } else { 2 },
        iterations: 4096,
        salt: salt.into(),
        salted_password: bytes::Bytes::copy_from_slice(salted.bytes()),
        ..Default::default()
    };
    AlterUserScramCredentialsRequest { upsertions: vec![upsertion], ..Default::default() }
}
