//! Kafka's schema language: parses the text of a schema to a checked model, prints the model, and generates Rust code
//! from it. It must not know where schemas are stored, nor what a broker does with the messages that they describe.
//!
//! The documentation of [`Schema`] and [`Field`] describes the language. [`parse`] reads it, [`print()`] writes the
//! facts of a schema in one stable form, [`Message::resolve`] determines the fields of each struct in each version, and
//! [`generate`] writes the source text that `ottla-wire` compiles.

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
