//! Approximate counts of how often ranges of runs and of the log were read. A read that fills the page cache costs more
//! than one that bypasses it, and most of a run is read once. So the first read of a range of a run bypasses the cache,
//! and the second one fills it. Data in the log is recent, and its first read fills the cache for other readers.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a chunk. Reads are counted by chunk.
const CHUNK: u64 = 64 << 10;
/// The number of slots: enough for the chunks of 4 GiB.
const SLOTS: usize = 1 << 16;
/// The bits of a slot that hold the count; the others hold a tag of the chunk.
const COUNT: u32 = 3;

/// A hash table without chains: a chunk replaces another one with the same slot.
pub(crate) struct AccessCounts {
    slots: Box<[AtomicU32]>,
}

impl AccessCounts {
    pub(crate) fn new() -> AccessCounts {
        AccessCounts { slots: (0..SLOTS).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Counts a read of a range of the file `key`. Returns how often its middle was read before, at most 3.
    pub(crate) fn add(&self, key: u64, range: &Range<u64>) -> u32 {
        let times = self.count(key, range);
        for chunk in range.start / CHUNK..range.end.div_ceil(CHUNK) {
            if let (Some(slot), tag) = self.slot(key, chunk) {
                let before = slot.load(Ordering::Relaxed);
                let times = if before & !COUNT == tag { before & COUNT } else { 0 };
                slot.store(tag | (times + 1).min(COUNT), Ordering::Relaxed);
            }
        }
        times
    }

    /// How often the middle of a range was read, at most 3.
    pub(crate) fn count(&self, key: u64, range: &Range<u64>) -> u32 {
        let (slot, tag) = self.slot(key, u64::midpoint(range.start, range.end) / CHUNK);
        let found = slot.map_or(0, |slot| slot.load(Ordering::Relaxed));
        if found & !COUNT == tag { found & COUNT } else { 0 }
    }

    /// The slot of a chunk, and the tag of the chunk there.
    fn slot(&self, key: u64, chunk: u64) -> (Option<&AtomicU32>, u32) {
        let mixed = mix(key.rotate_left(40) ^ chunk);
        (self.slots.get(mixed as usize % SLOTS), (mixed >> 32) as u32 & !COUNT)
    }
}

/// The finalizer of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_reader_is_told_apart_from_the_first() {
        let counts = AccessCounts::new();
        let pieces = |shift: u64| {
            (0..200u64).map(move |piece| piece * 1_000_000 + shift).map(|start| start..start + 1_000_000)
        };
        let known = |shift, run| pieces(shift).filter(|piece| counts.add(run, piece) > 0).count();
        assert!(known(0, 1) < 5, "a reader that goes forward");
        assert!(pieces(300_000).all(|piece| counts.count(1, &piece) < 2));
        assert!(known(300_000, 1) > 180, "one that follows it, in other steps");
        assert!(pieces(300_000).filter(|piece| counts.count(1, piece) > 1).count() > 180);
        assert!(known(0, 2) < 5, "one of another run");
    }
}
