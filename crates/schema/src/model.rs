//! The model of a schema.

use std::fmt;

/// A range of versions, both ends included. `n+` has the upper end [`Versions::OPEN`]; `none` is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The lowest version.
    pub min: i16,
    /// The highest version; below `min` when the range is empty.
    pub max: i16,
}

impl Versions {
    /// The upper end of `n+`.
    pub const OPEN: i16 = i16::MAX;
    /// No version at all.
    pub const NONE: Versions = Versions { min: 0, max: -1 };

    /// Whether no version is in the range.
    pub fn is_empty(self) -> bool {
        self.max < self.min
    }

    /// Whether `version` is in the range.
    pub fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// The versions that are in both ranges.
    #[must_use]
    pub fn and(self, other: Versions) -> Versions {
        let both = Versions { min: self.min.max(other.min), max: self.max.min(other.max) };
        if both.is_empty() { Versions::NONE } else { both }
    }

    /// Whether every version of `self` is in `other`.
    pub fn within(self, other: Versions) -> bool {
        self.is_empty() || (other.min <= self.min && self.max <= other.max)
    }

    /// Reads `3`, `0-5`, `3+` or `none`.
    pub fn parse(text: &str) -> Option<Versions> {
        let text = text.trim();
        if text == "none" {
            return Some(Versions::NONE);
        }
        let number = |text: &str| text.trim().parse::<i16>().ok().filter(|n| *n >= 0);
        let range = if let Some(min) = text.strip_suffix('+') {
            Versions { min: number(min)?, max: Versions::OPEN }
        } else if let Some((min, max)) = text.split_once('-') {
            Versions { min: number(min)?, max: number(max)? }
        } else {
            Versions { min: number(text)?, max: number(text)? }
        };
        (!range.is_empty()).then_some(range)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            v if v.is_empty() => write!(f, "none"),
            Versions { min, max: Versions::OPEN } => write!(f, "{min}+"),
            Versions { min, max } if min == max => write!(f, "{min}"),
            Versions { min, max } => write!(f, "{min}-{max}"),
        }
    }
}

/// The kind of a message: the `type` attribute of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sent by a client.
    Request,
    /// Sent by a broker in response.
    Response,
    /// The header of requests or responses.
    Header,
    /// A record of the metadata log.
    Metadata,
    /// The content of a bytes field or of a record.
    Data,
    /// The key of a record of a coordinator's log.
    CoordinatorKey,
    /// The value of a record of a coordinator's log.
    CoordinatorValue,
}

impl Kind {
    /// Every kind with its name in the schema language.
    pub const ALL: [(Kind, &'static str); 7] = [
        (Kind::Request, "request"),
        (Kind::Response, "response"),
        (Kind::Header, "header"),
        (Kind::Metadata, "metadata"),
        (Kind::Data, "data"),
        (Kind::CoordinatorKey, "coordinator-key"),
        (Kind::CoordinatorValue, "coordinator-value"),
    ];

    /// The name in the schema language.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// One schema file: a message, the versions it has, and its fields in the order of the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// The number of the API, for requests and responses.
    pub api_key: Option<i16>,
    /// The kind of the message.
    pub kind: Kind,
    /// The listeners that serve a request: `broker`, `controller`.
    pub listeners: Vec<String>,
    /// The name of the message and of its root struct.
    pub name: String,
    /// The versions that exist; none when the API was removed and only its number is kept.
    pub valid: Versions,
    /// Versions that may be removed (Kafka 3.x files only). No effect on the encoding.
    pub deprecated: Versions,
    /// Versions with compact lengths and tagged sections. `None` if the file of a removed message lacks the attribute.
    pub flexible: Option<Versions>,
    /// Whether the highest version is only served when unstable versions are enabled.
    pub latest_version_unstable: bool,
    /// The fields of the root struct.
    pub fields: Vec<Field>,
    /// Structs that several fields refer to by name.
    pub common_structs: Vec<StructSpec>,
}

/// A struct that fields refer to by name.
#[derive(Clone, Debug, PartialEq)]
pub struct StructSpec {
    /// Its name.
    pub name: String,
    /// The versions it is used in.
    pub versions: Versions,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// One field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name, unique in its struct.
    pub name: String,
    /// The type.
    pub ty: FieldType,
    /// The versions that have the field.
    pub versions: Versions,
    /// The versions in which null is legal. Versions without the field have no effect.
    pub nullable: Versions,
    /// The value in versions that lack the field; `None` if the file has no default.
    pub default: Option<Default>,
    /// Whether encoding drops the value silently in versions that lack the field.
    pub ignorable: bool,
    /// Whether the field is part of its array's key. No effect on the encoding.
    pub map_key: bool,
    /// The tag, for tagged fields.
    pub tag: Option<u32>,
    /// The versions in which the field is tagged.
    pub tagged: Versions,
    /// Flexible versions of this string or bytes field, where they differ from the message's.
    pub flexible: Option<Versions>,
    /// Whether Kafka keeps a slice of the input. No effect on the encoding.
    pub zero_copy: bool,
    /// The kind of name or id that the field holds. No effect on the encoding.
    pub entity_type: Option<String>,
    /// The description in the schema file. It is neither printed nor compared.
    pub about: Option<String>,
    /// The fields of the struct that this field defines.
    pub fields: Vec<Field>,
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the wire types bear the names of the schema language")]
pub enum FieldType {
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
    /// A struct, by name.
    Struct(String),
    /// An array of anything but arrays.
    Array(Box<FieldType>),
}

impl FieldType {
    /// The types without type parameters, with their names in the schema language.
    pub const PLAIN: [(FieldType, &'static str); 12] = [
        (FieldType::Bool, "bool"),
        (FieldType::Int8, "int8"),
        (FieldType::Int16, "int16"),
        (FieldType::Uint16, "uint16"),
        (FieldType::Int32, "int32"),
        (FieldType::Uint32, "uint32"),
        (FieldType::Int64, "int64"),
        (FieldType::Float64, "float64"),
        (FieldType::Uuid, "uuid"),
        (FieldType::String, "string"),
        (FieldType::Bytes, "bytes"),
        (FieldType::Records, "records"),
    ];

    /// Parses a type of the schema language.
    pub fn parse(text: &str) -> Option<FieldType> {
        let text = text.trim();
        if let Some(element) = text.strip_prefix("[]") {
            let element = FieldType::parse(element)?;
            return (!matches!(element, FieldType::Array(_))).then(|| FieldType::Array(Box::new(element)));
        }
        if let Some((plain, _)) = FieldType::PLAIN.iter().find(|(_, name)| *name == text) {
            return Some(plain.clone());
        }
        let capital = text.starts_with(|c: char| c.is_ascii_uppercase());
        let word = text.chars().all(|c| c.is_ascii_alphanumeric());
        (capital && word).then(|| FieldType::Struct(text.to_owned()))
    }

    /// The name of the struct of a struct type or of an array of structs.
    pub fn struct_name(&self) -> Option<&str> {
        match self {
            FieldType::Struct(name) => Some(name),
            FieldType::Array(element) => element.struct_name(),
            _ => None,
        }
    }

    /// Whether a field of the type can be nullable.
    pub fn can_be_null(&self) -> bool {
        use FieldType::{Array, Bytes, Records, String, Struct};
        matches!(self, String | Bytes | Records | Struct(_) | Array(_))
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldType::Struct(name) => write!(f, "{name}"),
            FieldType::Array(element) => write!(f, "[]{element}"),
            plain => {
                let name = FieldType::PLAIN.iter().find(|(ty, _)| ty == plain).map_or("", |(_, name)| name);
                write!(f, "{name}")
            }
        }
    }
}

/// A default that a schema gives, checked against the field's type.
#[derive(Clone, Debug, PartialEq)]
pub enum Default {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A 64-bit floating point number.
    Float(f64),
    /// A string.
    Text(String),
    /// Sixteen bytes.
    Uuid([u8; 16]),
    /// The empty value of a type whose default cannot be anything else.
    Empty,
}
