//! The tail of the log goes into runs: nothing is lost by it, the tail stays bounded, and space returns.
#![expect(clippy::unwrap_used, reason = "a step that fails ends its test")]

mod bound;
mod kept;
mod race;
mod space;
mod world;
