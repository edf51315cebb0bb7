//! Zigzag numbers of variable length, as records use them.

/// Appends a number of at most ten bytes.
pub(super) fn put(out: &mut Vec<u8>, value: i64) {
    let mut bits = ((value << 1) ^ (value >> 63)) as u64;
    while bits >= 0x80 {
        out.push(bits as u8 | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
}

/// The number of bytes that [`put`] appends.
pub(super) fn size(value: i64) -> usize {
    let bits = ((value << 1) ^ (value >> 63)) as u64;
    (64 - (bits | 1).leading_zeros()).div_ceil(7) as usize
}

/// A position in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordCursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> RecordCursor<'a> {
    /// A number of at most 32 bits; `None` if it has too many bytes or is too large.
    #[inline]
    pub(super) fn varint(&mut self) -> Option<i32> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                let bits = i32::from(*byte);
                Some((bits >> 1) ^ -(bits & 1))
            }
            _ => self.long(5).and_then(|value| i32::try_from(value).ok()),
        }
    }

    /// A number of at most 64 bits.
    #[inline]
    pub(super) fn varlong(&mut self) -> Option<i64> {
        self.long(10)
    }

    fn long(&mut self, most: u32) -> Option<i64> {
        let mut bits: u64 = 0;
        for place in 0..most {
            let byte = self.byte()?;
            // The tenth byte has space for one bit.
            if place == 9 && byte > 1 {
                return None;
            }
            bits |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Some((bits >> 1) as i64 ^ -((bits & 1) as i64));
            }
        }
        None
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at)?;
        self.at += 1;
        Some(*byte)
    }

    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..)?.get(..length)?;
        self.at += length;
        Some(taken)
    }

    /// Bytes after their length. The outer `None` is malformed, the inner one null.
    #[inline]
    #[expect(clippy::option_option, reason = "null and malformed are different answers")]
    pub(super) fn nullable(&mut self) -> Option<Option<&'a [u8]>> {
        match self.varint()? {
            -1 => Some(None),
            length => self.take(usize::try_from(length).ok()?).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RecordCursor, put, size};

    #[test]
    fn numbers_come_back_and_sizes_fit() {
        for value in [0, 1, -1, 63, 64, -64, -65, 8191, 8192, i64::from(i32::MAX), i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out.len(), size(value), "{value}");
            assert_eq!(RecordCursor { bytes: &out, at: 0 }.varlong(), Some(value));
            let short = RecordCursor { bytes: &out, at: 0 }.varint();
            assert_eq!(short, i32::try_from(value).ok(), "{value}");
        }
        assert_eq!(RecordCursor { bytes: &[0x80; 11], at: 0 }.varlong(), None);
    }
}
