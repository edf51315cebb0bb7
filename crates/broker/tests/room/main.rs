//! A full disk, and how its space is freed.
#![expect(clippy::unwrap_used, reason = "a step that fails ends its test")]

mod freeing;
mod full;
mod world;
