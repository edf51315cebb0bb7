//! The keys and certificates of a listener with TLS (S-20 to S-42).
//!
//! They are read at start and again when their files change. A set that cannot be used leaves the one before in force.

mod files;
mod verifier;

use crate::security_protocol::SecurityProtocol;
use files::{FileStamp, KeyMaterial, TlsFiles};
use ottla_core::config::Settings;
use rustls::crypto::CryptoProvider;
use rustls::server::ClientHello;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use verifier::{ClientVerifier, Required};

/// Why the keys and certificates of a listener cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("listener {listener}: {why}")]
pub struct TlsError {
    listener: String,
    why: String,
}

/// The TLS of one listener.
#[derive(Debug)]
pub(crate) struct Tls {
    listener: String,
    files: TlsFiles,
    required: Required,
    versions: Vec<&'static SupportedProtocolVersion>,
    loaded: Mutex<FileStamp>,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the keys and certificates of a listener.
    ///
    /// # Errors
    /// The settings contradict each other, or a file cannot be read or used.
    pub(crate) fn load(
        settings: &Settings,
        listener: &str,
        protocol: SecurityProtocol,
    ) -> Result<Tls, TlsError> {
        let listener = listener.to_owned();
        let failed = |why: String| TlsError { listener: listener.clone(), why };
        let value = |key: &str| settings.value_for(&listener, None, key).unwrap_or_default();
        let files = TlsFiles::of(&value).map_err(failed)?;
        // S-27: on a listener with SASL only a setting of the listener itself counts.
        let own = settings.given_for(&listener, "ssl.client.auth");
        let client_auth = match protocol {
            SecurityProtocol::SaslSsl => own.unwrap_or("none").to_owned(),
            _ => value("ssl.client.auth"),
        };
        let required = match client_auth.trim() {
            "required" => Required::Yes,
            "requested" => Required::IfSent,
            _ => Required::No,
        };
        let enabled = value("ssl.enabled.protocols");
        let versions: Vec<_> = [("TLSv1.2", &TLS12), ("TLSv1.3", &TLS13)]
            .into_iter()
            .filter(|(name, _)| enabled.split(',').any(|enabled| enabled.trim() == *name))
            .map(|(_, version)| version)
            .collect();
        let stamp = files.stamp();
        let server = server_config(&files, required, &versions).map_err(failed)?;
        Ok(Tls {
            listener,
            files,
            required,
            versions,
            loaded: Mutex::new(stamp),
            config: RwLock::new(Arc::new(server)),
        })
    }

    /// What new connections are accepted with.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again if one has changed since, or in any case. Returns whether new ones are in force (S-42).
    ///
    /// # Errors
    /// The files cannot be used. The ones before stay in force.
    pub(crate) fn reload(&self, in_any_case: bool) -> Result<bool, TlsError> {
        let stamp = self.files.stamp();
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if *loaded == stamp && !in_any_case {
            return Ok(false);
        }
        *loaded = stamp;
        let server = server_config(&self.files, self.required, &self.versions)
            .map_err(|why| TlsError { listener: self.listener.clone(), why })?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(server);
        Ok(true)
    }
}

/// Presents one certificate, whatever host name the client expects (S-28).
#[derive(Debug)]
struct OnlyCertificate(Arc<CertifiedKey>);

impl rustls::server::ResolvesServerCert for OnlyCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

fn server_config(
    files: &TlsFiles,
    required: Required,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ServerConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let KeyMaterial { chain, key } = files.key_material()?;
    let certified = CertifiedKey::from_der(chain, key, &provider);
    let certified =
        certified.map_err(|error| format!("the key and the certificate cannot be used: {error}"))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| format!("ssl.enabled.protocols: {error}"))?;
    let builder = match client_verifier(files, required, &provider)? {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier),
    };
    Ok(builder.with_cert_resolver(Arc::new(OnlyCertificate(Arc::new(certified)))))
}

fn client_verifier(
    files: &TlsFiles,
    required: Required,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    if required == Required::No {
        return Ok(None);
    }
    let trusted = files.trusted()?;
    if trusted.is_empty() {
        return Err("ssl.client.auth needs ssl.truststore.location or ssl.truststore.certificates".to_owned());
    }
    let mut roots = RootCertStore::empty();
    for certificate in &trusted {
        roots
            .add(certificate.clone())
            .map_err(|error| format!("a certificate of the truststore cannot be used: {error}"))?;
    }
    let verifier = ClientVerifier::new(roots, trusted, required, provider);
    Ok(Some(Arc::new(verifier.map_err(|error| format!("the truststore cannot be used: {error}"))?)))
}
