//! SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) with Kafka's rules (S-130 to S-137).
//!
//! ```text
//!   client-first  ──▶ ClientFirst::parse ──▶ ServerExchange::begin ──▶ server-first
//!   client-final  ──▶ ServerExchange::finish ──▶ server-final, or the login fails
//! ```

mod client;
mod keys;
mod message;
mod server;

pub use client::ClientExchange;
pub use keys::{Credential, MIN_ITERATIONS, Mechanism, SALT_LENGTH, salt};
pub use server::{ClientFirst, Decoy, ServerExchange};

use thiserror::Error;

/// Why an exchange failed. The text shows no secret; a broker answers with a generic text all the same (S-109).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScramError {
    /// The message does not have the form of its step.
    #[error("the {0} message is not legal")]
    Malformed(&'static str),
    /// The client wants channel binding, which is not offered (S-130).
    #[error("channel binding is not offered")]
    ChannelBinding,
    /// The message requires an extension that is not known (S-130).
    #[error("the message needs an extension that is not known")]
    MandatoryExtension,
    /// The client wants to act as another user (S-130).
    #[error("Authentication failed: Client requested an authorization id that is different from username")]
    OtherUser,
    /// The proof, the nonce or the channel binding is wrong, or the user is unknown (S-132, S-134).
    #[error("the credentials are not valid")]
    InvalidCredentials,
    /// The server's signature is wrong, or its iterations are out of bounds.
    #[error("the server did not prove that it knows the user's credential")]
    InvalidServer,
}
