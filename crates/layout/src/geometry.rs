//! Maps a position of the log to a segment and an offset in it.

/// Bytes of a block: headers and groups begin and end on multiples of it, so that O_DIRECT writes are possible.
pub const BLOCK: u64 = 4096;

/// `len` rounded up to whole blocks.
pub const fn align_up(len: u64) -> u64 {
    len.div_ceil(BLOCK) * BLOCK
}

/// A segment size that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("segment size {0} is not a power of two between 64 KiB and 1 GiB")]
pub struct GeometryError(pub u64);

/// The arithmetic of positions: position = segment number * segment size + offset in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    segment_size: u64,
}

impl Geometry {
    /// The smallest segment.
    pub const SMALLEST: u64 = 64 << 10;
    /// The largest segment.
    pub const LARGEST: u64 = 1 << 30;

    /// Positions over segments of `segment_size` bytes: a power of two from 64 KiB to 1 GiB.
    pub fn new(segment_size: u64) -> Result<Geometry, GeometryError> {
        let fits = (Self::SMALLEST..=Self::LARGEST).contains(&segment_size);
        if fits && segment_size.is_power_of_two() {
            Ok(Geometry { segment_size })
        } else {
            Err(GeometryError(segment_size))
        }
    }

    /// Bytes of a segment, its header block included.
    pub fn segment_size(self) -> u64 {
        self.segment_size
    }

    /// Number of the segment that holds the byte at `position`.
    pub fn segment_of(self, position: u64) -> u64 {
        position / self.segment_size
    }

    /// Offset of the byte at `position` in its segment.
    pub fn offset_of(self, position: u64) -> u64 {
        position % self.segment_size
    }

    /// Position of the first byte of a segment: its header.
    pub fn start_of(self, segment: u64) -> u64 {
        segment * self.segment_size
    }

    /// Position of the first group of a segment.
    pub fn first_group(self, segment: u64) -> u64 {
        self.start_of(segment) + BLOCK
    }

    /// Position just after a segment.
    pub fn end_of(self, segment: u64) -> u64 {
        (segment + 1) * self.segment_size
    }

    /// The first place at or after `position` (a multiple of a block) where a group of `len` bytes, padding included,
    /// fits whole into one segment.
    pub fn place_for(self, position: u64, len: u64) -> u64 {
        let segment = self.segment_of(position);
        let start = position.max(self.first_group(segment));
        if start + len <= self.end_of(segment) { start } else { self.first_group(segment + 1) }
    }

    /// The segment that replay begins in when it must cover everything from `position` on: the one that holds the byte
    /// before it, so that the chain up to `position` is checked too.
    pub fn replay_segment(self, position: u64) -> u64 {
        self.segment_of(position.saturating_sub(1))
    }

    /// The largest entry that is accepted, in bytes.
    pub fn largest_entry(self) -> u64 {
        self.segment_size / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_size_is_a_power_of_two_in_bounds() {
        assert!(Geometry::new(64 << 10).is_ok());
        assert!(Geometry::new(1 << 30).is_ok());
        for wrong in [0, 1 << 15, (64 << 10) + 1, 96 << 10, 1 << 31] {
            assert_eq!(Geometry::new(wrong), Err(GeometryError(wrong)));
        }
    }

    #[test]
    fn a_group_never_crosses_a_segment() {
        let geometry = Geometry::new(64 << 10).unwrap();
        assert_eq!(geometry.place_for(0, 4096), 4096);
        assert_eq!(geometry.place_for(4096, 60 << 10), 4096);
        assert_eq!(geometry.place_for(8192, 60 << 10), (64 << 10) + 4096);
        assert_eq!(geometry.place_for(64 << 10, 4096), (64 << 10) + 4096);
        assert_eq!(geometry.place_for((64 << 10) - 4096, 4096), (64 << 10) - 4096);
    }

    #[test]
    fn replay_begins_in_the_segment_of_the_byte_before() {
        let geometry = Geometry::new(64 << 10).unwrap();
        assert_eq!(geometry.replay_segment(0), 0);
        assert_eq!(geometry.replay_segment(64 << 10), 0);
        assert_eq!(geometry.replay_segment((64 << 10) + 1), 1);
    }
}
