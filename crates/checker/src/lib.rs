//! Judges what clients observed of a broker: from a [`History`] of their operations it computes [`Finding`]s, none if
//! every promise held. It must not know the broker, its protocol, sockets, files or clocks: only the requests, answers
//! and reads of clients. [`pipeline`] and [`streams`] judge two whole applications.
//!
//! A history comes from a simulator, which records it in memory, or from real clients, whose workers in any language
//! write JSON lines ([`lines`] has their shape). What the workload must do so that the classes can be distinguished:
//! - A value is written once in a history. A retry by the client library is not a second write; a second attempt of the
//!   application takes a new value, and says with `from` which input it was made from.
//! - One process is one client and does one thing after another. A client that starts again is a new process.
//! - A write is recorded before it is sent, so that nothing can be read that is not in the history.
//! - A group's committed offsets move forward only: after an abort the consumer goes back to the committed offset.
//! - Nothing is deleted while the history lasts, and a transformed input starts at offset 0.
//! - At the end one or more [`Kind::Drain`] operations read keys from the first offset to the last.
//!
//! A key is a partition of a topic. Gaps in its offsets are legal: control records have offsets too.
#![forbid(unsafe_code)]

mod classes;
mod finding;
mod history;
pub mod lines;
mod names;
pub mod pipeline;
pub mod streams;
mod view;
mod violation;

pub use classes::{check, classes};
pub use finding::{Class, Finding};
pub use history::{Action, Ending, Group, History, Key, Kind, Op, OpId, Outcome, Process, Value, Write};
pub use violation::Violation;
