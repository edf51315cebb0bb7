//! The records of users that authenticate with SCRAM.

use bytes::Bytes;
use std::fmt;

/// A record of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRecord {
    /// A user's SCRAM credentials changed.
    ScramChanged(ScramChanged),
}

/// SCRAM credentials that were removed and stored, in one atomic change (KIP-554).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScramChanged {
    /// Users and mechanisms whose credentials no longer exist.
    pub removed: Vec<(String, ScramMechanism)>,
    /// Credentials that replace those of the same user and mechanism.
    pub stored: Vec<ScramCredential>,
}

/// A SCRAM mechanism, with Kafka's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ScramMechanism {
    /// SCRAM-SHA-256.
    Sha256 = 1,
    /// SCRAM-SHA-512.
    Sha512 = 2,
}

impl ScramMechanism {
    /// The mechanism with this number in Kafka's protocol.
    pub const fn from_number(number: u8) -> Option<ScramMechanism> {
        match number {
            1 => Some(ScramMechanism::Sha256),
            2 => Some(ScramMechanism::Sha512),
            _ => None,
        }
    }

    /// The number in Kafka's protocol.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The name that SASL uses.
    pub const fn name(self) -> &'static str {
        match self {
            ScramMechanism::Sha256 => "SCRAM-SHA-256",
            ScramMechanism::Sha512 => "SCRAM-SHA-512",
        }
    }
}

/// What is kept of a user's password for one mechanism (S-135): never the password, nor the salted password.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredential {
    /// The user's name.
    pub user: String,
    /// The mechanism.
    pub mechanism: ScramMechanism,
    /// Salt of the password.
    pub salt: Bytes,
    /// Rounds of hashing.
    pub iterations: i32,
    /// StoredKey of RFC 5802: it verifies the client's proof.
    pub stored_key: Bytes,
    /// ServerKey of RFC 5802: it signs the broker's answer.
    pub server_key: Bytes,
}

impl fmt::Debug for ScramCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScramCredential { user, mechanism, iterations, .. } = self;
        write!(f, "ScramCredential {{ {user:?}, {mechanism:?}, {iterations} iterations, keys hidden }}")
    }
}
