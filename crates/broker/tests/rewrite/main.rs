//! Moving the tail of the log into runs: nothing is lost, the tail stays bounded, and space is freed.
#![expect(clippy::unwrap_used, reason = "a step that fails ends its test")]

mod bound;
mod kept;
mod race;
mod space;
mod world;
