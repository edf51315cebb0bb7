//! A position in a buffer, whose read errors are values.

use super::{Note, Problem};
use bytes::Bytes;

/// A range of a source that is being read.
#[derive(Clone, Debug)]
pub(super) struct SourceCursor {
    pub(super) source: u16,
    pub(super) bytes: Bytes,
    pub(super) at: usize,
    pub(super) end: usize,
}

type ReadResult<T> = Result<T, Problem>;

impl SourceCursor {
    pub(super) fn new(source: u16, bytes: Bytes) -> SourceCursor {
        let end = bytes.len();
        SourceCursor { source, bytes, at: 0, end }
    }

    pub(super) fn left(&self) -> usize {
        self.end - self.at
    }

    /// The next `length` bytes as a cursor of their own; this cursor skips them.
    pub(super) fn split(&mut self, length: usize) -> ReadResult<SourceCursor> {
        let from = self.at;
        self.take(length)?;
        Ok(SourceCursor { source: self.source, bytes: self.bytes.clone(), at: from, end: from + length })
    }

    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..self.end).unwrap_or_default()
    }

    /// The last `length` bytes that were read.
    pub(super) fn last_bytes(&self, length: usize) -> &[u8] {
        self.bytes.get(self.at.saturating_sub(length)..self.at).unwrap_or_default()
    }

    pub(super) fn take(&mut self, length: usize) -> ReadResult<&[u8]> {
        let (from, left) = (self.at, self.left());
        if length > left {
            return Err(Problem::Short { needed: length as u64, left: left as u64 });
        }
        self.at += length;
        Ok(self.bytes.get(from..self.at).unwrap_or_default())
    }

    fn array<const N: usize>(&mut self) -> ReadResult<[u8; N]> {
        let left = self.left() as u64;
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| Problem::Short { needed: N as u64, left })
    }

    pub(super) fn i8(&mut self) -> ReadResult<i8> {
        self.array().map(i8::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> ReadResult<i16> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> ReadResult<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> ReadResult<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> ReadResult<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> ReadResult<i64> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn f64(&mut self) -> ReadResult<f64> {
        self.array().map(f64::from_be_bytes)
    }

    /// An unsigned number of at most five bytes, and a note if it takes more bytes than it needs.
    pub(super) fn uvarint(&mut self) -> ReadResult<(u32, Option<Note>)> {
        let (bits, note) = self.seven_bit_groups(5)?;
        u32::try_from(bits).map(|value| (value, note)).map_err(|_| Problem::Varint { most: 5 })
    }

    /// A zigzag number of at most five bytes.
    pub(super) fn varint(&mut self) -> ReadResult<(i32, Option<Note>)> {
        let (bits, note) = self.seven_bit_groups(5)?;
        let bits = u32::try_from(bits).map_err(|_| Problem::Varint { most: 5 })?;
        Ok(((bits >> 1) as i32 ^ -((bits & 1) as i32), note))
    }

    /// A zigzag number of at most ten bytes.
    pub(super) fn varlong(&mut self) -> ReadResult<(i64, Option<Note>)> {
        let (bits, note) = self.seven_bit_groups(10)?;
        Ok(((bits >> 1) as i64 ^ -((bits & 1) as i64), note))
    }

    fn seven_bit_groups(&mut self, most: u32) -> ReadResult<(u64, Option<Note>)> {
        let mut bits: u64 = 0;
        for place in 0..most {
            let [byte] = self.array()?;
            if place == 9 && byte > 1 {
                break;
            }
            bits |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                let note = (place > 0 && byte == 0).then_some(Note::Overlong);
                return Ok((bits, note));
            }
        }
        Err(Problem::Varint { most })
    }
}
