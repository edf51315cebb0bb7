//! Generates the Rust source that `ottla-wire` compiles from resolved messages.
//!
//! Each message gets a module with a Rust struct for each of its structs, one decoding and one encoding function for
//! each struct with `if`s on the version, and static tables that describe it. The text is not formatted, because it is
//! only compiled.

mod api;
mod decode;
mod encode;
mod errors;
mod names;
mod structs;
mod tables;

use crate::about::Glossary;
use crate::model::{Default, FieldType, Kind, Versions};
use crate::resolve::{Member, Message, Struct};

/// The texts of the two generated files.
pub struct GeneratedCode {
    /// A module per message, and the list of APIs.
    pub messages: String,
    /// For tests: a `match` over message names that decodes and encodes a message.
    pub dispatch: String,
}

/// Generates the code for these messages. A message without a valid version gets only the constant of its API key.
pub fn generate(messages: &[Message], glossary: &Glossary) -> GeneratedCode {
    let mut out = String::new();
    for message in messages.iter().filter(|message| !message.structs.is_empty()) {
        module(&mut out, message, glossary);
    }
    api::emit(&mut out, messages);
    GeneratedCode { messages: out, dispatch: api::dispatch(messages) }
}

/// Appends a formatted line to a `String`.
macro_rules! push_line {
    ($out:expr, $($arg:tt)*) => {{ $out.push_str(&format!($($arg)*)); $out.push('\n'); }};
}
pub(crate) use push_line;

fn module(out: &mut String, message: &Message, glossary: &Glossary) {
    let name = names::snake(&message.name);
    push_line!(
        out,
        "#[doc = {:?}]",
        format!("{} and its structs, versions {}.", message.name, message.valid)
    );
    push_line!(out, "pub mod {name} {{");
    push_line!(out, "use super::prelude::*;");
    if has_code(message) {
        code(out, message, glossary);
    }
    tables::emit(out, message, glossary);
    push_line!(out, "}}");
    if has_code(message) {
        push_line!(out, "#[doc(inline)] pub use {name}::{};", message.name);
    }
}

/// Whether a message gets structs and codecs. The records of Kafka's coordinators are only explained, for which tables
/// suffice.
fn has_code(message: &Message) -> bool {
    !message.structs.is_empty() && !matches!(message.kind, Kind::CoordinatorKey | Kind::CoordinatorValue)
}

fn code(out: &mut String, message: &Message, glossary: &Glossary) {
    for item in &message.structs {
        structs::emit(out, message, item, glossary);
        push_line!(out, "impl {} {{", item.name);
        decode::emit(out, message, item);
        encode::emit(out, message, item);
        errors::emit(out, message, item);
        push_line!(out, "}}");
    }
    structs::root(out, message);
}

/// A condition on `version` in the code of a struct, which occurs in some versions only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VersionTest {
    Always,
    Never,
    When(String),
}

impl VersionTest {
    /// The condition that the version is in `range`, given that it is in `inside`.
    pub(crate) fn of(range: Versions, inside: Versions) -> VersionTest {
        let range = range.and(inside);
        let Versions { min, max } = range;
        if range.is_empty() {
            VersionTest::Never
        } else if inside.within(range) {
            VersionTest::Always
        } else if min == max {
            VersionTest::When(format!("version == {min}"))
        } else if max >= inside.max {
            VersionTest::When(format!("version >= {min}"))
        } else if min <= inside.min {
            VersionTest::When(format!("version <= {max}"))
        } else {
            VersionTest::When(format!("({min}..={max}).contains(&version)"))
        }
    }
}

/// A field with its struct and message.
pub(crate) struct FieldSite<'a> {
    pub(crate) message: &'a Message,
    pub(crate) item: &'a Struct,
    pub(crate) member: &'a Member,
}

impl FieldSite<'_> {
    /// The location in errors, as an expression that is a promoted constant.
    pub(crate) fn at(&self) -> String {
        format!("&At({:?}, {:?})", self.message.name, self.member.name)
    }

    pub(crate) fn field(&self) -> String {
        names::field(&self.member.name)
    }

    pub(crate) fn optional(&self) -> bool {
        !self.member.nullable.is_empty()
    }

    /// The condition that lengths are compact when the field is encoded in place.
    pub(crate) fn flex(&self) -> VersionTest {
        let flexible = self.member.flexible.unwrap_or(self.message.flexible);
        VersionTest::of(flexible, self.item.versions)
    }

    /// The same condition as an expression: the local variable `flex` if it depends on the version.
    pub(crate) fn flex_text(&self, tagged: bool) -> &'static str {
        match self.flex() {
            _ if tagged => "true",
            VersionTest::Always => "true",
            VersionTest::Never => "false",
            VersionTest::When(_) => "flex",
        }
    }

    /// The default as an expression of the field's Rust type.
    pub(crate) fn default(&self) -> String {
        let inner = match &self.member.default {
            Default::Null if self.optional() => return "None".to_owned(),
            Default::Bool(value) => value.to_string(),
            Default::Int(value) => value.to_string(),
            Default::Float(value) => format!("{value:?}"),
            Default::Text(text) if !text.is_empty() => format!("Text::from_static({text:?})"),
            Default::Uuid(bytes) if *bytes == [0; 16] => "Uuid::ZERO".to_owned(),
            Default::Uuid(bytes) => format!("Uuid({bytes:?})"),
            Default::Text(_) | Default::Empty | Default::Null => match &self.member.ty {
                FieldType::Array(element) if is_number(element) => "Numbers::default()".to_owned(),
                FieldType::Array(_) => "Vec::new()".to_owned(),
                ty => format!("{}::default()", base_type(ty)),
            },
        };
        if self.optional() { format!("Some({inner})") } else { inner }
    }

    /// An expression that is true if the field of `self` does not have its default.
    pub(crate) fn not_default(&self) -> String {
        let field = self.field();
        let member = self.member;
        if self.optional() {
            return match &member.default {
                Default::Null => format!("self.{field}.is_some()"),
                Default::Text(text) if !text.is_empty() => {
                    format!("self.{field}.as_deref() != Some({text:?})")
                }
                _ if matches!(member.ty, FieldType::Struct(_)) => {
                    let name = base_type(&member.ty);
                    format!("self.{field}.as_ref().is_none_or(|inner| *inner != {name}::default())")
                }
                _ => format!("self.{field}.as_ref().is_none_or(|inner| !inner.is_empty())"),
            };
        }
        match &member.default {
            Default::Bool(true) => format!("!self.{field}"),
            Default::Bool(false) => format!("self.{field}"),
            Default::Int(value) => format!("self.{field} != {value}"),
            Default::Float(value) => format!("self.{field}.to_bits() != {value:?}_f64.to_bits()"),
            Default::Text(text) if !text.is_empty() => format!("&*self.{field} != {text:?}"),
            Default::Uuid(_) => format!("self.{field} != {}", self.default()),
            _ if matches!(member.ty, FieldType::Struct(_)) => {
                format!("self.{field} != {}::default()", base_type(&member.ty))
            }
            _ => format!("!self.{field}.is_empty()"),
        }
    }
}

/// Whether arrays of the type are `Numbers`, which share the frame's buffer.
pub(crate) fn is_number(ty: &FieldType) -> bool {
    use FieldType::{Float64, Int8, Int16, Int32, Int64, Uint16, Uint32, Uuid};
    matches!(ty, Int8 | Int16 | Uint16 | Int32 | Uint32 | Int64 | Float64 | Uuid)
}

/// The Rust type of a value that is not null.
pub(crate) fn base_type(ty: &FieldType) -> String {
    match ty {
        FieldType::Array(element) if is_number(element) => format!("Numbers<{}>", base_type(element)),
        FieldType::Array(element) => format!("Vec<{}>", base_type(element)),
        FieldType::Struct(name) => name.clone(),
        plain => scalar(plain).0.to_owned(),
    }
}

/// The Rust type of a plain type, and the name of its reading and writing methods.
pub(crate) fn scalar(ty: &FieldType) -> (&'static str, &'static str) {
    match ty {
        FieldType::Bool => ("bool", "bool"),
        FieldType::Int8 => ("i8", "i8"),
        FieldType::Int16 => ("i16", "i16"),
        FieldType::Uint16 => ("u16", "u16"),
        FieldType::Int32 => ("i32", "i32"),
        FieldType::Uint32 => ("u32", "u32"),
        FieldType::Int64 => ("i64", "i64"),
        FieldType::Float64 => ("f64", "f64"),
        FieldType::Uuid => ("Uuid", "uuid"),
        FieldType::String => ("Text", "text"),
        FieldType::Bytes => ("Bytes", "bytes"),
        FieldType::Records => ("Records", "records"),
        FieldType::Struct(_) | FieldType::Array(_) => ("", ""),
    }
}

/// The name of the version parameter of a generated function, with an underscore if the body does not use it.
pub(crate) fn parameter(body: &str) -> &'static str {
    if has_word(body, "version") { "version" } else { "_version" }
}

/// Whether the body uses that local variable: the word is neither a field after a dot nor a field before a colon.
pub(crate) fn has_word(body: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    body.match_indices(word).any(|(from, _)| {
        let before = body[..from].chars().next_back();
        let after = body[from + word.len()..].chars().next();
        !before.is_some_and(|c| part(c) || c == '.') && !after.is_some_and(|c| part(c) || c == ':')
    })
}

/// The variant of `MessageKind` for a kind.
pub(crate) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Request => "Request",
        Kind::Response => "Response",
        Kind::Header => "Header",
        Kind::Metadata | Kind::Data => "Data",
        Kind::CoordinatorKey => "CoordinatorKey",
        Kind::CoordinatorValue => "CoordinatorValue",
    }
}

/// A range of versions as a constant of the wire crate.
pub(crate) fn range(versions: Versions) -> String {
    if versions.is_empty() {
        return "Versions::NONE".to_owned();
    }
    format!("Versions::new({}, {})", versions.min, versions.max)
}
