//! The broker's decisions as state machines: catalog, partitions and producers, transactions, groups, offsets,
//! ACLs, users, quotas.
//! It must not know bytes on a wire or a disk, sockets, clocks, threads or Kafka's error codes.
//!
//! One [`Shard`] is a single writer. Its contract:
//! - [`Shard::step`] judges an input at a given time. It changes volatile facts only (waiting requests, times of
//!   heartbeats) and pushes [`Effect`]s: records to append, replies to send.
//! - [`Shard::apply`] takes a record that the log accepted. It is the sole change of durable state, live and on replay,
//!   and cannot fail. The host applies the records of a step before the next step.
//! - [`Shard::refused`] takes back what a step expected when the log refuses one of its records, for lack of room or
//!   for its size. The records before it stay applied: a prefix of a step's records is a whole state, as after a crash
//!   between them.
//! - [`Shard::deadline`] names the earliest time at which [`Input::Tick`] has something to do.
//!
//! The host stamps each reply with the end of the log at that moment and holds it until all before is durable.
//! The law, tested for every machine: applying the records again gives the same [`Shard::snapshot`].
#![forbid(unsafe_code)]

pub mod acls;
pub mod catalog;
pub mod compaction;
pub mod config;
mod effect;
pub mod groups;
mod hash;
mod input;
pub mod offsets;
pub mod partitions;
pub mod quotas;
mod reach;
mod refusal;
mod shard;
pub mod transactions;
pub mod users;

pub use effect::{Effect, Effects, RecordPosition, Reply, Ticket, TicketId};
pub use hash::offsets_partition;
pub use input::{Command, Input};
pub use refusal::{Facts, Refusal, Rejection};
pub use shard::Shard;
