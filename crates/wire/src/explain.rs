//! Explains a frame as a tree: every byte belongs to a field with name, type, value and meaning, from the tables that
//! the broker uses.
//!
//! [`request`], [`response`] and [`message`] walk over the bytes by the tables. They never fail. At a fault, the rest
//! of the innermost part with a length of its own (a tagged field, a record batch, the frame) becomes one node named
//! `undecoded`, and the walk continues after that part.
//!
//! The children of a node are adjacent and cover it, except for the length in front of strings and bytes whose content
//! is explained. So every byte of the frame belongs to exactly one innermost node.

mod cursor;
mod escape;
mod fields;
mod nested;
mod node;
mod old;
mod records;
mod text;
mod values;
mod walk;

pub use escape::{escape_line, escape_lines, is_bidi_control, is_unprintable};
pub use node::{Explanation, Fault, FrameHeader, Kind, Node, Note, Prefix, Problem, Region, Value};
pub use text::{branches, columns, format_timestamp, quote, show_bytes};
pub use walk::{message, records, request, response, sample};

use crate::Uuid;
use std::collections::BTreeMap;

/// The limits of an explanation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether the content of record batches is explained.
    pub records: bool,
    /// Whether bytes that contain another message are explained: subscriptions and assignments in group messages,
    /// control records, the records of internal topics.
    pub nested: bool,
    /// The most decompressed bytes in total.
    pub cap: usize,
    /// The most nodes; further ones are left out.
    pub max_nodes: usize,
    /// The names of topics, for messages that contain only their ids.
    pub topics: BTreeMap<Uuid, String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { records: true, nested: true, cap: 64 << 20, max_nodes: 1 << 20, topics: BTreeMap::new() }
    }
}
