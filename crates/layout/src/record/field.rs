//! Fields of records: how each plain type becomes bytes and comes back. Integers are little-endian, strings and lists carry
//! a u32 count in front, an option is a byte 0 or 1.

use bytes::Bytes;
use ottla_types::{
    LogPosition, Millis, Offset, ProducerEpoch, ProducerId, TimestampType, TopicId, TopicPartition,
};

/// Bytes that are not the record they claim to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A field reaches past the end.
    #[error("byte {at}: the record ends inside a field")]
    Short {
        /// Where the field begins.
        at: usize,
    },
    /// A number that no version of this program writes there.
    #[error("byte {at}: {value} is not a valid {what}")]
    Invalid {
        /// Where.
        at: usize,
        /// What was expected.
        what: &'static str,
        /// What was found.
        value: u64,
    },
    /// Text that is not UTF-8.
    #[error("byte {at}: the text is not UTF-8")]
    Text {
        /// Where the text begins.
        at: usize,
    },
    /// Bytes left over.
    #[error("byte {at}: the record should end here")]
    Trailing {
        /// Where the record should end.
        at: usize,
    },
    /// A kind of record, or a version of it, that this program does not know.
    #[error(
        "record kind {kind} version {version} is not known: use the version of the program that wrote it"
    )]
    Unknown {
        /// Tag byte.
        kind: u8,
        /// Version byte.
        version: u8,
    },
}

/// Walks over the bytes of a record.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// How many bytes were read.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let short = DecodeError::Short { at: self.at };
        let end = self.at.checked_add(len).ok_or(short.clone())?;
        let found = self.bytes.get(self.at..end).ok_or(short)?;
        self.at = end;
        Ok(found)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let at = self.at;
        self.bytes(N)?.try_into().map_err(|_| DecodeError::Short { at })
    }

    /// A byte that stands for one of a few things.
    pub(crate) fn choice<T>(
        &mut self,
        what: &'static str,
        pick: impl Fn(u8) -> Option<T>,
    ) -> Result<T, DecodeError> {
        let at = self.at;
        let value = u8::take(self)?;
        pick(value).ok_or(DecodeError::Invalid { at, what, value: u64::from(value) })
    }

    pub(crate) fn finish(&self) -> Result<(), DecodeError> {
        if self.remaining() == 0 { Ok(()) } else { Err(DecodeError::Trailing { at: self.at }) }
    }
}

/// A field of a record.
pub(crate) trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl Field for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
            fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
                input.array().map(<$kind>::from_le_bytes)
            }
        }
    )*};
}
integers!(u8, i16, u32, i32, u64, i64);

macro_rules! wrappers {
    ($($kind:ident),*) => {$(
        impl Field for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Field::take(input).map($kind)
            }
        }
    )*};
}
wrappers!(LogPosition, Millis, Offset, ProducerEpoch, ProducerId);

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        input.choice("yes or no", |value| match value {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        })
    }
}

impl Field for TimestampType {
    fn put(&self, out: &mut Vec<u8>) {
        (*self == TimestampType::LogAppendTime).put(out);
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let append_time = bool::take(input)?;
        Ok(if append_time { TimestampType::LogAppendTime } else { TimestampType::CreateTime })
    }
}

impl Field for TopicId {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.0);
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        input.array().map(TopicId)
    }
}

fn put_len(len: usize, out: &mut Vec<u8>) {
    // An entry is at most half a segment, so nothing in it is longer than a u32 can say; the store refuses it otherwise.
    (len as u32).put(out);
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_len(self.len(), out);
        out.extend(self.as_bytes());
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let len = u32::take(input)? as usize;
        let at = input.at();
        let text = std::str::from_utf8(input.bytes(len)?).map_err(|_| DecodeError::Text { at })?;
        Ok(text.to_owned())
    }
}

impl Field for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        put_len(self.len(), out);
        out.extend(self);
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let len = u32::take(input)? as usize;
        input.bytes(len).map(Bytes::copy_from_slice)
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        bool::take(input)?.then(|| T::take(input)).transpose()
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_len(self.len(), out);
        self.iter().for_each(|value| value.put(out));
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = input.at();
        let count = u32::take(input)? as usize;
        // No element takes less than a byte: a count beyond what is left is refused before anything is allocated for it.
        if count > input.remaining() {
            return Err(DecodeError::Short { at });
        }
        (0..count).map(|_| T::take(input)).collect()
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::take(input)?, B::take(input)?))
    }
}

impl<A: Field, B: Field, C: Field> Field for (A, B, C) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
        self.2.put(out);
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::take(input)?, B::take(input)?, C::take(input)?))
    }
}

/// Stores a struct as its fields, one after the other, in the order given here. The order is part of the format: never
/// change it, add a version instead.
macro_rules! fields {
    ($($kind:ident { $($field:ident),* $(,)? })*) => {$(
        impl $crate::record::field::Field for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::record::field::Field::put(&self.$field, out);)*
            }
            fn take(
                input: &mut $crate::record::field::Reader<'_>,
            ) -> Result<Self, $crate::record::field::DecodeError> {
                Ok($kind { $($field: $crate::record::field::Field::take(input)?),* })
            }
        }
    )*};
}
pub(crate) use fields;

fields! {
    TopicPartition { topic, partition }
}
