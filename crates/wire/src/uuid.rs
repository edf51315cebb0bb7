//! The 16-byte ids of topics, directories and members.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use std::fmt;
use std::str::FromStr;

/// The last of the 22 characters carries two bits of the id and four bits without meaning, which need not be zero.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));
const TEXT_LENGTH: usize = 22;

/// Sixteen bytes, most significant first. The text form is Kafka's: 22 characters of URL-safe base64 without padding.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// All zero, which means "none" in the protocol.
    pub const ZERO: Uuid = Uuid([0; 16]);

    /// Whether it is [`Uuid::ZERO`].
    pub fn is_zero(self) -> bool {
        self == Uuid::ZERO
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; TEXT_LENGTH];
        // The buffer has the length of every id's text, so this cannot fail.
        let _ = BASE64.encode_slice(self.0, &mut text);
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 22 characters of URL-safe base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id: expected 22 characters of URL-safe base64")]
pub struct NotUuid;

impl FromStr for Uuid {
    type Err = NotUuid;

    fn from_str(text: &str) -> Result<Uuid, NotUuid> {
        let mut bytes = [0; 16];
        match BASE64.decode_slice(text, &mut bytes) {
            Ok(length) if length == bytes.len() => Ok(Uuid(bytes)),
            _ => Err(NotUuid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Uuid;

    #[test]
    fn writes_and_reads_the_text_form() {
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        let id = Uuid(*b"\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10");
        assert_eq!(id.to_string(), "ASNFZ4mrze_-3LqYdlQyEA");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("ASNFZ4mrze_-3LqYdlQyEB".parse(), Ok(id), "the last four bits have no meaning");
        for text in
            ["", "short", "ASNFZ4mrze_-3LqYdlQyEAA", "ASNFZ4mrze_-3LqYdlQyE=", "ASNFZ4mrze/+3LqYdlQyEA"]
        {
            assert!(text.parse::<Uuid>().is_err(), "{text}");
        }
    }
}
