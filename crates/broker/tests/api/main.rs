//! A broker in memory, tested through a client that sends and receives frames.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a step that fails ends its test")]

mod cluster;
mod configs;
mod connect;
mod data;
mod groups;
mod list_offsets;
mod log;
mod metadata;
mod rules;
mod runs;
mod stored_as;
mod topic_names;
mod topics;
mod trace;
mod transactions;
mod verdicts;
mod world;
