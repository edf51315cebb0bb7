//! A large raw snappy block, decompressed in steps: only the bytes that later elements may repeat are in memory.
//!
//! A block is its decompressed length and then elements: literal bytes, or a copy of earlier output.

use std::io::{self, Read};

/// Bytes of output that are kept, a power of two. Encoders of Kafka clients copy from at most 4 MiB back.
const WINDOW: usize = 8 << 20;

/// The element that is being written out.
#[derive(Clone, Copy)]
enum Element {
    /// This many bytes of the input.
    Literal(usize),
    /// This many bytes, from this distance back in the output.
    Copy { back: usize, left: usize },
}

/// A decompressor of a block; see the header of this file.
pub(super) struct LargeSnappy<'a> {
    rest: &'a [u8],
    /// The last [`WINDOW`] bytes of the output, each at its position modulo [`WINDOW`].
    window: Vec<u8>,
    element: Element,
    produced: usize,
    length: usize,
}

fn malformed(problem: &str) -> io::Error {
    io::Error::other(format!("not valid snappy data: {problem}"))
}

impl<'a> LargeSnappy<'a> {
    /// Opens a block whose decompressed length is known.
    pub(super) fn open(block: &'a [u8], length: usize) -> io::Result<LargeSnappy<'a>> {
        let header =
            block.iter().position(|byte| *byte < 0x80).ok_or_else(|| malformed("it has no length"))?;
        let rest = block.get(header + 1..).unwrap_or_default();
        let element = Element::Literal(0);
        Ok(LargeSnappy { rest, window: vec![0; WINDOW], element, produced: 0, length })
    }

    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| malformed("it is cut"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// A little-endian number of this many bytes.
    fn number(&mut self, count: usize) -> io::Result<usize> {
        Ok(self.take(count)?.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    fn next_element(&mut self) -> io::Result<Element> {
        let tag = self.number(1)?;
        let long = tag >> 2;
        let (back, left) = match tag & 3 {
            0 => {
                let less_one = if long < 60 { long } else { self.number(long - 59)? };
                return self.within(less_one + 1).map(Element::Literal);
            }
            1 => ((tag >> 5) << 8 | self.number(1)?, (long & 7) + 4),
            2 => (self.number(2)?, long + 1),
            _ => (self.number(4)?, long + 1),
        };
        if back == 0 || back > self.produced {
            return Err(malformed("a copy from before its start"));
        }
        if back > WINDOW {
            return Err(malformed("a copy from more than 8 MiB back"));
        }
        Ok(Element::Copy { back, left: self.within(left)? })
    }

    /// The length of an element, if the block has space for it.
    fn within(&self, length: usize) -> io::Result<usize> {
        if length > self.length - self.produced {
            return Err(malformed("it is longer than it says"));
        }
        Ok(length)
    }

    fn put(&mut self, byte: u8, into: &mut u8) {
        if let Some(place) = self.window.get_mut(self.produced % WINDOW) {
            *place = byte;
        }
        *into = byte;
        self.produced += 1;
    }
}

impl Read for LargeSnappy<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Element::Literal(0) | Element::Copy { left: 0, .. } = self.element {
            if self.produced == self.length {
                return if self.rest.is_empty() { Ok(0) } else { Err(malformed("bytes behind its end")) };
            }
            self.element = self.next_element()?;
        }
        match self.element {
            Element::Literal(left) => {
                let count = left.min(into.len());
                let bytes = self.take(count)?;
                self.element = Element::Literal(left - count);
                for (byte, into) in bytes.iter().zip(into) {
                    self.put(*byte, into);
                }
                Ok(count)
            }
            Element::Copy { back, left } => {
                let count = left.min(into.len());
                self.element = Element::Copy { back, left: left - count };
                for into in into.iter_mut().take(count) {
                    let byte = self.window.get((self.produced - back) % WINDOW).copied().unwrap_or_default();
                    self.put(byte, into);
                }
                Ok(count)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text with copies from near and far.
    fn sample(length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            (0..200_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()).collect();
        while bytes.len() < length {
            let from = bytes.len() / 3;
            bytes.extend_from_within(from..(from + 300_000).min(bytes.len()));
        }
        bytes.truncate(length);
        bytes
    }

    fn read(block: &[u8], length: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        LargeSnappy::open(block, length)?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn a_block_comes_out_whole() {
        for plain in [vec![b'v'; 20 << 20], sample(10 << 20), sample(1000), Vec::new()] {
            let block = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
            assert!(read(&block, plain.len()).unwrap() == plain, "{} bytes", plain.len());
        }
    }

    #[test]
    fn copies_may_overlap_and_reach_far() {
        // "ab", four bytes from two back; then a literal and a copy with a long offset.
        assert_eq!(read(&[6, 0x04, b'a', b'b', 0x01, 2], 6).unwrap(), b"ababab");
        assert_eq!(read(&[3, 0x00, b'x', 0x07, 1, 0, 0, 0], 3).unwrap(), b"xxx");
    }

    #[test]
    fn what_is_no_block_is_an_error() {
        let block = snap::raw::Encoder::new().compress_vec(&sample(5000)).unwrap();
        for cut in [2, 10, block.len() / 2, block.len() - 1] {
            assert!(read(&block[..cut], 5000).is_err(), "{cut}");
        }
        for bad in [
            &[2, 0x05, 1][..],
            &[6, 0x00, b'x', 0x05, 9],
            &[6, 0x00, b'x', 0x05, 0],
            &[1, 0x04, b'a', b'b'],
            &[1, 0x00, b'a', 7],
        ] {
            assert!(read(bad, usize::from(bad[0])).is_err(), "{bad:?}");
        }
    }
}
