//! Reads a frame value by value.

use crate::input::Input;
use crate::numbers::for_each_number;
use crate::{At, DecodeError, DecodeProblem, Records, Tags, Text, Uuid, Versions};
use bytes::Bytes;

/// A position in a frame. The strings, bytes and records that it returns share the frame's buffer.
///
/// `flex` arguments choose between compact lengths (flexible versions) and fixed ones. After an error the position is
/// undefined.
#[derive(Debug)]
pub struct Reader {
    frame: Bytes,
    position: usize,
    /// The end of the frame, or of the current tagged field.
    end: usize,
    base: usize,
    /// Bytes of memory that array elements may still take.
    memory_limit: usize,
}

type DecodeResult<T> = Result<T, DecodeError>;

impl Reader {
    /// Reads `frame` from its start; errors count bytes from there.
    pub fn new(frame: Bytes) -> Reader {
        Reader::with_base(frame, 0)
    }

    /// Reads `frame` from its start; errors add `base` to the position.
    pub fn with_base(frame: Bytes, base: usize) -> Reader {
        Reader { position: 0, end: frame.len(), frame, base, memory_limit: usize::MAX }
    }

    /// Limits the memory that all elements of arrays may take, in bytes, without the bytes of the frame. Two bytes of a
    /// frame can become an element of a hundred bytes.
    #[must_use]
    pub fn with_memory_limit(self, memory_limit: usize) -> Reader {
        Reader { memory_limit, ..self }
    }

    /// The number of bytes that remain.
    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// The position of the next byte, as errors count it.
    pub fn offset(&self) -> usize {
        self.base + self.position
    }

    /// All bytes that remain.
    pub fn rest(&mut self) -> Bytes {
        let from = std::mem::replace(&mut self.position, self.end);
        self.frame.slice(from..self.end)
    }

    /// Reads with `read` and advances the position.
    #[inline]
    pub(crate) fn read<T>(
        &mut self,
        read: impl FnOnce(&mut Input<'_>) -> DecodeResult<T>,
    ) -> DecodeResult<T> {
        let mut input = Input::new(&self.frame, self.position..self.end, self.base, self.memory_limit);
        let value = read(&mut input)?;
        (self.position, self.memory_limit) = (input.position(), input.memory_limit());
        Ok(value)
    }

    /// As [`Reader::read`], into a default value.
    fn place<T: Default>(
        &mut self,
        read: impl FnOnce(&mut Input<'_>, &mut T) -> DecodeResult<()>,
    ) -> DecodeResult<T> {
        let mut place = T::default();
        self.read(|input| read(input, &mut place))?;
        Ok(place)
    }

    /// Refuses a version that the message does not have.
    #[inline]
    pub(crate) fn check_version(&self, valid: Versions, version: i16, at: &At) -> DecodeResult<()> {
        if valid.contains(version) {
            return Ok(());
        }
        Err(DecodeError::version(at, self.offset(), version, valid))
    }

    /// A byte; anything but 0 is true.
    pub fn bool(&mut self, at: &At) -> DecodeResult<bool> {
        self.read(|input| input.bool(at))
    }

    /// Sixteen bytes.
    pub fn uuid(&mut self, at: &At) -> DecodeResult<Uuid> {
        self.read(|input| input.uuid(at))
    }

    /// The byte in front of a nullable struct: whether the struct is present.
    pub fn marker(&mut self, at: &At) -> DecodeResult<bool> {
        self.read(|input| input.marker(at))
    }

    /// The number in front of a nullable struct in a tagged field: whether the struct is present.
    pub fn tagged_marker(&mut self, at: &At) -> DecodeResult<bool> {
        self.read(|input| input.tagged_marker(at))
    }

    /// A string.
    pub fn text(&mut self, flex: bool, at: &At) -> DecodeResult<Text> {
        self.place(|input, place| input.text(place, flex, at))
    }

    /// A string or null.
    pub fn text_or_null(&mut self, flex: bool, at: &At) -> DecodeResult<Option<Text>> {
        self.place(|input, place| input.text_or_null(place, flex, at))
    }

    /// Bytes.
    pub fn bytes(&mut self, flex: bool, at: &At) -> DecodeResult<Bytes> {
        self.place(|input, place| input.bytes(place, flex, at))
    }

    /// Bytes or null.
    pub fn bytes_or_null(&mut self, flex: bool, at: &At) -> DecodeResult<Option<Bytes>> {
        self.place(|input, place| input.bytes_or_null(place, flex, at))
    }

    /// Record batches.
    pub fn records(&mut self, flex: bool, at: &At) -> DecodeResult<Records> {
        self.place(|input, place| input.records(place, flex, at))
    }

    /// Record batches or null.
    pub fn records_or_null(&mut self, flex: bool, at: &At) -> DecodeResult<Option<Records>> {
        self.place(|input, place| input.records_or_null(place, flex, at))
    }

    /// The count of an array whose elements take `smallest` bytes or more. A count that the remaining bytes cannot hold
    /// is an error.
    pub fn count(&mut self, flex: bool, smallest: usize, at: &At) -> DecodeResult<usize> {
        self.read(|input| input.count(flex, smallest, at))
    }

    /// As [`Reader::count`], or null.
    pub fn count_or_null(&mut self, flex: bool, smallest: usize, at: &At) -> DecodeResult<Option<usize>> {
        self.read(|input| input.count_or_null(flex, smallest, at))
    }

    /// The start of a tagged section.
    pub fn tags(&mut self, at: &At) -> DecodeResult<TagReader> {
        let count = self.read(|input| Ok(input.tags(at)?.count))?;
        Ok(TagReader { count, tag: None, outer: self.end })
    }

    /// The next tag. Until [`Reader::end_tag`], the reader ends at the end of the tagged field.
    pub fn next_tag(&mut self, tags: &mut TagReader, at: &At) -> DecodeResult<Option<u32>> {
        let Some(count) = tags.count.checked_sub(1) else { return Ok(None) };
        let (tag, size) = self.read(|input| input.tag_and_size(tags.tag, at))?;
        (tags.count, tags.tag) = (count, Some(tag));
        self.end = self.position + size;
        Ok(Some(tag))
    }

    /// The end of a tagged field: all of it must have been read.
    pub fn end_tag(&mut self, tags: &mut TagReader, at: &At) -> DecodeResult<()> {
        if self.position != self.end {
            let (tag, left) = (tags.tag.unwrap_or_default(), self.remaining() as u64);
            return Err(DecodeError::new(at, self.offset(), DecodeProblem::TagSize { tag, left }));
        }
        self.end = tags.outer;
        Ok(())
    }

    /// A tagged section of which the schema knows no field.
    pub fn unknown_tags(&mut self, unknown: &mut Tags, at: &At) -> DecodeResult<()> {
        self.read(|input| input.unknown_tags(unknown, at))
    }
}

/// The position of a reader in a tagged section.
#[derive(Debug)]
pub struct TagReader {
    count: u32,
    tag: Option<u32>,
    outer: usize,
}

macro_rules! read_number {
    ($($name:ident: $ty:ty, $doc:literal;)*) => {
        impl Reader {$(
            #[doc = $doc]
            pub fn $name(&mut self, at: &At) -> DecodeResult<$ty> {
                self.read(|input| input.$name(at))
            }
        )*}
    };
}

for_each_number!(read_number);
