//! The schemas as data: message, struct, field. Generated from the same model as the code.

use crate::{ApiKey, Uuid, Versions};
use std::fmt;

/// The tables of a set of APIs and messages: those that the broker serves with ([`TableSet::built_in`]), or those of
/// other schemas.
#[derive(Clone, Copy, Debug)]
pub struct TableSet {
    apis: &'static [ApiInfo],
    messages: &'static [&'static MessageTable],
}

impl TableSet {
    /// A set of these tables. `apis` ascend by number.
    pub const fn new(apis: &'static [ApiInfo], messages: &'static [&'static MessageTable]) -> TableSet {
        TableSet { apis, messages }
    }

    /// Every API there is or was, by ascending number.
    pub fn apis(&self) -> &'static [ApiInfo] {
        self.apis
    }

    /// Every message that has a valid version.
    pub fn messages(&self) -> &'static [&'static MessageTable] {
        self.messages
    }

    /// What the schemas say about an API.
    pub fn api(&self, key: ApiKey) -> Option<&'static ApiInfo> {
        let index = usize::try_from(key.0).ok()?;
        // In Kafka 4.4 an API's number is its index; other schemas may leave numbers out.
        match self.apis.get(index) {
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

/// What the schemas say about an API.
#[derive(Clone, Debug)]
pub struct ApiInfo {
    /// The number of the API.
    pub key: ApiKey,
    /// Its name, without `Request`.
    pub name: &'static str,
    /// The versions of its request; empty when the API was removed.
    pub request_versions: Versions,
    /// The versions of its response.
    pub response_versions: Versions,
    /// The flexible versions of its request.
    pub request_flexible: Versions,
    /// The flexible versions of its response.
    pub response_flexible: Versions,
    /// The kinds of listener that serve it: `broker`, `controller`.
    pub listeners: &'static [&'static str],
    /// Whether its highest version is served only when unstable versions are enabled.
    pub latest_version_unstable: bool,
    /// The table of its request, unless removed.
    pub request: Option<&'static MessageTable>,
    /// The table of its response, unless removed.
    pub response: Option<&'static MessageTable>,
}

impl ApiInfo {
    /// The versions of the request without the unstable one.
    pub fn stable_versions(&self) -> Versions {
        let Versions { min, max } = self.request_versions;
        Versions::new(min, if self.latest_version_unstable { max - 1 } else { max })
    }

    /// The version of the header in front of its request: 2 for flexible versions, else 1; 0 for ControlledShutdown
    /// version 0 alone. A version above the known ones counts as flexible if the highest known one is.
    pub fn request_header_version(&self, version: i16) -> i16 {
        const CONTROLLED_SHUTDOWN: ApiKey = ApiKey(7);
        if self.key == CONTROLLED_SHUTDOWN && version == 0 {
            return 0;
        }
        if since(self.request_flexible, version) { 2 } else { 1 }
    }

    /// The version of the header in front of its response: 1 for flexible versions, else 0; always 0 for ApiVersions,
    /// so that a client can read the response to a version that the broker does not know.
    pub fn response_header_version(&self, version: i16) -> i16 {
        if self.key != ApiKey::API_VERSIONS && since(self.response_flexible, version) { 1 } else { 0 }
    }
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From client to broker.
    Request,
    /// From broker to client.
    Response,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// Sent by a client.
    Request,
    /// Sent by a broker in response.
    Response,
    /// The header of requests or responses.
    Header,
    /// The content of a bytes field or of a record.
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
    /// Its purpose in a phrase; may be empty.
    pub about: &'static str,
    /// Its kind.
    pub kind: MessageKind,
    /// The API of a request or response.
    pub api_key: Option<ApiKey>,
    /// The valid versions.
    pub versions: Versions,
    /// The versions with compact lengths and tagged sections.
    pub flexible: Versions,
    /// The struct of its top-level fields.
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
    /// Its meaning; may be empty.
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
    /// The versions in which the length of this field is compact, if they differ from those of the message.
    pub flexible: Option<Versions>,
    /// The value of the field in versions that lack it.
    pub default: Default,
    /// Whether encoding drops the value silently in versions that lack the field. For other fields that is an error.
    pub ignorable: bool,
    /// Whether it is part of its array's key.
    pub map_key: bool,
    /// The kind of name or id that the field holds, such as `topicName`.
    pub entity_type: Option<&'static str>,
    /// Whether its value is a secret, which logs, traces and taps overwrite.
    pub secret: bool,
}

impl MessageTable {
    /// The names of the message's secret fields, inner structs included.
    pub fn secrets(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        self.root.add_secrets(&mut names);
        names
    }
}

impl StructTable {
    fn add_secrets(&self, names: &mut Vec<&'static str>) {
        for field in self.fields {
            if field.secret {
                names.push(field.name);
            }
            let mut ty = &field.ty;
            while let Type::Array(element) = ty {
                ty = element;
            }
            if let Type::Struct(inner) = ty {
                inner.add_secrets(names);
            }
        }
    }

    /// The fields that the version encodes in place, not as tagged fields, in the order of the wire.
    pub fn plain(&self, version: i16) -> impl Iterator<Item = &'static FieldTable> {
        self.fields.iter().filter(move |field| field.is_plain(version))
    }

    /// The tagged field of the version with that tag.
    pub fn tagged(&self, tag: u32, version: i16) -> Option<&'static FieldTable> {
        self.fields.iter().find(|field| field.tag == Some(tag) && field.is_tagged(version))
    }
}

impl FieldTable {
    /// Whether the version encodes the field in place, not as a tagged field.
    pub fn is_plain(&self, version: i16) -> bool {
        self.versions.contains(version) && !self.tagged.contains(version)
    }

    /// Whether the version encodes the field as a tagged field.
    pub fn is_tagged(&self, version: i16) -> bool {
        self.tagged.contains(version)
    }

    /// Whether the length of this string, bytes or array field is compact when the version encodes it in place.
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
    /// A boolean.
    Bool(bool),
    /// An integer.
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

fn since(flexible: Versions, version: i16) -> bool {
    !flexible.is_empty() && version >= flexible.min
}
