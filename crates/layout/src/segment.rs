//! The header block of a segment. Groups repeat all of it. The header identifies a file without the others.

use crate::geometry::BLOCK;
use crate::identity::Identity;
use crate::read::{put, u16_at, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"OTTLASEG";
const CHECKSUM: usize = 44;
const LEN: usize = 48;

/// Version of the segment header.
pub const SEGMENT_FORMAT: u16 = 0;

/// The header in the first block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The folder's random number.
    pub log_id: u64,
    /// The shard.
    pub shard: u16,
    /// Bytes of a segment.
    pub segment_size: u64,
    /// This segment's number.
    pub number: u64,
    /// The epoch in which it was put into use.
    pub epoch: u32,
}

/// A segment header that does not belong where it was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// Not a segment header: the file was never put into use, or is damaged.
    #[error("offset 0: no segment header")]
    NotASegment,
    /// Written by a newer version.
    #[error("offset 8: format {0} is newer than this program knows: use the version that wrote it")]
    NewerFormat(u16),
    /// Damaged.
    #[error("offset {CHECKSUM}: the checksum of the segment header does not match")]
    Checksum,
    /// The header of another segment or folder.
    #[error("offset 16: the header is that of segment {found} of log {log_id:016x}")]
    Foreign {
        /// The number it carries.
        found: u64,
        /// The log it carries.
        log_id: u64,
    },
}

impl SegmentHeader {
    /// The header of segment `number` of `identity`, put into use in `epoch`.
    pub fn of(identity: &Identity, number: u64, epoch: u32) -> SegmentHeader {
        SegmentHeader {
            log_id: identity.log_id,
            shard: identity.shard,
            segment_size: identity.geometry.segment_size(),
            number,
            epoch,
        }
    }

    /// Writes the header into the first block of a segment; the rest of the block becomes zero.
    pub fn encode(&self, block: &mut [u8]) {
        block.fill(0);
        put(block, 0, MAGIC);
        put(block, 8, &SEGMENT_FORMAT.to_le_bytes());
        put(block, 10, &self.shard.to_le_bytes());
        put(block, 12, &self.epoch.to_le_bytes());
        put(block, 16, &self.log_id.to_le_bytes());
        put(block, 24, &self.number.to_le_bytes());
        put(block, 32, &self.segment_size.to_le_bytes());
        let checksum = crc32c::crc32c(block.get(..CHECKSUM).unwrap_or_default());
        put(block, CHECKSUM, &checksum.to_le_bytes());
    }

    /// Reads a header and checks that it is the one of segment `number` of `identity`.
    pub fn check(block: &[u8], identity: &Identity, number: u64) -> Result<SegmentHeader, SegmentError> {
        let header = Self::decode(block)?;
        let expected = SegmentHeader::of(identity, number, header.epoch);
        if header == expected {
            Ok(header)
        } else {
            Err(SegmentError::Foreign { found: header.number, log_id: header.log_id })
        }
    }

    /// Reads what [`SegmentHeader::encode`] wrote.
    pub fn decode(block: &[u8]) -> Result<SegmentHeader, SegmentError> {
        let bytes = block.get(..LEN).ok_or(SegmentError::NotASegment)?;
        if block.len() != BLOCK as usize || !bytes.starts_with(MAGIC) {
            return Err(SegmentError::NotASegment);
        }
        let checksum = u32_at(bytes, CHECKSUM).ok_or(SegmentError::NotASegment)?;
        if crc32c::crc32c(&bytes[..CHECKSUM]) != checksum {
            return Err(SegmentError::Checksum);
        }
        let format = u16_at(bytes, 8).ok_or(SegmentError::NotASegment)?;
        if format != SEGMENT_FORMAT {
            return Err(SegmentError::NewerFormat(format));
        }
        let read = || {
            Some(SegmentHeader {
                shard: u16_at(bytes, 10)?,
                epoch: u32_at(bytes, 12)?,
                log_id: u64_at(bytes, 16)?,
                number: u64_at(bytes, 24)?,
                segment_size: u64_at(bytes, 32)?,
            })
        };
        read().ok_or(SegmentError::NotASegment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;

    fn identity() -> Identity {
        Identity { log_id: 77, shard: 1, geometry: Geometry::new(1 << 20).unwrap() }
    }

    #[test]
    fn comes_back_as_written_and_only_in_its_place() {
        let header = SegmentHeader::of(&identity(), 9, 4);
        let mut block = vec![0xaa; BLOCK as usize];
        header.encode(&mut block);
        assert_eq!(SegmentHeader::check(&block, &identity(), 9), Ok(header));
        let foreign = SegmentError::Foreign { found: 9, log_id: 77 };
        assert_eq!(SegmentHeader::check(&block, &identity(), 8), Err(foreign));
    }

    #[test]
    fn any_flipped_bit_of_the_header_is_noticed() {
        let mut block = vec![0; BLOCK as usize];
        SegmentHeader::of(&identity(), 9, 4).encode(&mut block);
        for bit in 0..LEN * 8 {
            let mut damaged = block.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&damaged).is_err(), "bit {bit}");
        }
        assert_eq!(SegmentHeader::decode(&block[..100]), Err(SegmentError::NotASegment));
    }
}
