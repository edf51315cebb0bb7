//! The rules of a shard as tests, each named by the rule it proves.

#![expect(clippy::unwrap_used, reason = "a test that finds something else than expected may panic")]

mod ending;
mod idempotence;
mod law;
mod owning;
mod reading;
mod world;
