//! What readers had of runs lately, roughly. Filling the page cache can cost more than a read around it, and most of what is
//! read from a run is read once. So the first reader of a stretch goes around the cache, the second one fills it.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that are remembered as one.
const CHUNK: u64 = 64 << 10;
/// Chunks that are remembered: those of 4 GiB.
const SLOTS: usize = 1 << 16;

/// A table without order: a chunk that falls on the slot of another one takes its place.
pub(crate) struct Touched {
    slots: Box<[AtomicU32]>,
}

impl Touched {
    pub(crate) fn new() -> Touched {
        Touched { slots: (0..SLOTS).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Notes a read, and tells whether the middle of it was read before.
    pub(crate) fn touch(&self, run: u64, range: &Range<u64>) -> bool {
        let middle = u64::midpoint(range.start, range.end) / CHUNK;
        let mut known = false;
        for chunk in range.start / CHUNK..range.end.div_ceil(CHUNK) {
            let mixed = mix(run.rotate_left(40) ^ chunk);
            // Never zero, which stands for nothing.
            let tag = (mixed >> 32) as u32 | 1;
            let slot = self.slots.get(mixed as usize % SLOTS);
            let before = slot.map_or(0, |slot| slot.swap(tag, Ordering::Relaxed));
            known |= chunk == middle && before == tag;
        }
        known
    }
}

/// Spreads what differs in a few bits over all.
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
        let touched = Touched::new();
        let pieces = |shift: u64| {
            (0..200u64).map(move |piece| piece * 1_000_000 + shift).map(|start| start..start + 1_000_000)
        };
        let known = |shift, run| pieces(shift).filter(|piece| touched.touch(run, piece)).count();
        assert!(known(0, 1) < 5, "a reader that goes forward");
        assert!(known(300_000, 1) > 180, "one that follows it, in other steps");
        assert!(known(0, 2) < 5, "one of another run");
    }
}
