//! Groups and offsets, driven through the shard as a host drives it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod deletion;
mod events;
mod ledger;
mod members;
mod offsets;
mod refused;
mod replay;
mod staged;
mod statics;
mod timers;
mod world;
