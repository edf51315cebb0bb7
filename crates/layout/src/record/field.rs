//! Fields of records: the encoding of each plain type. Integers are little-endian, strings and lists carry
//! a u32 count in front, an option is a byte 0 or 1.

use crate::span::{FieldValue, Trace};
use bytes::Bytes;
use ottla_types::{
    LogPosition, Millis, Offset, ProducerEpoch, ProducerId, TimestampType, TopicId, TopicPartition,
};

/// Bytes that are not the record they claim to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A field extends beyond the end.
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
    /// Bytes after the end of the record.
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

/// A cursor over the bytes of a record.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Records the name and range of each field, for [`crate::explain`]. Replay reads without it.
    trace: Option<Box<Trace>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0, trace: None }
    }

    /// A reader that records the name and range of each field.
    pub(crate) fn traced(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0, trace: Some(Box::default()) }
    }

    /// The recorded names and ranges.
    pub(crate) fn into_trace(self) -> Trace {
        self.trace.map(|trace| *trace).unwrap_or_default()
    }

    /// The next field, by its name.
    pub(crate) fn field<T: Field>(&mut self, name: &'static str) -> Result<T, DecodeError> {
        self.span(name, None, T::WORD, T::take)
    }

    /// The next element of a list.
    fn element<T: Field>(&mut self, index: u32) -> Result<T, DecodeError> {
        self.span(T::WORD, Some(index), T::WORD, T::take)
    }

    /// Reads a named field or group of fields.
    pub(crate) fn span<T>(
        &mut self,
        name: &'static str,
        index: Option<u32>,
        word: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let at = self.at;
        let Some(trace) = &mut self.trace else { return read(self) };
        trace.begin(name, index, word, at);
        let found = read(self);
        let end = self.at;
        if let Some(trace) = &mut self.trace {
            trace.end(end);
        }
        found
    }

    /// Records the value of the field that is being read.
    pub(crate) fn set_value(&mut self, value: impl FnOnce() -> FieldValue) {
        if let Some(trace) = &mut self.trace {
            trace.set_value(value());
        }
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

    /// A byte that stands for one of a few values.
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

/// A type that can be a field of a record.
pub(crate) trait Field: Sized {
    /// The name of the type in explanations.
    const WORD: &'static str = "value";
    fn put(&self, out: &mut Vec<u8>);
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl Field for $kind {
            const WORD: &'static str = stringify!($kind);
            fn put(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
            fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let value = input.array().map(<$kind>::from_le_bytes)?;
                input.set_value(|| FieldValue::Number(i128::from(value)));
                Ok(value)
            }
        }
    )*};
}
integers!(u8, i16, u32, i32, u64, i64);

macro_rules! wrappers {
    ($($kind:ident($inner:ty) $word:literal $value:expr;)*) => {$(
        impl Field for $kind {
            const WORD: &'static str = $word;
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let value = <$inner>::take(input)?;
                input.set_value(|| $value(value.into()));
                Ok($kind(value))
            }
        }
    )*};
}
wrappers! {
    LogPosition(u64) "position" FieldValue::Number;
    Millis(i64) "time" FieldValue::Time;
    Offset(i64) "offset" FieldValue::Number;
    ProducerEpoch(i16) "epoch" FieldValue::Number;
    ProducerId(i64) "producer id" FieldValue::Number;
}

impl Field for bool {
    const WORD: &'static str = "bool";
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let value = input.choice("yes or no", |value| match value {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        })?;
        input.set_value(|| FieldValue::Bool(value));
        Ok(value)
    }
}

impl Field for TimestampType {
    const WORD: &'static str = "timestamp type";
    fn put(&self, out: &mut Vec<u8>) {
        (*self == TimestampType::LogAppendTime).put(out);
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let append_time = bool::take(input)?;
        let name = if append_time { "log append time" } else { "create time" };
        input.set_value(|| FieldValue::Named(i64::from(append_time), name));
        Ok(if append_time { TimestampType::LogAppendTime } else { TimestampType::CreateTime })
    }
}

impl Field for TopicId {
    const WORD: &'static str = "topic id";
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.0);
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id = input.array().map(TopicId)?;
        input.set_value(|| FieldValue::Topic(id));
        Ok(id)
    }
}

fn put_len(len: usize, out: &mut Vec<u8>) {
    // An entry is at most half a segment, so nothing in it is longer than a u32 can say; the store refuses it
    // otherwise.
    (len as u32).put(out);
}

impl Field for String {
    const WORD: &'static str = "text";
    fn put(&self, out: &mut Vec<u8>) {
        put_len(self.len(), out);
        out.extend(self.as_bytes());
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let len = u32::take(input)? as usize;
        let at = input.at();
        let text = std::str::from_utf8(input.bytes(len)?).map_err(|_| DecodeError::Text { at })?;
        input.set_value(|| FieldValue::Text(text.to_owned()));
        Ok(text.to_owned())
    }
}

impl Field for Bytes {
    const WORD: &'static str = "bytes";
    fn put(&self, out: &mut Vec<u8>) {
        put_len(self.len(), out);
        out.extend(self);
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let len = u32::take(input)? as usize;
        let bytes = input.bytes(len)?;
        input.set_value(|| FieldValue::Bytes(bytes.len()));
        Ok(Bytes::copy_from_slice(bytes))
    }
}

impl<T: Field> Field for Option<T> {
    const WORD: &'static str = "if any";
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let present = input.field::<bool>("present")?;
        present.then(|| input.field::<T>(T::WORD)).transpose()
    }
}

impl<T: Field> Field for Vec<T> {
    const WORD: &'static str = "list";
    fn put(&self, out: &mut Vec<u8>) {
        put_len(self.len(), out);
        self.iter().for_each(|value| value.put(out));
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = input.at();
        let written = input.field::<u32>("count")?;
        let count = written as usize;
        // No element takes less than a byte: a count beyond the remaining bytes is refused before anything is allocated
        // for it.
        if count > input.remaining() {
            return Err(DecodeError::Short { at });
        }
        input.set_value(|| FieldValue::Elements(written));
        (0..written).map(|index| input.element(index)).collect()
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    const WORD: &'static str = "pair";
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((input.field(A::WORD)?, input.field(B::WORD)?))
    }
}

impl<A: Field, B: Field, C: Field> Field for (A, B, C) {
    const WORD: &'static str = "triple";
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
        self.2.put(out);
    }
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((input.field(A::WORD)?, input.field(B::WORD)?, input.field(C::WORD)?))
    }
}

/// Stores a struct as its fields, one after the other, in the order given here. The order is part of the format: never
/// change it, add a version instead.
macro_rules! fields {
    ($($kind:ident { $($field:ident),* $(,)? })*) => {$(
        impl $crate::record::field::Field for $kind {
            const WORD: &'static str = stringify!($kind);
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::record::field::Field::put(&self.$field, out);)*
            }
            fn take(
                input: &mut $crate::record::field::Reader<'_>,
            ) -> Result<Self, $crate::record::field::DecodeError> {
                Ok($kind { $($field: input.field(stringify!($field))?),* })
            }
        }
    )*};
}
pub(crate) use fields;

fields! {
    TopicPartition { topic, partition }
}
