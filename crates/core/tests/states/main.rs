//! Every pair of a state and an event, for each state machine: the answer, the next state, and what a crash in between
//! leaves.
//!
//! The tables are text beside the code that plays them: a row for each event, a column for each state. A pair that no
//! table names fails the test, as does a row for an event that does not exist.

#![expect(clippy::unwrap_used, reason = "a test that finds something else than expected may panic")]

mod delayed;
mod group;
mod producer;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod transaction;
mod world;
