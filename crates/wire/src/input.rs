//! The decoder of the generated code. It does not copy strings or bytes, and checks every length against the bytes that
//! remain.
//!
//! Values are read into their place (`&mut` arguments) rather than returned: a struct that is returned is copied once
//! for each level of nesting, and a wide load of fields that were just stored one by one stalls the processor.

use crate::numbers::for_each_number;
use crate::text::MAX_STRING_LENGTH;
use crate::{At, DecodeError, DecodeProblem, Number, Numbers, Records, Tags, Text, Uuid};
use bytes::Bytes;
use std::ops::Range;

/// The unread bytes of a frame, or of a tagged field in it. After an error the position is undefined.
///
/// `flex` arguments choose between compact lengths (flexible versions) and fixed ones.
pub(crate) struct Input<'a> {
    left: &'a [u8],
    frame: &'a Bytes,
    base: usize,
    /// Bytes of memory that array elements may still take.
    memory_limit: usize,
}

type DecodeResult<T> = Result<T, DecodeError>;

/// A length as it is read: null, or a number of bytes or elements.
type Length = Option<usize>;

impl<'a> Input<'a> {
    /// Reads that part of the frame. Errors add `base` to the position in the frame.
    #[inline]
    pub(crate) fn new(frame: &'a Bytes, part: Range<usize>, base: usize, memory_limit: usize) -> Input<'a> {
        let left = frame.get(part).unwrap_or_default();
        Input { left, frame, base, memory_limit }
    }

    /// Bytes of memory that array elements may still take.
    #[inline]
    pub(crate) fn memory_limit(&self) -> usize {
        self.memory_limit
    }

    /// Counts memory of elements against the limit.
    #[inline]
    fn take_memory(&mut self, bytes: usize, at: &At) -> DecodeResult<()> {
        match self.memory_limit.checked_sub(bytes) {
            Some(left) => {
                self.memory_limit = left;
                Ok(())
            }
            None => Err(self.error(at, DecodeProblem::MemoryLimit(self.memory_limit as u64))),
        }
    }

    /// The position of the next byte in the frame.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        // `left` is always a part of the frame.
        (self.left.as_ptr() as usize).wrapping_sub(self.frame.as_ptr() as usize)
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, at: &At) -> DecodeResult<[u8; N]> {
        match self.left.split_first_chunk::<N>() {
            Some((bytes, left)) => {
                self.left = left;
                Ok(*bytes)
            }
            None => Err(self.short(N, at)),
        }
    }

    /// The next `length` bytes.
    #[inline]
    fn take(&mut self, length: usize, at: &At) -> DecodeResult<&'a [u8]> {
        match self.left.split_at_checked(length) {
            Some((bytes, left)) => {
                self.left = left;
                Ok(bytes)
            }
            None => Err(self.short(length, at)),
        }
    }

    #[cold]
    fn short(&self, needed: usize, at: &At) -> DecodeError {
        self.error(at, DecodeProblem::Short { needed: needed as u64, left: self.left.len() as u64 })
    }

    #[cold]
    fn error(&self, at: &At, problem: DecodeProblem) -> DecodeError {
        DecodeError::new(at, self.base + self.position(), problem)
    }

    /// The error of a value that was just read and starts at `from`.
    #[cold]
    fn error_at(&self, from: &[u8], at: &At, problem: DecodeProblem) -> DecodeError {
        let place = (from.as_ptr() as usize).wrapping_sub(self.frame.as_ptr() as usize);
        DecodeError::new(at, self.base + place, problem)
    }

    #[cold]
    fn short_at(&self, from: &[u8], at: &At, needed: u64) -> DecodeError {
        self.error_at(from, at, DecodeProblem::Short { needed, left: self.left.len() as u64 })
    }

    /// A byte; anything but 0 is true.
    #[inline]
    pub(crate) fn bool(&mut self, at: &At) -> DecodeResult<bool> {
        Ok(self.fixed::<1>(at)? != [0])
    }

    /// Sixteen bytes.
    #[inline]
    pub(crate) fn uuid(&mut self, at: &At) -> DecodeResult<Uuid> {
        self.fixed(at).map(Uuid)
    }

    /// An unsigned variable-length number of at most five bytes, over-long forms included.
    #[inline]
    pub(crate) fn uvarint(&mut self, at: &At) -> DecodeResult<u32> {
        match self.left.split_first() {
            Some((byte, left)) if *byte < 0x80 => {
                self.left = left;
                Ok(u32::from(*byte))
            }
            _ => self.long_uvarint(at),
        }
    }

    #[inline(never)]
    fn long_uvarint(&mut self, at: &At) -> DecodeResult<u32> {
        let from = self.left;
        let mut value: u64 = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed::<1>(at)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).map_err(|_| self.error_at(from, at, DecodeProblem::Varint));
            }
        }
        Err(self.error_at(from, at, DecodeProblem::Varint))
    }

    /// A length in a flexible version: encoded as length + 1; 0 is null.
    #[inline]
    fn compact_length(&mut self, at: &At) -> DecodeResult<Length> {
        let from = self.left;
        match self.uvarint(at)? {
            0 => Ok(None),
            more @ 0x8000_0001.. => Err(self.short_at(from, at, u64::from(more - 1))),
            more => Ok(Some(more as usize - 1)),
        }
    }

    /// A length of two or four bytes that was just read: -1 is null.
    #[inline]
    fn fixed_length(&self, from: &[u8], length: i32, at: &At) -> DecodeResult<Length> {
        match length {
            0.. => Ok(Some(length as usize)),
            -1 => Ok(None),
            _ => Err(self.error_at(from, at, DecodeProblem::NegativeLength(length))),
        }
    }

    /// A length or count of anything but a string.
    #[inline]
    fn length(&mut self, flex: bool, at: &At) -> DecodeResult<Length> {
        if flex {
            return self.compact_length(at);
        }
        let from = self.left;
        let length = self.i32(at)?;
        self.fixed_length(from, length, at)
    }

    /// The error for null at `from`, unless the value is present.
    #[inline]
    fn required(&self, from: &[u8], present: bool, at: &At) -> DecodeResult<()> {
        if present { Ok(()) } else { Err(self.error_at(from, at, DecodeProblem::Null)) }
    }

    /// Reads a string, and returns whether it is not null.
    fn text_if_any(&mut self, place: &mut Text, flex: bool, at: &At) -> DecodeResult<bool> {
        let from = self.left;
        let length = if flex {
            self.compact_length(at)?
        } else {
            let length = self.i16(at)?;
            self.fixed_length(from, length.into(), at)?
        };
        let Some(length) = length else { return Ok(false) };
        if length > MAX_STRING_LENGTH {
            return Err(self.error_at(from, at, DecodeProblem::LongString(length as u32)));
        }
        let text = self.take(length, at)?;
        match place.set(self.frame, text) {
            Ok(()) => Ok(true),
            Err(_) => Err(self.error_at(text, at, DecodeProblem::NotUtf8)),
        }
    }

    /// A string.
    #[inline]
    pub(crate) fn text(&mut self, place: &mut Text, flex: bool, at: &At) -> DecodeResult<()> {
        let from = self.left;
        let present = self.text_if_any(place, flex, at)?;
        self.required(from, present, at)
    }

    /// A string or null.
    #[inline]
    pub(crate) fn text_or_null(&mut self, place: &mut Option<Text>, flex: bool, at: &At) -> DecodeResult<()> {
        if !self.text_if_any(place.get_or_insert_default(), flex, at)? {
            *place = None;
        }
        Ok(())
    }

    /// The bytes of a field, shared with the frame, unless they are null.
    #[inline]
    fn shared(&mut self, flex: bool, at: &At) -> DecodeResult<Option<Bytes>> {
        match self.length(flex, at)? {
            Some(length) => {
                let from = self.position();
                self.take(length, at)?;
                Ok(Some(self.frame.slice(from..from + length)))
            }
            None => Ok(None),
        }
    }

    /// Bytes.
    pub(crate) fn bytes(&mut self, place: &mut Bytes, flex: bool, at: &At) -> DecodeResult<()> {
        let from = self.left;
        let bytes = self.shared(flex, at)?;
        self.required(from, bytes.is_some(), at)?;
        *place = bytes.unwrap_or_default();
        Ok(())
    }

    /// Bytes or null.
    pub(crate) fn bytes_or_null(
        &mut self,
        place: &mut Option<Bytes>,
        flex: bool,
        at: &At,
    ) -> DecodeResult<()> {
        *place = self.shared(flex, at)?;
        Ok(())
    }

    /// Record batches.
    pub(crate) fn records(&mut self, place: &mut Records, flex: bool, at: &At) -> DecodeResult<()> {
        let from = self.left;
        let bytes = self.shared(flex, at)?;
        self.required(from, bytes.is_some(), at)?;
        *place = Records::from(bytes.unwrap_or_default());
        Ok(())
    }

    /// Record batches or null.
    pub(crate) fn records_or_null(
        &mut self,
        place: &mut Option<Records>,
        flex: bool,
        at: &At,
    ) -> DecodeResult<()> {
        match self.length(flex, at)? {
            Some(length) => {
                let from = self.position();
                self.take(length, at)?;
                // Written in place: see the top of this file.
                place.get_or_insert_default().set(self.frame, from..from + length);
            }
            None => *place = None,
        }
        Ok(())
    }

    /// Reads an array of numbers, and returns whether it is not null.
    fn numbers_if_any<T: Number>(
        &mut self,
        place: &mut Numbers<T>,
        flex: bool,
        at: &At,
    ) -> DecodeResult<bool> {
        let Some(count) = self.count_or_null(flex, T::SIZE, at)? else { return Ok(false) };
        let (from, size) = (self.left, count * T::SIZE);
        self.take(size, at)?;
        place.set(self.frame, from, size);
        Ok(true)
    }

    /// An array of numbers, as a view of the frame.
    #[inline]
    pub(crate) fn numbers<T: Number>(
        &mut self,
        place: &mut Numbers<T>,
        flex: bool,
        at: &At,
    ) -> DecodeResult<()> {
        let from = self.left;
        let present = self.numbers_if_any(place, flex, at)?;
        self.required(from, present, at)
    }

    /// An array of numbers or null.
    #[inline]
    pub(crate) fn numbers_or_null<T: Number>(
        &mut self,
        place: &mut Option<Numbers<T>>,
        flex: bool,
        at: &At,
    ) -> DecodeResult<()> {
        if !self.numbers_if_any(place.get_or_insert_default(), flex, at)? {
            *place = None;
        }
        Ok(())
    }

    /// The count of an array whose elements take `smallest` bytes or more. A count that the remaining bytes cannot hold
    /// is an error.
    #[inline]
    pub(crate) fn count(&mut self, flex: bool, smallest: usize, at: &At) -> DecodeResult<usize> {
        let from = self.left;
        match self.count_or_null(flex, smallest, at)? {
            Some(count) => Ok(count),
            None => Err(self.error_at(from, at, DecodeProblem::Null)),
        }
    }

    /// The same, or null.
    #[inline]
    pub(crate) fn count_or_null(&mut self, flex: bool, smallest: usize, at: &At) -> DecodeResult<Length> {
        let from = self.left;
        let count = self.length(flex, at)?;
        if let Some(count) = count {
            let needed = count as u64 * smallest as u64;
            if needed > self.left.len() as u64 {
                return Err(self.short_at(from, at, needed));
            }
        }
        Ok(count)
    }

    /// An array of structs, strings or bytes, each of which takes `smallest` bytes or more.
    #[inline]
    pub(crate) fn list<T: Default>(
        &mut self,
        place: &mut Vec<T>,
        flex: bool,
        smallest: usize,
        at: &At,
        read: impl FnMut(&mut T, &mut Input<'a>) -> DecodeResult<()>,
    ) -> DecodeResult<()> {
        let count = self.count(flex, smallest, at)?;
        self.elements(place, count, at, read)
    }

    /// The same, or null.
    #[inline]
    pub(crate) fn list_or_null<T: Default>(
        &mut self,
        place: &mut Option<Vec<T>>,
        flex: bool,
        smallest: usize,
        at: &At,
        read: impl FnMut(&mut T, &mut Input<'a>) -> DecodeResult<()>,
    ) -> DecodeResult<()> {
        match self.count_or_null(flex, smallest, at)? {
            Some(count) => self.elements(place.get_or_insert_default(), count, at, read),
            None => {
                *place = None;
                Ok(())
            }
        }
    }

    /// Reserves at most four times the number of bytes that remain, so that a false count costs little memory. After
    /// that many elements were read, it reserves the rest of the count. Default values are built a few at a time, in
    /// place.
    fn elements<T: Default>(
        &mut self,
        list: &mut Vec<T>,
        count: usize,
        at: &At,
        mut read: impl FnMut(&mut T, &mut Input<'a>) -> DecodeResult<()>,
    ) -> DecodeResult<()> {
        const FEW: usize = 16;
        self.take_memory(count.saturating_mul(size_of::<T>()), at)?;
        let capacity = self.left.len().saturating_mul(4) / size_of::<T>().max(1);
        list.clear();
        list.reserve_exact(count.min(capacity.max(4)));
        let mut done = 0;
        while done < count {
            let more = count.min(done + FEW);
            if more > list.capacity() {
                list.reserve_exact(count - done);
            }
            list.resize_with(more, T::default);
            for place in list.iter_mut().skip(done) {
                read(place, self)?;
            }
            done = more;
        }
        Ok(())
    }

    /// The byte in front of a nullable struct: whether the struct is present.
    #[inline]
    pub(crate) fn marker(&mut self, at: &At) -> DecodeResult<bool> {
        Ok(self.i8(at)? >= 0)
    }

    /// The number in front of a nullable struct in a tagged field: whether the struct is present.
    pub(crate) fn tagged_marker(&mut self, at: &At) -> DecodeResult<bool> {
        let from = self.left;
        match self.uvarint(at)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.error_at(from, at, DecodeProblem::Value(other.into()))),
        }
    }

    /// The start of a tagged section.
    #[inline]
    pub(crate) fn tags(&mut self, at: &At) -> DecodeResult<TagInput<'a>> {
        let from = self.left;
        let count = self.uvarint(at)?;
        let needed = u64::from(count) * 2;
        if needed > self.left.len() as u64 {
            return Err(self.short_at(from, at, needed));
        }
        Ok(TagInput { count, tag: None, after: self.left })
    }

    /// The next tag. Until [`Input::end_tag`], the input ends at the end of the tagged field.
    #[inline]
    pub(crate) fn next_tag(&mut self, tags: &mut TagInput<'a>, at: &At) -> DecodeResult<Option<u32>> {
        match tags.count.checked_sub(1) {
            None => Ok(None),
            Some(left) => {
                tags.count = left;
                self.begin_tag(tags, at).map(Some)
            }
        }
    }

    #[inline(never)]
    fn begin_tag(&mut self, tags: &mut TagInput<'a>, at: &At) -> DecodeResult<u32> {
        let (tag, size) = self.tag_and_size(tags.tag, at)?;
        let (field, after) = self.left.split_at_checked(size).unwrap_or_default();
        (tags.tag, tags.after) = (Some(tag), after);
        self.left = field;
        Ok(tag)
    }

    /// The tag of a field, above the last one, and its size, which is at most the number of bytes that remain.
    pub(crate) fn tag_and_size(&mut self, last: Option<u32>, at: &At) -> DecodeResult<(u32, usize)> {
        let from = self.left;
        let tag = self.uvarint(at)?;
        if let Some(last) = last.filter(|last| *last >= tag) {
            return Err(self.error_at(from, at, DecodeProblem::TagOrder(tag, last)));
        }
        let size = self.uvarint(at)? as usize;
        if size > self.left.len() {
            return Err(self.short(size, at));
        }
        Ok((tag, size))
    }

    /// The end of a tagged field: all of it must have been read.
    pub(crate) fn end_tag(&mut self, tags: &mut TagInput<'a>, at: &At) -> DecodeResult<()> {
        if !self.left.is_empty() {
            let (tag, left) = (tags.tag.unwrap_or_default(), self.left.len() as u64);
            return Err(self.error(at, DecodeProblem::TagSize { tag, left }));
        }
        self.left = tags.after;
        Ok(())
    }

    /// The value of a tagged field that the schema does not know.
    pub(crate) fn unknown_tag(&mut self, unknown: &mut Tags, tag: u32) {
        unknown.push(tag, self.frame.slice_ref(self.left));
        self.left = self.left.get(self.left.len()..).unwrap_or_default();
    }

    /// A tagged section of which the schema knows no field.
    #[inline]
    pub(crate) fn unknown_tags(&mut self, unknown: &mut Tags, at: &At) -> DecodeResult<()> {
        match self.left.split_first() {
            Some((0, left)) => {
                self.left = left;
                Ok(())
            }
            _ => self.some_unknown_tags(unknown, at),
        }
    }

    #[inline(never)]
    fn some_unknown_tags(&mut self, unknown: &mut Tags, at: &At) -> DecodeResult<()> {
        let mut tags = self.tags(at)?;
        while let Some(tag) = self.next_tag(&mut tags, at)? {
            // The list grows by doubling.
            self.take_memory(2 * size_of::<(u32, Bytes)>(), at)?;
            self.unknown_tag(unknown, tag);
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

/// The position in a tagged section.
pub(crate) struct TagInput<'a> {
    /// The number of fields that remain.
    pub(crate) count: u32,
    /// The tag of the last field.
    tag: Option<u32>,
    /// The bytes after the current field.
    after: &'a [u8],
}

macro_rules! read_number {
    ($($name:ident: $ty:ty, $doc:literal;)*) => {
        impl Input<'_> {$(
            #[doc = $doc]
            #[inline]
            pub(crate) fn $name(&mut self, at: &At) -> DecodeResult<$ty> {
                Ok(<$ty>::from_be_bytes(self.fixed(at)?))
            }
        )*}
    };
}

for_each_number!(read_number);
