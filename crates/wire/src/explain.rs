//! From bytes to a tree: every byte of a frame named, placed and explained by the tables that the broker serves with.
//!
//! [`request`], [`response`] and [`message`] walk the tables over bytes. Nothing they are given is an error: a fault ends the
//! innermost thing that has a length of its own (a tagged field, a record batch, the frame), the rest of which becomes one
//! node named `undecoded`, and what follows is read on.
//!
//! The children of a node lie in it in order, side by side, and fill it; only strings and bytes that are opened have a part of
//! their own in front, their length. So every byte of the frame belongs to exactly one innermost node.

mod cursor;
mod escape;
mod nested;
mod node;
mod old;
mod records;
mod text;
mod walk;

pub use escape::{escape_line, escape_lines, is_bidi_control, is_unprintable};
pub use node::{Explanation, Fault, FrameHeader, Kind, Node, Note, Prefix, Problem, Region, Value};
pub use text::{branches, columns, format_timestamp, quote, show_bytes};
pub use walk::{message, records, request, response, sample};

use crate::Uuid;
use std::collections::BTreeMap;

/// How far to go.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether record batches are opened.
    pub records: bool,
    /// Whether bytes that hold a message of their own are opened: subscriptions and assignments in group messages, control
    /// records, the records of internal topics.
    pub nested: bool,
    /// The most bytes that may come out of decompression, in all.
    pub cap: usize,
    /// The most nodes; what comes after is left out.
    pub max_nodes: usize,
    /// The names of topics, for messages that only have their ids.
    pub topics: BTreeMap<Uuid, String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { records: true, nested: true, cap: 64 << 20, max_nodes: 1 << 20, topics: BTreeMap::new() }
    }
}
