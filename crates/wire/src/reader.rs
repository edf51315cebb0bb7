//! Frame to values: bounded, zero-copy, and never further than the bytes that are there.

use crate::{At, DecodeError, DecodeProblem, Number, Numbers, Records, Tags, Text, Uuid, Versions};
use bytes::Bytes;

/// The longest string the protocol allows, in both encodings.
pub(crate) const LONGEST_STRING: usize = i16::MAX as usize;

/// A position in a frame. Strings, bytes and records that it returns share the frame's buffer.
///
/// `flex` arguments choose between compact lengths (flexible versions) and fixed ones. After an error the position is
/// undefined.
#[derive(Debug)]
pub struct Reader {
    buffer: Bytes,
    position: usize,
    end: usize,
    base: usize,
}

type Read<T> = Result<T, DecodeError>;

impl Reader {
    /// Reads `buffer` from its start; errors count bytes from there.
    pub fn new(buffer: Bytes) -> Reader {
        Reader::with_base(buffer, 0)
    }

    /// Reads `buffer` from its start; errors count bytes from `base` before it.
    pub fn with_base(buffer: Bytes, base: usize) -> Reader {
        Reader { position: 0, end: buffer.len(), buffer, base }
    }

    /// The bytes that are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// The place of the next byte, as errors count it.
    pub fn offset(&self) -> usize {
        self.base + self.position
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> Bytes {
        let from = self.position;
        self.position = self.end;
        self.slice(from, self.end)
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, at: &At) -> Read<[u8; N]> {
        let left = self.buffer.get(self.position..self.end).unwrap_or_default();
        match left.first_chunk::<N>() {
            Some(bytes) => {
                self.position += N;
                Ok(*bytes)
            }
            None => Err(self.short(N, at)),
        }
    }

    /// Steps over `length` bytes and returns where they start.
    #[inline]
    fn step(&mut self, length: usize, at: &At) -> Read<usize> {
        let from = self.position;
        if length > self.remaining() {
            return Err(self.short(length, at));
        }
        self.position += length;
        Ok(from)
    }

    fn slice(&self, from: usize, to: usize) -> Bytes {
        if from == to { Bytes::new() } else { self.buffer.slice(from..to) }
    }

    #[cold]
    fn short(&self, needed: usize, at: &At) -> DecodeError {
        self.error(at, DecodeProblem::Short { needed: needed as u64, left: self.remaining() as u64 })
    }

    #[cold]
    fn error(&self, at: &At, problem: DecodeProblem) -> DecodeError {
        DecodeError::new(at, self.offset(), problem)
    }

    /// Refuses a version that the message does not have.
    pub(crate) fn check_version(&self, valid: Versions, version: i16, at: &At) -> Read<()> {
        if valid.contains(version) {
            return Ok(());
        }
        Err(self.error(at, DecodeProblem::Version { version, valid }))
    }

    /// A byte; anything but 0 is true.
    #[inline]
    pub fn bool(&mut self, at: &At) -> Read<bool> {
        Ok(self.fixed::<1>(at)? != [0])
    }

    /// An unsigned variable-length number of at most five bytes, over-long forms included.
    #[inline]
    pub fn uvarint(&mut self, at: &At) -> Read<u32> {
        let left = self.buffer.get(self.position..self.end).unwrap_or_default();
        match left.first() {
            Some(byte) if *byte < 0x80 => {
                self.position += 1;
                Ok(u32::from(*byte))
            }
            _ => self.long_uvarint(at),
        }
    }

    #[cold]
    fn long_uvarint(&mut self, at: &At) -> Read<u32> {
        let from = self.position;
        let mut value: u64 = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed::<1>(at)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).or_else(|_| self.fail_at(from, at, DecodeProblem::Varint));
            }
        }
        self.fail_at(from, at, DecodeProblem::Varint)
    }

    #[cold]
    fn fail_at<T>(&self, position: usize, at: &At, problem: DecodeProblem) -> Read<T> {
        Err(DecodeError::new(at, self.base + position, problem))
    }

    /// A compact length: `None` for null.
    #[inline]
    fn compact_length(&mut self, at: &At) -> Read<Option<usize>> {
        let from = self.position;
        match self.uvarint(at)? {
            0 => Ok(None),
            more @ 0x8000_0001.. => self.fail_at(
                from,
                at,
                DecodeProblem::Short { needed: u64::from(more - 1), left: self.remaining() as u64 },
            ),
            more => Ok(Some(more as usize - 1)),
        }
    }

    #[inline]
    fn long_length(&mut self, flex: bool, at: &At) -> Read<Option<usize>> {
        if flex {
            return self.compact_length(at);
        }
        let from = self.position;
        match self.i32(at)? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => Ok(Some(length)),
                Err(_) => self.fail_at(from, at, DecodeProblem::NegativeLength(length)),
            },
        }
    }

    #[inline]
    fn text_length(&mut self, flex: bool, at: &At) -> Read<Option<usize>> {
        let from = self.position;
        if flex {
            return match self.compact_length(at)? {
                Some(long) if long > LONGEST_STRING => {
                    self.fail_at(from, at, DecodeProblem::LongString(long as u32))
                }
                length => Ok(length),
            };
        }
        match self.i16(at)? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => Ok(Some(length)),
                Err(_) => self.fail_at(from, at, DecodeProblem::NegativeLength(length.into())),
            },
        }
    }

    #[inline]
    fn required(&self, from: usize, length: Option<usize>, at: &At) -> Read<usize> {
        match length {
            Some(length) => Ok(length),
            None => self.fail_at(from, at, DecodeProblem::Null),
        }
    }

    /// A string.
    pub fn text(&mut self, flex: bool, at: &At) -> Read<Text> {
        let from = self.position;
        let length = self.text_length(flex, at)?;
        let length = self.required(from, length, at)?;
        self.text_body(length, at)
    }

    /// A string or null.
    pub fn text_or_null(&mut self, flex: bool, at: &At) -> Read<Option<Text>> {
        match self.text_length(flex, at)? {
            Some(length) => self.text_body(length, at).map(Some),
            None => Ok(None),
        }
    }

    fn text_body(&mut self, length: usize, at: &At) -> Read<Text> {
        let from = self.step(length, at)?;
        Text::try_from(self.slice(from, from + length))
            .or_else(|_| self.fail_at(from, at, DecodeProblem::NotUtf8))
    }

    /// Bytes.
    pub fn bytes(&mut self, flex: bool, at: &At) -> Read<Bytes> {
        let from = self.position;
        let length = self.long_length(flex, at)?;
        let length = self.required(from, length, at)?;
        let from = self.step(length, at)?;
        Ok(self.slice(from, from + length))
    }

    /// Bytes or null.
    pub fn bytes_or_null(&mut self, flex: bool, at: &At) -> Read<Option<Bytes>> {
        let Some(length) = self.long_length(flex, at)? else { return Ok(None) };
        let from = self.step(length, at)?;
        Ok(Some(self.slice(from, from + length)))
    }

    /// Record batches.
    pub fn records(&mut self, flex: bool, at: &At) -> Read<Records> {
        self.bytes(flex, at).map(Records::from)
    }

    /// Record batches or null.
    pub fn records_or_null(&mut self, flex: bool, at: &At) -> Read<Option<Records>> {
        Ok(self.bytes_or_null(flex, at)?.map(Records::from))
    }

    /// An array of numbers, as a view of the frame.
    pub fn numbers<T: Number>(&mut self, flex: bool, at: &At) -> Read<Numbers<T>> {
        let count = self.count(flex, T::SIZE, at)?;
        self.view(count, at)
    }

    /// An array of numbers or null.
    pub fn numbers_or_null<T: Number>(&mut self, flex: bool, at: &At) -> Read<Option<Numbers<T>>> {
        match self.count_or_null(flex, T::SIZE, at)? {
            Some(count) => self.view(count, at).map(Some),
            None => Ok(None),
        }
    }

    fn view<T: Number>(&mut self, count: usize, at: &At) -> Read<Numbers<T>> {
        let from = self.step(count * T::SIZE, at)?;
        Ok(Numbers::from_wire(&self.buffer, from..from + count * T::SIZE))
    }

    /// The count of an array whose elements take `smallest` bytes or more: never more than the frame can hold.
    pub fn count(&mut self, flex: bool, smallest: usize, at: &At) -> Read<usize> {
        let from = self.position;
        let count = self.count_or_null(flex, smallest, at)?;
        self.required(from, count, at)
    }

    /// The same, or null.
    pub fn count_or_null(&mut self, flex: bool, smallest: usize, at: &At) -> Read<Option<usize>> {
        let from = self.position;
        let count = self.long_length(flex, at)?;
        if let Some(count) = count {
            let needed = count as u64 * smallest as u64;
            let left = self.remaining() as u64;
            if needed > left {
                return self.fail_at(from, at, DecodeProblem::Short { needed, left });
            }
        }
        Ok(count)
    }

    /// An array of structs, strings or bytes.
    pub fn list<T>(
        &mut self,
        flex: bool,
        smallest: usize,
        at: &At,
        read: impl FnMut(&mut Reader) -> Read<T>,
    ) -> Read<Vec<T>> {
        let count = self.count(flex, smallest, at)?;
        self.elements(count, read)
    }

    /// The same, or null.
    pub fn list_or_null<T>(
        &mut self,
        flex: bool,
        smallest: usize,
        at: &At,
        read: impl FnMut(&mut Reader) -> Read<T>,
    ) -> Read<Option<Vec<T>>> {
        match self.count_or_null(flex, smallest, at)? {
            Some(count) => self.elements(count, read).map(Some),
            None => Ok(None),
        }
    }

    /// Reserves at most four times the bytes that are left, so that false counts cost little. When that many elements have
    /// really been read, the count is believed.
    fn elements<T>(&mut self, count: usize, mut read: impl FnMut(&mut Reader) -> Read<T>) -> Read<Vec<T>> {
        let room = self.remaining().saturating_mul(4) / size_of::<T>().max(1);
        let mut list = Vec::with_capacity(count.min(room.max(4)));
        for done in 0..count {
            if done == list.capacity() {
                list.reserve_exact(count - done);
            }
            list.push(read(self)?);
        }
        Ok(list)
    }

    /// The byte before a nullable struct: whether it is present.
    pub fn marker(&mut self, at: &At) -> Read<bool> {
        Ok(self.i8(at)? >= 0)
    }

    /// The number before a nullable struct in a tagged field: whether it is present.
    pub fn tagged_marker(&mut self, at: &At) -> Read<bool> {
        let from = self.position;
        match self.uvarint(at)? {
            0 => Ok(false),
            1 => Ok(true),
            other => self.fail_at(from, at, DecodeProblem::Value(other.into())),
        }
    }

    /// The start of a tagged section.
    pub fn tags(&mut self, at: &At) -> Read<TagReader> {
        let from = self.position;
        let left = self.uvarint(at)?;
        let needed = u64::from(left) * 2;
        if needed > self.remaining() as u64 {
            let left = self.remaining() as u64;
            return self.fail_at(from, at, DecodeProblem::Short { needed, left });
        }
        Ok(TagReader { left, tag: None, outer: self.end })
    }

    /// The next tag; until [`Reader::end_tag`] the reader ends where the tagged field does.
    pub fn next_tag(&mut self, tags: &mut TagReader, at: &At) -> Read<Option<u32>> {
        if tags.left == 0 {
            return Ok(None);
        }
        tags.left -= 1;
        let from = self.position;
        let tag = self.uvarint(at)?;
        if let Some(last) = tags.tag.filter(|last| *last >= tag) {
            return self.fail_at(from, at, DecodeProblem::TagOrder(tag, last));
        }
        let size = self.uvarint(at)? as usize;
        if size > self.remaining() {
            return Err(self.short(size, at));
        }
        tags.tag = Some(tag);
        self.end = self.position + size;
        Ok(Some(tag))
    }

    /// The end of a tagged field: all of it must have been read.
    pub fn end_tag(&mut self, tags: &mut TagReader, at: &At) -> Read<()> {
        if self.position != self.end {
            let left = self.remaining() as u64;
            return Err(self.error(at, DecodeProblem::TagSize { tag: tags.tag.unwrap_or_default(), left }));
        }
        self.end = tags.outer;
        Ok(())
    }

    /// A tagged section of which the schema knows no field.
    #[inline]
    pub fn unknown_tags(&mut self, unknown: &mut Tags, at: &At) -> Read<()> {
        let mut tags = self.tags(at)?;
        while let Some(tag) = self.next_tag(&mut tags, at)? {
            unknown.push(tag, self.rest());
            self.end_tag(&mut tags, at)?;
        }
        Ok(())
    }

    /// The error for a tag that the schema has only in other versions.
    #[cold]
    pub(crate) fn tag_not_in_version(&self, version: i16, at: &At) -> DecodeError {
        self.error(at, DecodeProblem::TagVersion(version))
    }
}

/// Where a reader is in a tagged section.
#[derive(Debug)]
pub struct TagReader {
    left: u32,
    tag: Option<u32>,
    outer: usize,
}

macro_rules! fixed {
    ($($name:ident: $ty:ty, $doc:literal;)*) => {
        impl Reader {$(
            #[doc = $doc]
            #[inline]
            pub fn $name(&mut self, at: &At) -> Read<$ty> {
                Ok(<$ty>::from_be_bytes(self.fixed(at)?))
            }
        )*}
    };
}

fixed! {
    i8: i8, "A signed byte.";
    i16: i16, "A signed number of two bytes.";
    u16: u16, "An unsigned number of two bytes.";
    i32: i32, "A signed number of four bytes.";
    u32: u32, "An unsigned number of four bytes.";
    i64: i64, "A signed number of eight bytes.";
    f64: f64, "A floating point number of eight bytes.";
}

impl Reader {
    /// Sixteen bytes.
    #[inline]
    pub fn uuid(&mut self, at: &At) -> Read<Uuid> {
        self.fixed(at).map(Uuid)
    }
}
