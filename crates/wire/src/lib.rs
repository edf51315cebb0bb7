//! Kafka's wire protocol: bytes to messages and back.
//! It must not know sockets, brokers, topics or logs: it turns bytes into values and values into bytes, nothing else.
//!
//! - [`messages`]: a plain struct per message, generated from `schemas/`, with [`Message::decode`] and
//!   [`Message::encode`] for every valid version; [`tables`] describes the same messages as data.
//! - [`frame`]: the size and the header in front of a message on a connection.
//! - [`batch`]: record batches and their records; [`codec`]: their compression.
//! - [`Reader`] and [`Writer`]: read and write single values. Values that are read share the frame's buffer. A length
//!   is checked against the bytes that remain before memory is allocated for it.
//! - [`ErrorCode`], [`ApiKey`]: numbers with names for the known ones. Any other number is a value too.

#![forbid(unsafe_code)]

mod api_key;
pub mod batch;
mod built_in;
pub mod codec;
mod error;
mod error_code;
pub mod explain;
pub mod frame;
mod input;
pub mod messages;
mod numbers;
mod reader;
mod records;
pub mod secrets;
mod smallest_frame;
pub mod tables;
mod tags;
mod text;
mod uuid;
mod versions;
mod writer;

pub use api_key::ApiKey;
pub use built_in::{request_header_version, response_header_version};
pub use error::{At, DecodeError, DecodeProblem, EncodeError, EncodeProblem};
pub use error_code::ErrorCode;
pub use messages::{API_TABLE, Message, Request, Response};
pub use numbers::{Number, Numbers, NumbersIter};
pub use reader::{Reader, TagReader};
pub use records::Records;
pub use smallest_frame::{smallest_frame, smallest_frame_of};
pub use tables::{ApiInfo, TableSet};
pub use tags::{TagCursor, Tags};
pub use text::{NotUtf8, Text};
pub use uuid::Uuid;
pub use versions::Versions;
pub use writer::Writer;
