//! The microscope: reference pages, JSON to frames and back, conversations, capture files.
//! It must not know sockets, files or the broker: whoever has bytes hands them in and gets back what they mean.
//!
//! - [`schemas`]: the tables to look with, built in or of other schemas; [`names`]: what a name means in them.
//! - [`page`]: a reference page as values; [`grid`] its bytes, [`diff`] what changed between versions; [`text`] and
//!   [`page_json`] print them.
//! - [`input`]: bytes as people paste them; [`stream`]: frames one behind the other.
//! - [`conversation`]: a connection as requests and responses; [`capture`]: capture files, read into conversations and written.
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
