//! The HTTP side of a broker in memory: every page and the JSON behind it, hostile names, aborts, and a broker that is
//! not ready.
#![expect(clippy::unwrap_used, reason = "a step that fails ends its test")]

mod aborts;
mod codes;
mod decode;
mod figures;
mod frames;
mod guard;
mod pages;
mod world;
