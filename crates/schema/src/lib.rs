//! Kafka's schema language: from the text of a schema to a checked model, back to text, and on to Rust code.
//! It must not know where schemas are kept, nor what a broker does with the messages they describe.
//!
//! The language is written down in the documentation of [`Schema`] and [`Field`]; [`parse`] reads it, [`print()`] writes the
//! facts of a schema in one stable form, [`Message::resolve`] works out which struct has which field in which version, and
//! [`generate`] turns resolved messages into the source text that `ottla-wire` compiles.

#![forbid(unsafe_code)]

mod about;
mod check;
mod error;
pub mod generate;
mod json;
mod model;
mod parse;
mod print;
mod resolve;
mod uuid;

pub use about::Glossary;
pub use error::SchemaError;
pub use model::{Default, Field, FieldType, Kind, Schema, StructSpec, Versions};
pub use parse::parse;
pub use print::print;
pub use resolve::{Member, Message, Struct};
