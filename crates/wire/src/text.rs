//! Strings that share the frame they came in.

use bytes::Bytes;
use bytestring::ByteString;
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

/// A string over shared bytes: decoding slices the frame, cloning counts a reference.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(ByteString);

/// Bytes that should have been a string are not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not UTF-8")]
pub struct NotUtf8;

impl Text {
    /// A string that lives as long as the program, without an allocation.
    pub const fn from_static(text: &'static str) -> Text {
        Text(ByteString::from_static(text))
    }

    /// The string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes, shared.
    pub fn as_bytes(&self) -> &Bytes {
        self.0.as_bytes()
    }

    /// The bytes, given away.
    pub fn into_bytes(self) -> Bytes {
        self.0.into_bytes()
    }
}

impl TryFrom<Bytes> for Text {
    type Error = NotUtf8;

    fn try_from(bytes: Bytes) -> Result<Text, NotUtf8> {
        ByteString::try_from(bytes).map(Text).map_err(|_| NotUtf8)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(ByteString::from(text))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(ByteString::from(text))
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

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
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
