//! The broker's side of an exchange.

use super::ScramError;
use super::keys::{Credential, MIN_ITERATIONS, Mechanism, SALT_LENGTH, salt};
use super::message::{attribute, from_base64, is_nonce, to_base64, user_from_wire};
use subtle::ConstantTimeEq;

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFirst {
    /// The user's name. With [`ClientFirst::is_token`] it is the id of a delegation token.
    pub user: String,
    /// The client logs in with a delegation token (S-137).
    pub is_token: bool,
    nonce: String,
    /// The header before the bare message: "n,," or with an authorization id.
    header: String,
    /// The message without its header, as received.
    bare: String,
}

impl ClientFirst {
    /// Reads the message (S-130).
    ///
    /// # Errors
    /// The message is not legal, or the client wants channel binding, an unknown mandatory extension, or to act as
    /// another user.
    pub fn parse(message: &[u8]) -> Result<ClientFirst, ScramError> {
        let malformed = || ScramError::Malformed("client-first");
        let text = std::str::from_utf8(message).map_err(|_| malformed())?;
        if text.starts_with("y,") || text.starts_with("p=") {
            return Err(ScramError::ChannelBinding);
        }
        let rest = text.strip_prefix("n,").ok_or_else(malformed)?;
        let (authorization_id, bare) = rest.split_once(',').ok_or_else(malformed)?;
        let header = text[..text.len() - bare.len()].to_owned();
        if bare.starts_with("m=") {
            return Err(ScramError::MandatoryExtension);
        }
        let mut parts = bare.split(',');
        let user = parts.next().and_then(|part| attribute(part, 'n')).and_then(user_from_wire);
        let user = user.filter(|user| !user.is_empty()).ok_or_else(malformed)?;
        let nonce = parts.next().and_then(|part| attribute(part, 'r')).filter(|text| is_nonce(text));
        let nonce = nonce.ok_or_else(malformed)?.to_owned();
        let mut is_token = false;
        for extension in parts {
            let (name, value) = extension.split_once('=').ok_or_else(malformed)?;
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphabetic()) {
                return Err(malformed());
            }
            is_token |= name == "tokenauth" && value.eq_ignore_ascii_case("true");
        }
        if !authorization_id.is_empty() {
            let wanted = attribute(authorization_id, 'a').and_then(user_from_wire).ok_or_else(malformed)?;
            if wanted != user {
                return Err(ScramError::OtherUser);
            }
        }
        Ok(ClientFirst { user, is_token, nonce, header, bare: bare.to_owned() })
    }
}

/// An exchange in which the broker has sent its first message.
#[derive(Debug)]
pub struct ServerExchange {
    mechanism: Mechanism,
    credential: Credential,
    is_known: bool,
    first: ClientFirst,
    /// The client's nonce and the broker's.
    nonce: String,
    server_first: String,
}

impl ServerExchange {
    /// Answers the first message. Without a credential the exchange looks the same and fails at its end (S-134).
    /// `server_nonce` needs 128 random bits, in printable ASCII without commas.
    pub fn begin(
        first: ClientFirst,
        mechanism: Mechanism,
        credential: Option<Credential>,
        server_nonce: &str,
        decoy: Decoy<'_>,
    ) -> (ServerExchange, Vec<u8>) {
        let is_known = credential.as_ref().is_some_and(|known| known.iterations >= MIN_ITERATIONS);
        let credential = credential.unwrap_or_else(|| decoy.credential(mechanism, &first.user));
        let nonce = format!("{}{server_nonce}", first.nonce);
        let salt = to_base64(&credential.salt);
        let server_first = format!("r={nonce},s={salt},i={}", credential.iterations);
        let message = server_first.clone().into_bytes();
        (ServerExchange { mechanism, credential, is_known, first, nonce, server_first }, message)
    }

    /// The user of the first message.
    pub fn first(&self) -> &ClientFirst {
        &self.first
    }

    /// Judges the final message of the client, and returns the final message of the broker.
    ///
    /// The signed text is made of the bytes that were received (S-133). The channel binding must be the header of the
    /// first message (S-132).
    ///
    /// # Errors
    /// The message is not legal, or the client does not know the password.
    pub fn finish(self, message: &[u8]) -> Result<Vec<u8>, ScramError> {
        let malformed = || ScramError::Malformed("client-final");
        let text = std::str::from_utf8(message).map_err(|_| malformed())?;
        let (unproved, proof) = text.rsplit_once(",p=").ok_or_else(malformed)?;
        let proof = from_base64(proof).ok_or_else(malformed)?;
        let mut parts = unproved.split(',');
        let binding = parts.next().and_then(|part| attribute(part, 'c')).and_then(from_base64);
        let binding = binding.ok_or_else(malformed)?;
        let nonce = parts.next().and_then(|part| attribute(part, 'r')).ok_or_else(malformed)?;
        let signed = format!("{},{},{unproved}", self.first.bare, self.server_first);
        let Credential { stored_key, server_key, .. } = &self.credential;
        let signature = self.mechanism.hmac(stored_key, signed.as_bytes());
        let same_length = proof.len() == signature.len();
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(proof, sign)| proof ^ sign).collect();
        let proved = bool::from(self.mechanism.hash(&client_key).ct_eq(stored_key));
        let same_nonce = bool::from(nonce.as_bytes().ct_eq(self.nonce.as_bytes()));
        let same_binding = binding == self.first.header.as_bytes();
        if !(self.is_known && same_length && proved && same_nonce && same_binding) {
            return Err(ScramError::InvalidCredentials);
        }
        let signature = self.mechanism.hmac(server_key, signed.as_bytes());
        Ok(format!("v={}", to_base64(&signature)).into_bytes())
    }
}

/// What users that do not exist are answered with, so that they look like the others (S-134).
#[derive(Clone, Copy, Debug)]
pub struct Decoy<'a> {
    /// Random bytes. Salts follow from them, so that a user has the same one at each attempt.
    pub secret: &'a [u8],
    /// The iterations that most users have.
    pub iterations: u32,
}

impl Decoy<'_> {
    /// The credential of a user that does not exist. No proof fits it.
    fn credential(&self, mechanism: Mechanism, user: &str) -> Credential {
        let of = |what: &str| {
            mechanism.hmac(self.secret, format!("{what}\0{}\0{user}", mechanism.name()).as_bytes())
        };
        let mut random = [0; SALT_LENGTH];
        random.iter_mut().zip(of("salt")).for_each(|(to, byte)| *to = byte);
        Credential {
            salt: salt(random),
            iterations: self.iterations,
            stored_key: of("stored key"),
            server_key: of("server key"),
        }
    }
}
