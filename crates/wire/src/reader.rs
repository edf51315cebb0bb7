//! A frame that is being read, value by value: its bytes, and how far reading has come.

use crate::input::Input;
use crate::numbers::for_each_number;
use crate::{At, DecodeError, DecodeProblem, Records, Tags, Text, Uuid, Versions};
use bytes::Bytes;

/// A position in a frame. Strings, bytes and records that it returns share the frame's buffer.
///
/// `flex` arguments choose between compact lengths (flexible versions) and fixed ones. After an error the position is
/// undefined.
#[derive(Debug)]
pub struct Reader {
    frame: Bytes,
    position: usize,
    /// Where reading ends: with the frame, or with the tagged field that is being read.
    end: usize,
    base: usize,
    /// Bytes of memory that elements of lists may still take.
    memory_limit: usize,
}

type DecodeResult<T> = Result<T, DecodeError>;

impl Reader {
    /// Reads `frame` from its start; errors count bytes from there.
    pub fn new(frame: Bytes) -> Reader {
        Reader::with_base(frame, 0)
    }

    /// Reads `frame` from its start; errors count bytes from `base` before it.
    pub fn with_base(frame: Bytes, base: usize) -> Reader {
        Reader { position: 0, end: frame.len(), frame, base, memory_limit: usize::MAX }
    }

    /// Lets the elements of lists take so many bytes of memory together, beside the bytes of the frame. Two bytes of a frame can
    /// be an element of a hundred.
    #[must_use]
    pub fn with_memory_limit(self, memory_limit: usize) -> Reader {
        Reader { memory_limit, ..self }
    }

    /// The bytes that are left.
    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// The place of the next byte, as errors count it.
    pub fn offset(&self) -> usize {
        self.base + self.position
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> Bytes {
        let from = std::mem::replace(&mut self.position, self.end);
        self.frame.slice(from..self.end)
    }

    /// Reads with `read` and moves on by what it took.
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

    /// The same, into a place that holds the default.
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

    /// The count of an array whose elements take `smallest` bytes or more: never more than what is left can hold.
    pub fn count(&mut self, flex: bool, smallest: usize, at: &At) -> DecodeResult<usize> {
        self.read(|input| input.count(flex, smallest, at))
    }

    /// The same, or null.
    pub fn count_or_null(&mut self, flex: bool, smallest: usize, at: &At) -> DecodeResult<Option<usize>> {
        self.read(|input| input.count_or_null(flex, smallest, at))
    }

    /// The start of a tagged section.
    pub fn tags(&mut self, at: &At) -> DecodeResult<TagReader> {
        let count = self.read(|input| Ok(input.tags(at)?.count))?;
        Ok(TagReader { count, tag: None, outer: self.end })
    }

    /// The next tag; until [`Reader::end_tag`] the reader ends where the tagged field does.
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

/// Where a reader is in a tagged section.
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
