//! The heads of Kafka record batches (magic 2), as far as runs need them. Big-endian, unlike everything else here.
//!
//! | at | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | base offset |
//! | 8 | 4 | bytes that follow this field |
//! | 12 | 4 | leader epoch |
//! | 16 | 1 | magic |
//! | 17 | 4 | CRC-32C of everything after it |
//! | 23 | 4 | last offset delta |
//! | 35 | 8 | largest timestamp |

use crate::read::array;
use ottla_types::{Millis, Offset};

/// Bytes of a batch before its records.
pub const BATCH_HEAD: usize = 61;
/// Where the bytes begin that the batch's own checksum covers.
const COVERED: usize = 21;

/// The head of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHead {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset of its last record; records may be missing.
    pub last_offset: Offset,
    /// Bytes of the batch, head included.
    pub size: usize,
    /// The largest timestamp of its records, -1 for none.
    pub max_timestamp: Millis,
    /// The checksum that the batch carries.
    pub checksum: u32,
}

/// Bytes that are not a whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchFault {
    /// The head is incomplete.
    #[error("the head of a batch is cut short")]
    Short,
    /// Its length is invalid, or more than the bytes that are there.
    #[error("a batch says that {0} bytes follow, which cannot be")]
    Length(i32),
    /// Another format of batches.
    #[error("a batch has magic {0}, not 2")]
    Magic(u8),
    /// Offsets that no batch has.
    #[error("a batch begins at offset {0} with a last offset delta of {1}")]
    Offsets(i64, i32),
}

impl BatchHead {
    /// Reads the head at the start of `bytes` and checks that the batch ends within them.
    pub fn read(bytes: &[u8]) -> Result<BatchHead, BatchFault> {
        let read = || {
            let base = i64::from_be_bytes(array(bytes, 0)?);
            let length = i32::from_be_bytes(array(bytes, 8)?);
            let [magic] = array(bytes, 16)?;
            let checksum = u32::from_be_bytes(array(bytes, 17)?);
            let delta = i32::from_be_bytes(array(bytes, 23)?);
            let time = i64::from_be_bytes(array(bytes, 35)?);
            bytes.get(..BATCH_HEAD)?;
            Some((base, length, magic, checksum, delta, time))
        };
        let (base, length, magic, checksum, delta, time) = read().ok_or(BatchFault::Short)?;
        let size = usize::try_from(length).ok().and_then(|length| length.checked_add(12));
        let Some(size) = size.filter(|size| (BATCH_HEAD..=bytes.len()).contains(size)) else {
            return Err(BatchFault::Length(length));
        };
        if magic != 2 {
            return Err(BatchFault::Magic(magic));
        }
        let last = base.checked_add(i64::from(delta)).filter(|_| base >= 0 && delta >= 0);
        let last_offset = Offset(last.ok_or(BatchFault::Offsets(base, delta))?);
        Ok(BatchHead { base_offset: Offset(base), last_offset, size, max_timestamp: Millis(time), checksum })
    }

    /// Whether the checksum of `batch`, the bytes of this batch, is right.
    pub fn matches(&self, batch: &[u8]) -> bool {
        batch.get(COVERED..self.size).is_some_and(|covered| crc32c::crc32c(covered) == self.checksum)
    }
}

/// The checksum of the heads of batches, one after the other. It buffers several heads before it computes, because
/// heads are short.
#[derive(Clone, Debug)]
pub(super) struct HeadSum {
    checksum: u32,
    gathered: [u8; GATHERED],
    used: usize,
}

const GATHERED: usize = 16 * BATCH_HEAD;

impl Default for HeadSum {
    fn default() -> HeadSum {
        HeadSum { checksum: 0, gathered: [0; GATHERED], used: 0 }
    }
}

impl HeadSum {
    /// Adds the head of `batch`.
    pub(super) fn push(&mut self, batch: &[u8]) {
        if self.used == GATHERED {
            self.checksum = self.checksum();
            self.used = 0;
        }
        let place = self.gathered.get_mut(self.used..self.used + BATCH_HEAD);
        if let (Some(place), Some(head)) = (place, batch.get(..BATCH_HEAD)) {
            place.copy_from_slice(head);
            self.used += BATCH_HEAD;
        }
    }

    /// The checksum of all heads so far.
    pub(super) fn checksum(&self) -> u32 {
        crc32c::crc32c_append(self.checksum, self.gathered.get(..self.used).unwrap_or_default())
    }
}

/// Walks over batches that follow each other; ends after the first fault.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Batches<'a> {
    /// The batches that fill `bytes`.
    pub fn of(bytes: &'a [u8]) -> Batches<'a> {
        Batches { bytes, at: 0 }
    }
}

impl<'a> Iterator for Batches<'a> {
    /// Where the batch begins, its head, and its bytes; or where something else does.
    type Item = Result<(usize, BatchHead, &'a [u8]), (usize, BatchFault)>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.bytes.get(at..).filter(|rest| !rest.is_empty())?;
        Some(match BatchHead::read(rest) {
            Ok(head) => {
                self.at += head.size;
                Ok((at, head, &rest[..head.size]))
            }
            Err(fault) => {
                self.at = self.bytes.len();
                Err((at, fault))
            }
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A batch with the fields that runs read.
    pub(crate) fn batch(base: i64, delta: i32, time: i64, size: usize) -> Vec<u8> {
        let mut bytes = vec![base as u8; size.max(BATCH_HEAD)];
        let length = bytes.len() as i32 - 12;
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[16] = 2;
        bytes[23..27].copy_from_slice(&delta.to_be_bytes());
        bytes[35..43].copy_from_slice(&time.to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[COVERED..]);
        bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    #[test]
    fn batches_are_walked_in_order() {
        let bytes = [batch(3, 0, 70, 61), batch(4, 9, 60, 500), batch(20, 1, -1, 99)].concat();
        let found: Vec<_> = Batches::of(&bytes).map(Result::unwrap).collect();
        let facts: Vec<_> = found
            .iter()
            .map(|(at, head, _)| (*at, head.base_offset.0, head.last_offset.0, head.max_timestamp.0))
            .collect();
        assert_eq!(facts, [(0, 3, 3, 70), (61, 4, 13, 60), (561, 20, 21, -1)]);
        assert!(found.iter().all(|(_, head, bytes)| head.size == bytes.len() && head.matches(bytes)));
    }

    #[test]
    fn a_lie_of_a_head_is_a_fault() {
        let lie = |at: usize, bytes: &[u8]| {
            let mut batch = batch(5, 1, 9, 80);
            batch[at..at + bytes.len()].copy_from_slice(bytes);
            BatchHead::read(&batch)
        };
        assert_eq!(lie(8, &69i32.to_be_bytes()), Err(BatchFault::Length(69)));
        assert_eq!(lie(8, &48i32.to_be_bytes()), Err(BatchFault::Length(48)));
        assert_eq!(lie(8, &i32::MAX.to_be_bytes()), Err(BatchFault::Length(i32::MAX)));
        assert_eq!(lie(8, &(-1i32).to_be_bytes()), Err(BatchFault::Length(-1)));
        assert_eq!(lie(16, &[1]), Err(BatchFault::Magic(1)));
        assert_eq!(lie(23, &(-2i32).to_be_bytes()), Err(BatchFault::Offsets(5, -2)));
        assert_eq!(lie(0, &i64::MAX.to_be_bytes()), Err(BatchFault::Offsets(i64::MAX, 1)));
        assert_eq!(lie(0, &(-1i64).to_be_bytes()), Err(BatchFault::Offsets(-1, 1)));
        assert_eq!(BatchHead::read(&batch(1, 1, 1, 80)[..60]), Err(BatchFault::Short));
    }

    proptest! {
        #[test]
        fn garbage_is_walked_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let walked: usize = Batches::of(&bytes).filter_map(Result::ok).map(|(_, head, _)| head.size).sum();
            prop_assert!(walked <= bytes.len());
        }
    }
}
