//! Random numbers that follow from a seed, so that a run can be repeated.

use std::ops::Range;

/// A stream of numbers. Streams that were forked from one seed are independent of each other.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed ^ 0x6f74_746c_6173_696d)
    }

    /// A new stream, independent of this one from here on.
    pub(crate) fn fork(&mut self) -> Random {
        Random(self.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in the range, its first if it is empty.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        let width = range.end.saturating_sub(range.start).max(1);
        range.start + self.next() % width
    }

    /// True with a probability of `many` in a thousand.
    pub(crate) fn per_mille(&mut self, many: u64) -> bool {
        self.next() % 1000 < many
    }

    /// One of the items.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[(self.next() % items.len() as u64) as usize]
    }
}
