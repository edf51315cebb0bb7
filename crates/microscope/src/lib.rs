//! The microscope: reference pages, JSON to frames and back, conversations, capture files.
//! It must not know sockets, files or the broker: whoever has bytes hands them in and gets back what they mean.

#![forbid(unsafe_code)]

pub mod json;
