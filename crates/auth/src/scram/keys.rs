//! The keys of SCRAM, derived from a password.

use crate::secret::Secret;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};
use std::fmt;

/// The fewest rounds of hashing that are accepted (S-131).
pub const MIN_ITERATIONS: u32 = 4096;

/// Bytes of a new salt.
pub const SALT_LENGTH: usize = 26;

/// A salt like those that Kafka's tools make, so that a salt does not tell who made it: letters and digits, about 134
/// bits of the random bytes.
pub fn salt(random: [u8; SALT_LENGTH]) -> Vec<u8> {
    const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    random.map(|byte| ALPHABET[usize::from(byte) % ALPHABET.len()]).to_vec()
}

/// A SCRAM mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl Mechanism {
    /// The name in SASL.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Sha256 => "SCRAM-SHA-256",
            Mechanism::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// The length of hashes and keys, in bytes.
    pub const fn hash_length(self) -> usize {
        match self {
            Mechanism::Sha256 => 32,
            Mechanism::Sha512 => 64,
        }
    }

    pub(super) fn hash(self, data: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::Sha256 => Sha256::digest(data).to_vec(),
            Mechanism::Sha512 => Sha512::digest(data).to_vec(),
        }
    }

    pub(super) fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::Sha256 => hmac::<Hmac<Sha256>>(key, data),
            Mechanism::Sha512 => hmac::<Hmac<Sha512>>(key, data),
        }
    }

    /// The salted password of RFC 5802, the result of `iterations` rounds.
    pub fn salted_password(self, password: &Secret, salt: &[u8], iterations: u32) -> Secret {
        let mut salted = vec![0; self.hash_length()];
        match self {
            Mechanism::Sha256 => {
                pbkdf2::pbkdf2_hmac::<Sha256>(password.bytes(), salt, iterations, &mut salted);
            }
            Mechanism::Sha512 => {
                pbkdf2::pbkdf2_hmac::<Sha512>(password.bytes(), salt, iterations, &mut salted);
            }
        }
        Secret::new(salted)
    }
}

fn hmac<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Vec<u8> {
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else {
        // HMAC takes keys of every length.
        return Vec::new();
    };
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

/// What a broker keeps of a password (S-135).
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// Salt of the password.
    pub salt: Vec<u8>,
    /// Rounds of hashing.
    pub iterations: u32,
    /// Verifies the client's proof.
    pub stored_key: Vec<u8>,
    /// Signs the broker's answer.
    pub server_key: Vec<u8>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential {{ {} iterations, keys hidden }}", self.iterations)
    }
}

impl Credential {
    /// The credential of a password.
    pub fn from_password(
        mechanism: Mechanism,
        password: &Secret,
        salt: Vec<u8>,
        iterations: u32,
    ) -> Credential {
        let salted = mechanism.salted_password(password, &salt, iterations);
        Credential::from_salted_password(mechanism, &salted, salt, iterations)
    }

    /// The credential of a salted password, which is what KIP-554 sends.
    pub fn from_salted_password(
        mechanism: Mechanism,
        salted_password: &Secret,
        salt: Vec<u8>,
        iterations: u32,
    ) -> Credential {
        let salted = salted_password.bytes();
        let stored_key = mechanism.hash(&mechanism.hmac(salted, b"Client Key"));
        let server_key = mechanism.hmac(salted, b"Server Key");
        Credential { salt, iterations, stored_key, server_key }
    }
}
