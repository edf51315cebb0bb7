//! The broker in memory, asked by a peer that speaks in frames.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a step that fails ends its test")]

mod connect;
mod metadata;
mod world;
