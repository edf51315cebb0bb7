//! Groups and offsets, driven through the shard as a host drives it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod deletion;
mod members;
mod statics;
mod timers;
mod world;
