//! The rules of a shard as tests, each named by the rule it proves.

#![expect(clippy::unwrap_used, reason = "a test that finds something else than expected may panic")]

mod clock;
mod compacting;
mod ending;
mod idempotence;
mod law;
mod machine;
mod owning;
mod parts;
mod pieces;
mod planning;
mod reading;
mod recovery;
mod refusing;
mod rewriting;
#[path = "../support/mod.rs"]
mod support;
mod verifying;
mod world;
