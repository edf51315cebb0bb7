//! The schemas as data: message, struct, field. Generated from the same model as the code.

pub use crate::smallest::{smallest, smallest_of};
use crate::{API_TABLE, ApiInfo, ApiKey, Uuid, Versions, messages};
use std::fmt;

/// A set of APIs and messages: the ones that the broker serves with, or those of other schemas.
#[derive(Clone, Copy, Debug)]
pub struct TableSet {
    apis: &'static [ApiInfo],
    messages: &'static [&'static MessageTable],
}

static BUILT_IN: TableSet = TableSet { apis: API_TABLE, messages: messages::MESSAGE_TABLES };

impl TableSet {
    /// A set of these; the APIs by ascending number.
    pub const fn new(apis: &'static [ApiInfo], messages: &'static [&'static MessageTable]) -> TableSet {
        TableSet { apis, messages }
    }

    /// The tables that the broker serves with.
    pub fn built_in() -> &'static TableSet {
        &BUILT_IN
    }

    /// Every API there is or was, by ascending number.
    pub fn apis(&self) -> &'static [ApiInfo] {
        self.apis
    }

    /// Every message that has a valid version.
    pub fn messages(&self) -> &'static [&'static MessageTable] {
        self.messages
    }

    /// What is known about an API.
    pub fn api(&self, key: ApiKey) -> Option<&'static ApiInfo> {
        let place = usize::try_from(key.0).ok()?;
        // The numbers have no holes today; search if that ever changes.
        match self.apis.get(place) {
            Some(info) if info.key == key => Some(info),
            _ => self.apis.iter().find(|info| info.key == key),
        }
    }

    /// The API of that name, without `Request`.
    pub fn api_named(&self, name: &str) -> Option<&'static ApiInfo> {
        self.apis.iter().find(|info| info.name == name)
    }

    /// The message of that name.
    pub fn message(&self, name: &str) -> Option<&'static MessageTable> {
        self.messages.iter().find(|table| table.name == name).copied()
    }
}

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
    /// The key of a record of an internal topic.
    CoordinatorKey,
    /// The value of a record of an internal topic.
    CoordinatorValue,
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

impl StructTable {
    /// The fields that the version has in their place, in order.
    pub fn plain(&self, version: i16) -> impl Iterator<Item = &'static FieldTable> {
        self.fields.iter().filter(move |field| field.is_plain(version))
    }

    /// The field that the version has under that tag.
    pub fn tagged(&self, tag: u32, version: i16) -> Option<&'static FieldTable> {
        self.fields.iter().find(|field| field.tag == Some(tag) && field.is_tagged(version))
    }
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

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Type::Bool => "bool",
            Type::Int8 => "int8",
            Type::Int16 => "int16",
            Type::Uint16 => "uint16",
            Type::Int32 => "int32",
            Type::Uint32 => "uint32",
            Type::Int64 => "int64",
            Type::Float64 => "float64",
            Type::Uuid => "uuid",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Records => "records",
            Type::Struct(table) => table.name,
            Type::Array(element) => return write!(f, "[]{element}"),
        })
    }
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
