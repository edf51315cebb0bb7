//! The value of a `records` field: record batches as bytes, which decoding and encoding do not copy.

use bytes::{Bytes, BytesMut};
use std::fmt;
use std::ops::Range;

/// Encoded record batches in one or more chunks. Two values are equal if their bytes are.
#[derive(Clone, Default)]
pub struct Records(Chunks);

#[derive(Clone)]
enum Chunks {
    One(Bytes),
    Many(Vec<Bytes>),
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks::One(Bytes::new())
    }
}

impl Records {
    /// Sets the value to a part of the frame, which is shared.
    #[inline]
    pub(crate) fn set(&mut self, frame: &Bytes, part: Range<usize>) {
        self.0 = Chunks::One(frame.slice(part));
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.chunks().iter().map(Bytes::len).sum()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.chunks().iter().all(Bytes::is_empty)
    }

    /// The chunks in order.
    pub fn chunks(&self) -> &[Bytes] {
        match &self.0 {
            Chunks::One(chunk) => std::slice::from_ref(chunk),
            Chunks::Many(chunks) => chunks,
        }
    }

    /// Adds bytes at the end.
    pub fn push(&mut self, chunk: Bytes) {
        match &mut self.0 {
            Chunks::One(first) if first.is_empty() => *first = chunk,
            Chunks::One(first) => self.0 = Chunks::Many(vec![std::mem::take(first), chunk]),
            Chunks::Many(chunks) => chunks.push(chunk),
        }
    }

    /// The value as one buffer: shared when it is one chunk already, else copied.
    pub fn to_bytes(&self) -> Bytes {
        match &self.0 {
            Chunks::One(chunk) => chunk.clone(),
            Chunks::Many(chunks) => {
                let mut out = BytesMut::with_capacity(self.len());
                chunks.iter().for_each(|chunk| out.extend_from_slice(chunk));
                out.freeze()
            }
        }
    }
}

impl From<Bytes> for Records {
    fn from(chunk: Bytes) -> Records {
        Records(Chunks::One(chunk))
    }
}

impl From<Vec<Bytes>> for Records {
    fn from(chunks: Vec<Bytes>) -> Records {
        Records(Chunks::Many(chunks))
    }
}

impl FromIterator<Bytes> for Records {
    fn from_iter<I: IntoIterator<Item = Bytes>>(chunks: I) -> Records {
        Records(Chunks::Many(chunks.into_iter().collect()))
    }
}

impl PartialEq for Records {
    fn eq(&self, other: &Records) -> bool {
        self.len() == other.len() && self.chunks().iter().flatten().eq(other.chunks().iter().flatten())
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Records({} bytes)", self.len())
    }
}
