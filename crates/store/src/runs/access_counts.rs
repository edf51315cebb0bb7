//! What readers had of runs and segments lately, roughly. Filling the page cache costs more than a read around it, and most of what
//! is read of a run is read once. So the first reader of a stretch of a run goes around the cache, the second one fills it. What lies
//! in the log is young, and its first reader fills the cache for the others.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that are remembered as one.
const CHUNK: u64 = 64 << 10;
/// Chunks that are remembered: those of 4 GiB.
const SLOTS: usize = 1 << 16;
/// The part of a slot that counts, from one on.
const TIMES: u32 = 3;

/// A table without order: a chunk that falls on the slot of another one takes its place.
pub(crate) struct AccessCounts {
    slots: Box<[AtomicU32]>,
}

impl AccessCounts {
    pub(crate) fn new() -> AccessCounts {
        AccessCounts { slots: (0..SLOTS).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Notes a read, and tells how often the middle of it was read before, up to three times.
    pub(crate) fn touch(&self, run: u64, range: &Range<u64>) -> u32 {
        let times = self.times(run, range);
        for chunk in range.start / CHUNK..range.end.div_ceil(CHUNK) {
            if let (Some(slot), tag) = self.place(run, chunk) {
                let before = slot.load(Ordering::Relaxed);
                let times = if before & !TIMES == tag { before & TIMES } else { 0 };
                slot.store(tag | (times + 1).min(TIMES), Ordering::Relaxed);
            }
        }
        times
    }

    /// How often the middle of what is to be read was read before.
    pub(crate) fn times(&self, run: u64, range: &Range<u64>) -> u32 {
        let (slot, tag) = self.place(run, u64::midpoint(range.start, range.end) / CHUNK);
        let found = slot.map_or(0, |slot| slot.load(Ordering::Relaxed));
        if found & !TIMES == tag { found & TIMES } else { 0 }
    }

    /// Where a chunk is remembered, and what stands for it there.
    fn place(&self, run: u64, chunk: u64) -> (Option<&AtomicU32>, u32) {
        let mixed = mix(run.rotate_left(40) ^ chunk);
        (self.slots.get(mixed as usize % SLOTS), (mixed >> 32) as u32 & !TIMES)
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
        let touched = AccessCounts::new();
        let pieces = |shift: u64| {
            (0..200u64).map(move |piece| piece * 1_000_000 + shift).map(|start| start..start + 1_000_000)
        };
        let known = |shift, run| pieces(shift).filter(|piece| touched.touch(run, piece) > 0).count();
        assert!(known(0, 1) < 5, "a reader that goes forward");
        assert!(pieces(300_000).all(|piece| touched.times(1, &piece) < 2));
        assert!(known(300_000, 1) > 180, "one that follows it, in other steps");
        assert!(pieces(300_000).filter(|piece| touched.times(1, piece) > 1).count() > 180);
        assert!(known(0, 2) < 5, "one of another run");
    }
}
