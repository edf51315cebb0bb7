//! The microscope: reference pages, JSON to frames and back, conversations, capture files. It must not know sockets,
//! files or the broker: the caller passes bytes and gets values that explain them.
//!
//! - [`schemas`]: the tables to decode with, built in or of other schemas; [`names`]: lookups of APIs and messages by
//!   name.
//! - [`page`]: a reference page as values; [`grid`]: its bytes; [`diff`]: the differences between versions; [`text`]
//!   and [`page_json`] print them.
//! - [`input`]: bytes in hex, base64 or binary; [`stream`]: consecutive frames.
//! - [`conversation`]: a connection as requests and responses; [`capture`]: capture files, read as conversations and
//!   written.
//! - [`json`]: messages and frames as JSON, in both directions.

#![forbid(unsafe_code)]

pub mod capture;
pub mod conversation;
pub mod diff;
pub mod grid;
pub mod input;
pub mod json;
pub mod names;
pub mod page;
pub mod page_json;
pub mod schemas;
pub mod stream;
pub mod text;
