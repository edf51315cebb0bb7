//! Judges the certificates of clients (S-26, S-34).

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};
use std::sync::Arc;

/// Whether clients present a certificate (`ssl.client.auth`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Required {
    /// It is not asked for.
    No,
    /// It is asked for, and a client may have none.
    IfSent,
    /// A client without one is refused.
    Yes,
}

/// The verifier of rustls, and beside it the certificates of the truststore themselves: Java takes a self-signed
/// certificate that is in the truststore, which rustls refuses if it says that it is an authority (S-34).
#[derive(Debug)]
pub(super) struct ClientVerifier {
    chains: Arc<dyn ClientCertVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ClientVerifier {
    pub(super) fn new(
        roots: RootCertStore,
        trusted: Vec<CertificateDer<'static>>,
        required: Required,
        provider: &Arc<CryptoProvider>,
    ) -> Result<ClientVerifier, VerifierBuilderError> {
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let builder = if required == Required::IfSent { builder.allow_unauthenticated() } else { builder };
        Ok(ClientVerifier { chains: builder.build()?, trusted })
    }

    /// Whether the certificate itself is in the truststore.
    fn is_trusted(&self, certificate: &CertificateDer<'_>) -> bool {
        self.trusted.iter().any(|trusted| trusted.as_ref() == certificate.as_ref())
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.chains.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.chains.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.chains.verify_client_cert(certificate, intermediates, now) {
            // The reasons that have no kind of their own are about the use of the certificate; its dates are checked
            // before them.
            Err(Error::InvalidCertificate(CertificateError::Other(_))) if self.is_trusted(certificate) => {
                Ok(ClientCertVerified::assertion())
            }
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
