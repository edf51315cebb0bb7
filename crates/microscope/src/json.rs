//! Messages as JSON, in both directions, by the tables alone.
//!
//! The shape is the one that Apache Kafka's own converters write: the fields of the version under their names with a small first
//! letter, bytes and records in base64, ids as Kafka's text, null as null, tagged fields only where they are not at their
//! default. Besides:
//!
//! - `_unknownTaggedFields`, a list of `{"tag": 7, "data": "<base64>"}`, keeps what the schema does not know;
//! - any other name that begins with `_` is commentary: [`decode`] may write some, [`encode`] skips them;
//! - names are read in the schema's own spelling too, and a field that is not there has its default.
//!
//! What [`decode`] accepts is what the typed codec accepts; its answer encodes to the same bytes, over-long numbers aside.

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

/// Whether lengths are compact: in a tagged field always.
fn is_compact(message: &MessageTable, field: &FieldTable, version: i16, tagged: bool) -> bool {
    tagged || field.has_compact_length(message, version)
}
