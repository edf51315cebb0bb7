//! Messages as JSON, in both directions, by the tables alone.
//!
//! The shape is that of Apache Kafka's own converters: the fields of the version under their names with a small first
//! letter, bytes and records in base64, ids as Kafka's text, null as null, tagged fields only if they differ from their
//! default. In addition:
//!
//! - `_unknownTaggedFields`, a list of `{"tag": 7, "data": "<base64>"}`, has the tagged fields that the schema does not
//!   know;
//! - any other name that begins with `_` is a comment, which [`decode`] may write and [`encode`] ignores;
//! - [`encode`] also accepts names in the spelling of the schema, and a missing field has its default.
//!
//! [`decode`] accepts the same bytes as the typed codec. Its result encodes to the same bytes, except for over-long
//! numbers.

mod batches;
mod decode;
mod encode;
mod frame;

pub use decode::{Options, decode};
pub use encode::{JsonError, encode};
pub use frame::{decode_request, decode_response, encode_request, encode_response};

use ottla_wire::tables::{FieldTable, MessageTable};

/// The list of tagged fields that the schema does not know.
const UNKNOWN_TAGS: &str = "_unknownTaggedFields";

/// The name of a field in JSON: as in the schema, with a small first letter.
fn json_name(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// Whether lengths are compact, as they always are in a tagged field.
fn is_compact(message: &MessageTable, field: &FieldTable, version: i16, tagged: bool) -> bool {
    tagged || field.has_compact_length(message, version)
}
