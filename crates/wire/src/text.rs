//! Strings that are stored inline if they are short, and else share the buffer of their frame.

use arrayvec::ArrayString;
use bytes::Bytes;
use bytestring::ByteString;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::{fmt, str};

/// A string. Decoding does not allocate memory for it: a short string, as most names are, is copied into the value; a
/// longer one is a slice of the frame, which costs an atomic reference count when it is made, cloned and dropped.
#[derive(Clone)]
pub struct Text(Repr);

/// The longest string that the protocol allows, in bytes, with fixed and with compact lengths.
pub(crate) const MAX_STRING_LENGTH: usize = i16::MAX as usize;

/// The most bytes that are stored inline. With this limit the enum is as large as `Bytes`.
const MAX_INLINE: usize = 20;

#[derive(Clone)]
enum Repr {
    Short(ArrayString<MAX_INLINE>),
    Long(ByteString),
}

/// The bytes of a string are not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not UTF-8")]
pub struct NotUtf8;

impl Text {
    /// A static string, without an allocation.
    pub const fn from_static(text: &'static str) -> Text {
        Text(Repr::Long(ByteString::from_static(text)))
    }

    /// Sets the string to a part of the frame. A short string is copied inline.
    #[inline]
    pub(crate) fn set(&mut self, frame: &Bytes, part: &[u8]) -> Result<(), NotUtf8> {
        match &mut self.0 {
            Repr::Short(place) if part.len() <= MAX_INLINE => {
                place.clear();
                let text = str::from_utf8(part).map_err(|_| NotUtf8)?;
                place.try_push_str(text).map_err(|_| NotUtf8)
            }
            _ => {
                *self = Text::try_from(frame.slice_ref(part))?;
                Ok(())
            }
        }
    }

    fn short(text: &str) -> Option<Text> {
        ArrayString::from(text).ok().map(|text| Text(Repr::Short(text)))
    }

    /// The string.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Short(text) => text,
            Repr::Long(text) => text,
        }
    }
}

impl Default for Text {
    #[inline]
    fn default() -> Text {
        Text(Repr::Short(ArrayString::new_const()))
    }
}

impl TryFrom<Bytes> for Text {
    type Error = NotUtf8;

    fn try_from(bytes: Bytes) -> Result<Text, NotUtf8> {
        let text = ByteString::try_from(bytes).map_err(|_| NotUtf8)?;
        Ok(Text::short(&text).unwrap_or(Text(Repr::Long(text))))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text::short(text).unwrap_or_else(|| Text(Repr::Long(ByteString::from(text))))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text::short(&text).unwrap_or_else(|| Text(Repr::Long(ByteString::from(text))))
    }
}

impl From<&Text> for String {
    fn from(text: &Text) -> String {
        text.as_str().to_owned()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> String {
        text.as_str().to_owned()
    }
}

impl Deref for Text {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Text) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Text) -> Ordering {
        self.as_str().cmp(other)
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The hash must be that of `str`, because maps are looked up by `str`.
        self.as_str().hash(state);
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::{NotUtf8, Text};
    use bytes::Bytes;

    #[test]
    fn short_strings_are_held_in_place_and_long_ones_shared() {
        assert_eq!(size_of::<Text>(), size_of::<Bytes>());
        let frame = Bytes::from_static(b"orders-by-region and-by-quarter");
        let (mut short, mut long) = (Text::default(), Text::default());
        short.set(&frame, &frame[..20]).unwrap();
        assert_eq!(short, "orders-by-region and");
        assert_ne!(short.as_ptr(), frame.as_ptr());
        long.set(&frame, &frame[..21]).unwrap();
        assert_eq!(long, "orders-by-region and-");
        assert_eq!(long.as_ptr(), frame.as_ptr());
        assert_eq!(Text::from_static("orders-by-region and"), short);
        assert!(long > short);
    }

    #[test]
    fn both_forms_must_be_utf_8() {
        for length in [1, 30] {
            assert_eq!(Text::try_from(Bytes::from(vec![0xff; length])), Err(NotUtf8));
        }
    }
}
