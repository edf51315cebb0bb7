//! The schemas as data: message, struct, field. Generated from the same model as the code.

pub use crate::smallest::smallest;
use crate::{ApiKey, Uuid, Versions};

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    Request,
    /// To the client.
    Response,
}

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// Sent by a client.
    Request,
    /// Sent back to it.
    Response,
    /// In front of either.
    Header,
    /// Bytes inside other messages or records.
    Data,
}

/// A message.
#[derive(Debug)]
pub struct MessageTable {
    /// Its name.
    pub name: &'static str,
    /// What it is for, in a sentence; may be empty.
    pub about: &'static str,
    /// What kind it is.
    pub kind: MessageKind,
    /// Its API, of requests and responses.
    pub api_key: Option<ApiKey>,
    /// The versions there are.
    pub versions: Versions,
    /// The versions with compact lengths and tagged sections.
    pub flexible: Versions,
    /// Its outermost struct.
    pub root: &'static StructTable,
}

/// A struct.
#[derive(Debug)]
pub struct StructTable {
    /// Its name.
    pub name: &'static str,
    /// The versions it can occur in.
    pub versions: Versions,
    /// Its fields in the order of the wire.
    pub fields: &'static [FieldTable],
}

/// A field.
#[derive(Debug)]
pub struct FieldTable {
    /// The name in the schema.
    pub name: &'static str,
    /// What it means; may be empty.
    pub about: &'static str,
    /// Its type.
    pub ty: Type,
    /// The versions that have it.
    pub versions: Versions,
    /// The versions in which it may be null.
    pub nullable: Versions,
    /// Its tag.
    pub tag: Option<u32>,
    /// The versions in which it is tagged.
    pub tagged: Versions,
    /// The versions in which its own length is compact, where that differs from the message's.
    pub flexible: Option<Versions>,
    /// Its value where it is absent.
    pub default: Default,
    /// Whether its value is dropped in silence where it is absent.
    pub ignorable: bool,
    /// Whether it is part of its array's key.
    pub map_key: bool,
    /// What kind of name or id it holds.
    pub entity_type: Option<&'static str>,
}

impl FieldTable {
    /// Whether the version has the field in its place, not as a tagged one.
    pub fn is_plain(&self, version: i16) -> bool {
        self.versions.contains(version) && !self.tagged.contains(version)
    }

    /// Whether the version has the field as a tagged one.
    pub fn is_tagged(&self, version: i16) -> bool {
        self.tagged.contains(version)
    }

    /// Whether the length of a string, bytes or array is compact where the field stands in its place.
    pub fn has_compact_length(&self, message: &MessageTable, version: i16) -> bool {
        self.flexible.unwrap_or(message.flexible).contains(version)
    }
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the wire types bear the names of the schema language")]
pub enum Type {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Float64,
    Uuid,
    String,
    Bytes,
    Records,
    /// A struct.
    Struct(&'static StructTable),
    /// An array.
    Array(&'static Type),
}

/// The default of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// Null.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A floating point number.
    Float(f64),
    /// A string.
    Text(&'static str),
    /// An id.
    Uuid(Uuid),
    /// The empty value of the type.
    Empty,
}
