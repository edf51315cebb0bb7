//! Listeners, TLS, SASL and ACLs, seen through sockets.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

mod acls;
mod page;
mod sasl;
mod settings;
mod tls;
mod world;
