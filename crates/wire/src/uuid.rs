//! The 16-byte ids of topics, directories and members.

use std::fmt;
use std::str::FromStr;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Sixteen bytes, most significant first. Written as Kafka writes them: 22 characters of URL-safe base64 without padding.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// All zero: "none" on the wire.
    pub const ZERO: Uuid = Uuid([0; 16]);

    /// Whether it is [`Uuid::ZERO`].
    pub fn is_zero(self) -> bool {
        self == Uuid::ZERO
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        let mut text = [0_u8; 22];
        for (place, c) in text.iter_mut().enumerate() {
            let six = if place < 21 { bits >> (122 - 6 * place) } else { bits << 4 };
            *c = ALPHABET[(six & 63) as usize];
        }
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
        if text.len() != 22 {
            return Err(NotUuid);
        }
        let mut bits: u128 = 0;
        for (place, c) in text.bytes().enumerate() {
            let digit = ALPHABET.iter().position(|a| *a == c).ok_or(NotUuid)? as u128;
            // 21 characters of six bits, then the last two bits and four zeroes.
            bits = if place < 21 { bits << 6 | digit } else { bits << 2 | digit >> 4 };
        }
        Ok(Uuid(bits.to_be_bytes()))
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
        assert!("short".parse::<Uuid>().is_err());
    }
}
