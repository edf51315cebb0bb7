//! The client's side of an exchange.

use super::ScramError;
use super::keys::{MIN_ITERATIONS, Mechanism};
use super::message::{attribute, from_base64, to_base64, user_to_wire};
use crate::secret::Secret;
use subtle::ConstantTimeEq;

/// The most rounds of hashing that a client does for a server.
const MAX_ITERATIONS: u32 = 1_000_000;

/// An exchange in which the client has sent its first message.
#[derive(Debug)]
pub struct ClientExchange {
    mechanism: Mechanism,
    password: Secret,
    nonce: String,
    bare: String,
    /// What the server's last message must hold, once the client has sent its own.
    server_signature: Option<Vec<u8>>,
}

impl ClientExchange {
    /// Begins an exchange and returns the first message. `nonce` needs 128 random bits, in printable ASCII without
    /// commas. A delegation token is announced by an extension (S-137).
    pub fn begin(
        mechanism: Mechanism,
        user: &str,
        password: Secret,
        nonce: &str,
        is_token: bool,
    ) -> (ClientExchange, Vec<u8>) {
        let extension = if is_token { ",tokenauth=true" } else { "" };
        let bare = format!("n={},r={nonce}{extension}", user_to_wire(user));
        let message = format!("n,,{bare}").into_bytes();
        let nonce = nonce.to_owned();
        (ClientExchange { mechanism, password, nonce, bare, server_signature: None }, message)
    }

    /// Whether the first message of the server was answered.
    pub fn is_answered(&self) -> bool {
        self.server_signature.is_some()
    }

    /// Answers the first message of the server.
    ///
    /// # Errors
    /// The message is not legal, its nonce does not continue the client's, or its iterations are out of bounds.
    pub fn answer(&mut self, server_first: &[u8]) -> Result<Vec<u8>, ScramError> {
        let malformed = || ScramError::Malformed("server-first");
        let text = std::str::from_utf8(server_first).map_err(|_| malformed())?;
        let mut parts = text.split(',');
        let nonce = parts.next().and_then(|part| attribute(part, 'r')).ok_or_else(malformed)?;
        let salt = parts.next().and_then(|part| attribute(part, 's')).and_then(from_base64);
        let salt = salt.ok_or_else(malformed)?;
        let iterations = parts.next().and_then(|part| attribute(part, 'i'));
        let iterations: u32 = iterations.and_then(|text| text.parse().ok()).ok_or_else(malformed)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(malformed());
        }
        if !(MIN_ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
            return Err(ScramError::InvalidServer);
        }
        let mechanism = self.mechanism;
        let salted = mechanism.salted_password(&self.password, &salt, iterations);
        let unproved = format!("c={},r={nonce}", to_base64(b"n,,"));
        let signed = format!("{},{text},{unproved}", self.bare);
        let client_key = mechanism.hmac(salted.bytes(), b"Client Key");
        let signature = mechanism.hmac(&mechanism.hash(&client_key), signed.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(key, sign)| key ^ sign).collect();
        let server_key = mechanism.hmac(salted.bytes(), b"Server Key");
        self.server_signature = Some(mechanism.hmac(&server_key, signed.as_bytes()));
        Ok(format!("{unproved},p={}", to_base64(&proof)).into_bytes())
    }

    /// Checks the last message of the server.
    ///
    /// # Errors
    /// The server reports an error, or does not know the user's credential.
    pub fn finish(self, server_final: &[u8]) -> Result<(), ScramError> {
        let text = std::str::from_utf8(server_final).map_err(|_| ScramError::InvalidServer)?;
        let signature = text.split(',').next().and_then(|part| attribute(part, 'v')).and_then(from_base64);
        let expected = self.server_signature.ok_or(ScramError::InvalidServer)?;
        let same = signature.is_some_and(|signature| bool::from(signature.ct_eq(&expected)));
        if same { Ok(()) } else { Err(ScramError::InvalidServer) }
    }
}
