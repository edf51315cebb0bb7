//! PLAIN (RFC 4616) with Kafka's rules: the users of a broker, and the message of a client (S-120 to S-122).

use crate::secret::Secret;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use subtle::ConstantTimeEq;
use thiserror::Error;

/// The users of PLAIN, with the hashes of their passwords.
#[derive(Clone, Debug, Default)]
pub struct PlainUsers {
    hashes: BTreeMap<String, PasswordHash>,
}

#[derive(Clone)]
struct PasswordHash([u8; 32]);

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Why a login is refused. The text may be shown to the client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlainError {
    /// The message is not `authzid NUL user NUL password`.
    #[error("Invalid SASL/PLAIN response: expected 3 tokens, got {0}")]
    Tokens(usize),
    /// The message is not UTF-8.
    #[error("Authentication failed: the SASL/PLAIN response is not UTF-8")]
    NotText,
    /// The user name is empty.
    #[error("Authentication failed: username not specified")]
    NoUser,
    /// The password is empty.
    #[error("Authentication failed: password not specified")]
    NoPassword,
    /// The user is unknown, or the password is wrong.
    #[error("Authentication failed: Invalid username or password")]
    Invalid,
    /// The client wants to act as another user (CVE-2017-12610).
    #[error("Authentication failed: Client requested an authorization id that is different from username")]
    OtherUser,
}

impl PlainUsers {
    /// Users with their passwords.
    pub fn new<'a>(users: impl Iterator<Item = (&'a str, &'a Secret)>) -> PlainUsers {
        let hash =
            |(name, password): (&str, &Secret)| (name.to_owned(), PasswordHash(hash(password.bytes())));
        PlainUsers { hashes: users.map(hash).collect() }
    }

    /// Judges the message of a client and returns the user's name. An unknown user takes as long as a wrong password
    /// (S-122).
    ///
    /// # Errors
    /// The message is not legal, the user is unknown, or the password is wrong.
    pub fn authenticate(&self, message: &[u8]) -> Result<String, PlainError> {
        let text = std::str::from_utf8(message).map_err(|_| PlainError::NotText)?;
        let tokens: Vec<&str> = text.split('\0').collect();
        let [authorization_id, user, password] = tokens[..] else {
            return Err(PlainError::Tokens(tokens.len()));
        };
        if user.is_empty() {
            return Err(PlainError::NoUser);
        }
        if password.is_empty() {
            return Err(PlainError::NoPassword);
        }
        let known = self.hashes.get(user);
        let expected = known.map_or([0; 32], |hash| hash.0);
        let same = bool::from(hash(password.as_bytes()).ct_eq(&expected));
        if known.is_none() || !same {
            return Err(PlainError::Invalid);
        }
        if !authorization_id.is_empty() && authorization_id != user {
            return Err(PlainError::OtherUser);
        }
        Ok(user.to_owned())
    }
}

/// The message of a client.
pub fn initial_response(user: &str, password: &Secret) -> Vec<u8> {
    [b"\0", user.as_bytes(), b"\0", password.bytes()].concat()
}

/// A hash has the same length for every password, so that a comparison tells nothing of the length.
fn hash(password: &[u8]) -> [u8; 32] {
    Sha256::digest(password).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> PlainUsers {
        let users = [("alice", Secret::new("secret")), ("bob", Secret::new("ü"))];
        PlainUsers::new(users.iter().map(|(name, password)| (*name, password)))
    }

    #[test]
    fn s_120_exactly_three_parts() {
        let judge = |message: &[u8]| users().authenticate(message);
        assert_eq!(judge(b"\0alice\0secret"), Ok("alice".to_owned()));
        assert_eq!(judge("\0bob\0ü".as_bytes()), Ok("bob".to_owned()));
        assert_eq!(judge(b"\0alice"), Err(PlainError::Tokens(2)));
        assert_eq!(judge(b"\0alice\0secret\0"), Err(PlainError::Tokens(4)));
        assert_eq!(judge(b""), Err(PlainError::Tokens(1)));
        assert_eq!(judge(b"\0\0secret"), Err(PlainError::NoUser));
        assert_eq!(judge(b"\0alice\0"), Err(PlainError::NoPassword));
        assert_eq!(judge(b"\0\xff\0x"), Err(PlainError::NotText));
    }

    #[test]
    fn s_120_an_unknown_user_is_answered_as_a_wrong_password() {
        let unknown = users().authenticate(b"\0carol\0secret").unwrap_err();
        let wrong = users().authenticate(b"\0alice\0secreT").unwrap_err();
        assert_eq!(unknown.to_string(), wrong.to_string());
        assert_eq!(unknown.to_string(), "Authentication failed: Invalid username or password");
    }

    #[test]
    fn s_121_the_authorization_id_is_the_user_or_empty() {
        assert_eq!(users().authenticate(b"alice\0alice\0secret"), Ok("alice".to_owned()));
        assert_eq!(users().authenticate(b"bob\0alice\0secret"), Err(PlainError::OtherUser));
        assert_eq!(users().authenticate(b"bob\0alice\0wrong"), Err(PlainError::Invalid));
    }

    #[test]
    fn what_a_client_sends_is_accepted() {
        let message = initial_response("alice", &Secret::new("secret"));
        assert_eq!(users().authenticate(&message), Ok("alice".to_owned()));
    }
}
