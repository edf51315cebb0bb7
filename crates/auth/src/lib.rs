//! Authentication as pure functions: the exchanges of SASL mechanisms, the tokens they carry, and the names that client
//! certificates map to. The broker and the client both use it. It must not know sockets, clocks, randomness, Kafka's
//! messages, or who may do what: the caller passes nonces and the time, and sends the bytes.
//!
//! The modules in their order; each uses only modules above it:
//!
//! ```text
//!   secret               bytes that no log or error shows
//!   jaas                 Kafka's login module lines (S-123)
//!   plain                PLAIN (S-120 to S-122)
//!   scram                SCRAM-SHA-256 and SCRAM-SHA-512 (S-130 to S-137)
//!   jwt                  signed tokens and key sets (S-155 to S-161)
//!   oauthbearer          OAUTHBEARER (S-148 to S-152)
//!   distinguished_name   the text of a certificate's subject (S-51, S-52)
//!   mapping_rules        ssl.principal.mapping.rules (S-53 to S-58)
//! ```
#![forbid(unsafe_code)]

pub mod distinguished_name;
pub mod mapping_rules;
