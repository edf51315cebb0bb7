//! Bytes as hex, base64 or binary input.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use std::fmt::Write;

/// The form of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Two digits a byte; blanks, commas, colons and `0x` between them are ignored.
    Hex,
    /// The standard or the URL-safe alphabet, with or without padding; blanks are ignored.
    Base64,
    /// The bytes themselves.
    Binary,
}

/// The bytes of an input, and its form.
///
/// Text that can be hex and base64 is read as the form that begins with a frame, which is a size and at least that many
/// bytes. It is read as hex if both do or neither does.
pub fn bytes_of(input: &Bytes) -> (Form, Bytes) {
    let Some(text) = std::str::from_utf8(input).ok().filter(|text| is_line_text(text)) else {
        return (Form::Binary, input.clone());
    };
    let found = [(Form::Hex, from_hex(text)), (Form::Base64, from_base64(text))];
    let found = found.map(|(form, bytes)| bytes.map(|bytes| (form, Bytes::from(bytes))));
    match found {
        [Some(hex), Some(base64)] if begins_with_frame(&base64.1) && !begins_with_frame(&hex.1) => base64,
        [Some(hex), _] => hex,
        [None, Some(base64)] => base64,
        [None, None] => (Form::Binary, input.clone()),
    }
}

/// Bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

fn is_line_text(text: &str) -> bool {
    let mut chars = text.chars();
    !text.trim().is_empty() && chars.all(|c| c.is_ascii_graphic() || c.is_ascii_whitespace())
}

fn begins_with_frame(bytes: &[u8]) -> bool {
    let size = bytes.first_chunk().map(|size| i32::from_be_bytes(*size));
    size.and_then(|size| usize::try_from(size).ok()).is_some_and(|size| size >= 4 && size <= bytes.len() - 4)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for word in text.split(|c: char| c.is_ascii_whitespace() || c == ':' || c == ',') {
        let word = word.strip_prefix("0x").or_else(|| word.strip_prefix("\\x")).unwrap_or(word);
        let (pairs, rest) = word.as_bytes().as_chunks::<2>();
        if !rest.is_empty() {
            return None;
        }
        for pair in pairs {
            let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
            bytes.push((high? * 16 + low?) as u8);
        }
    }
    Some(bytes)
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text: String = text.split_ascii_whitespace().collect();
    let text = text.trim_end_matches('=');
    STANDARD_NO_PAD.decode(text).or_else(|_| URL_SAFE_NO_PAD.decode(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(input: &[u8]) -> (Form, Vec<u8>) {
        let (form, bytes) = bytes_of(&Bytes::copy_from_slice(input));
        (form, bytes.to_vec())
    }

    #[test]
    fn forms_are_told_apart() {
        assert_eq!(of(b"00 01\n0a:FF 0x10"), (Form::Hex, vec![0, 1, 10, 255, 16]));
        assert_eq!(of(b"AAAABGFiY2Q=\n"), (Form::Base64, b"\0\0\0\x04abcd".to_vec()));
        assert_eq!(of(b"AAAABGFiY2Q"), (Form::Base64, b"\0\0\0\x04abcd".to_vec()));
        assert_eq!(of(b"_-8"), (Form::Base64, vec![255, 239]));
        assert_eq!(of(&[0, 0, 0, 4, 1, 2, 3, 4]), (Form::Binary, vec![0, 0, 0, 4, 1, 2, 3, 4]));
        assert_eq!(of("ä".as_bytes()).0, Form::Binary);
        assert_eq!(of(b""), (Form::Binary, vec![]));
    }

    #[test]
    fn what_could_be_either_is_what_begins_with_a_frame() {
        // As hex these digits give the size aaaaaaaa.
        let text = b"AAAAAAAEAAAAAAAA";
        assert_eq!(of(text).0, Form::Hex);
        let text = b"AAAABAAAAAA0";
        assert_eq!(of(text), (Form::Base64, vec![0, 0, 0, 4, 0, 0, 0, 0, 52]));
    }
}
