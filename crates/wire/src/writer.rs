//! Writes a frame value by value. Lengths are filled in afterwards; record batches are not copied.

use crate::numbers::for_each_number;
use crate::text::MAX_STRING_LENGTH;
use crate::{
    At, EncodeError, EncodeProblem, Number, Numbers, Records, TagCursor, Tags, Text, Uuid, Versions,
};
use bytes::Bytes;

/// Chunks of records below this size in bytes are copied into the frame, which is cheaper than one more slice in a
/// vectored write.
const MAX_COPIED_CHUNK: usize = 1024;

/// A growing frame. Large record chunks are not copied: the frame records their position, and [`Writer::into_chunks`]
/// returns them.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
    /// Shared chunks, each with its position in `out`.
    shared: Vec<(usize, Bytes)>,
    shared_length: usize,
}

type EncodeResult = Result<(), EncodeError>;

impl Writer {
    /// An empty frame.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// An empty frame with a buffer of `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Writer {
        Writer { out: Vec::with_capacity(capacity), ..Writer::default() }
    }

    /// Removes all bytes and keeps the buffer.
    pub fn clear(&mut self) {
        self.out.clear();
        self.shared.clear();
        self.shared_length = 0;
    }

    /// The bytes written so far, shared chunks included.
    pub fn len(&self) -> usize {
        self.out.len() + self.shared_length
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in order, in as few chunks as possible without a copy.
    pub fn into_chunks(self) -> Vec<Bytes> {
        let own = Bytes::from(self.out);
        let mut chunks = Vec::with_capacity(2 * self.shared.len() + 1);
        let mut from = 0;
        for (position, chunk) in self.shared {
            if position > from {
                chunks.push(own.slice(from..position));
            }
            from = position;
            chunks.push(chunk);
        }
        if from < own.len() {
            chunks.push(own.slice(from..));
        }
        chunks
    }

    /// The bytes as one buffer.
    #[inline]
    pub fn into_bytes(self) -> Bytes {
        if self.shared.is_empty() { Bytes::from(self.out) } else { self.joined() }
    }

    #[cold]
    fn joined(self) -> Bytes {
        let mut whole = Vec::with_capacity(self.len());
        self.into_chunks().iter().for_each(|chunk| whole.extend_from_slice(chunk));
        Bytes::from(whole)
    }

    /// Sets the size field at the start of a frame; the size does not count the field itself.
    pub(crate) fn fill_size(&mut self, at: &At) -> EncodeResult {
        let length = self.len().saturating_sub(4);
        let size = i32::try_from(length).map_err(|_| too_long(length, at))?;
        if let Some(place) = self.out.get_mut(..4) {
            place.copy_from_slice(&size.to_be_bytes());
        }
        Ok(())
    }

    /// Refuses a version that the message does not have.
    pub(crate) fn check_version(&self, valid: Versions, version: i16, at: &At) -> EncodeResult {
        if valid.contains(version) {
            return Ok(());
        }
        Err(EncodeError::new(at, EncodeProblem::Version { version, valid }))
    }

    /// The error for a value of a field that the version lacks.
    #[cold]
    pub(crate) fn absent(&self, version: i16, at: &At) -> EncodeError {
        EncodeError::new(at, EncodeProblem::Absent(version))
    }

    /// The value, or the error for null where the version does not allow it.
    pub(crate) fn not_null<'a, T>(
        &self,
        value: Option<&'a T>,
        version: i16,
        at: &At,
    ) -> Result<&'a T, EncodeError> {
        value.ok_or_else(|| EncodeError::new(at, EncodeProblem::Null(version)))
    }

    /// One byte, 0 or 1.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    /// Sixteen bytes.
    #[inline]
    pub fn uuid(&mut self, value: Uuid) {
        self.out.extend_from_slice(&value.0);
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// An unsigned variable-length number in its shortest form.
    #[inline]
    pub fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    /// A length or count of anything but a string.
    #[inline]
    pub fn count(&mut self, flex: bool, count: usize, at: &At) -> EncodeResult {
        let short = i32::try_from(count).map_err(|_| too_long(count, at))?;
        if flex {
            self.uvarint(short as u32 + 1);
        } else {
            self.i32(short);
        }
        Ok(())
    }

    /// Null in place of anything but a string or struct.
    pub fn null(&mut self, flex: bool) {
        if flex {
            self.out.push(0);
        } else {
            self.i32(-1);
        }
    }

    /// Null in place of a string.
    pub fn null_text(&mut self, flex: bool) {
        if flex {
            self.out.push(0);
        } else {
            self.i16(-1);
        }
    }

    /// A string.
    pub fn text(&mut self, flex: bool, text: &Text, at: &At) -> EncodeResult {
        self.str(flex, text, at)
    }

    /// A string that is not shared.
    pub fn str(&mut self, flex: bool, text: &str, at: &At) -> EncodeResult {
        if text.len() > MAX_STRING_LENGTH {
            return Err(too_long(text.len(), at));
        }
        if flex {
            self.uvarint(text.len() as u32 + 1);
        } else {
            self.i16(text.len() as i16);
        }
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Bytes.
    pub fn bytes(&mut self, flex: bool, bytes: &Bytes, at: &At) -> EncodeResult {
        self.count(flex, bytes.len(), at)?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Record batches; large chunks are shared, not copied.
    pub fn records(&mut self, flex: bool, records: &Records, at: &At) -> EncodeResult {
        self.count(flex, records.len(), at)?;
        for chunk in records.chunks() {
            if chunk.len() < MAX_COPIED_CHUNK {
                self.out.extend_from_slice(chunk);
            } else {
                self.shared.push((self.out.len(), chunk.clone()));
                self.shared_length += chunk.len();
            }
        }
        Ok(())
    }

    /// An array of numbers.
    pub fn numbers<T: Number>(&mut self, flex: bool, numbers: &Numbers<T>, at: &At) -> EncodeResult {
        self.count(flex, numbers.len(), at)?;
        numbers.put(&mut self.out);
        Ok(())
    }

    /// The byte in front of a nullable struct: whether the struct is present.
    pub fn marker(&mut self, present: bool) {
        self.i8(if present { 1 } else { -1 });
    }

    /// The number in front of a nullable struct in a tagged field: whether the struct is present.
    pub fn tagged_marker(&mut self, present: bool) {
        self.bool(present);
    }

    /// The start of a tagged section of `count` fields.
    pub(crate) fn tag_count(&mut self, count: usize, at: &At) -> EncodeResult {
        let count = i32::try_from(count).map_err(|_| too_long(count, at))?;
        self.uvarint(count as u32);
        Ok(())
    }

    /// The start of a tagged field, whose size [`Writer::end_tag`] fills in.
    pub(crate) fn begin_tag(&mut self, tag: u32) -> TagMark {
        self.uvarint(tag);
        self.out.push(0);
        TagMark { start: self.out.len(), length: self.len(), shared: self.shared.len() }
    }

    /// The end of a tagged field. A size of 128 or more needs more than the one reserved byte, so the bytes after it
    /// are moved.
    pub(crate) fn end_tag(&mut self, mark: TagMark, at: &At) -> EncodeResult {
        let size = self.len() - mark.length;
        if let (0..0x80, Some(place)) = (size, self.out.get_mut(mark.start - 1)) {
            *place = size as u8;
            return Ok(());
        }
        let short = i32::try_from(size).map_err(|_| too_long(size, at))?;
        let mut number = Writer::with_capacity(5);
        number.uvarint(short as u32);
        let shift = number.out.len() - 1;
        self.out.splice(mark.start - 1..mark.start, number.out);
        for (position, _) in self.shared.iter_mut().skip(mark.shared) {
            *position += shift;
        }
        Ok(())
    }

    /// Unknown tagged fields with tags below `tag`.
    pub(crate) fn unknown_below(&mut self, cursor: &mut TagCursor<'_>, tag: u32, at: &At) -> EncodeResult {
        while let Some(((unknown, value), rest)) = cursor.rest.split_first() {
            if *unknown >= tag {
                break;
            }
            self.unknown(cursor.last, *unknown, value, at)?;
            cursor.last = Some(*unknown);
            cursor.rest = rest;
        }
        Ok(())
    }

    /// Refuses an unknown field that has the tag of a known one.
    pub(crate) fn reserve_tag(&mut self, cursor: &mut TagCursor<'_>, tag: u32, at: &At) -> EncodeResult {
        self.unknown_below(cursor, tag, at)?;
        match cursor.rest.first() {
            Some((unknown, _)) if *unknown == tag => Err(EncodeError::new(at, EncodeProblem::Tag(tag))),
            _ => Ok(()),
        }
    }

    /// The remaining unknown tagged fields.
    pub(crate) fn unknown_rest(&mut self, cursor: &mut TagCursor<'_>, at: &At) -> EncodeResult {
        for (tag, value) in cursor.rest {
            self.unknown(cursor.last, *tag, value, at)?;
            cursor.last = Some(*tag);
        }
        Ok(())
    }

    fn unknown(&mut self, last: Option<u32>, tag: u32, value: &Bytes, at: &At) -> EncodeResult {
        if last.is_some_and(|last| last >= tag) {
            return Err(EncodeError::new(at, EncodeProblem::Tag(tag)));
        }
        let size = i32::try_from(value.len()).map_err(|_| too_long(value.len(), at))?;
        self.uvarint(tag);
        self.uvarint(size as u32);
        self.out.extend_from_slice(value);
        Ok(())
    }

    /// A tagged section of which the schema knows no field.
    #[inline]
    pub fn unknown_tags(&mut self, tags: &Tags, at: &At) -> EncodeResult {
        if tags.is_empty() {
            self.out.push(0);
            return Ok(());
        }
        self.some_unknown_tags(tags, at)
    }

    #[inline(never)]
    fn some_unknown_tags(&mut self, tags: &Tags, at: &At) -> EncodeResult {
        self.tag_count(tags.len(), at)?;
        self.unknown_rest(&mut tags.cursor(), at)
    }

    /// Refuses tagged fields in a version that has none.
    #[inline]
    pub(crate) fn no_tags(&self, tags: &Tags, version: i16, at: &At) -> EncodeResult {
        if tags.is_empty() {
            return Ok(());
        }
        Err(EncodeError::new(at, EncodeProblem::NoTags(version)))
    }
}

/// The start of a tagged field.
#[derive(Debug)]
pub(crate) struct TagMark {
    start: usize,
    length: usize,
    shared: usize,
}

#[cold]
fn too_long(length: usize, at: &At) -> EncodeError {
    EncodeError::new(at, EncodeProblem::TooLong(length))
}

macro_rules! write_number {
    ($($name:ident: $ty:ty, $doc:literal;)*) => {
        impl Writer {$(
            #[doc = $doc]
            #[inline]
            pub fn $name(&mut self, value: $ty) {
                self.out.extend_from_slice(&value.to_be_bytes());
            }
        )*}
    };
}

for_each_number!(write_number);
