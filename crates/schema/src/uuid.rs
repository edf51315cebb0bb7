//! The text form of a uuid in a schema: 22 characters of URL-safe base64 without padding.

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use base64::{DecodeSliceError, alphabet};

/// The last character carries two bits of the uuid and four bits without meaning, which need not be zero.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

pub(crate) fn parse(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let decoded: Result<usize, DecodeSliceError> = BASE64.decode_slice(text, &mut bytes);
    (decoded.ok()? == bytes.len()).then_some(bytes)
}

pub(crate) fn text(bytes: &[u8; 16]) -> String {
    BASE64.encode(bytes)
}
