//! Where each key was last seen, in bounded memory.

use ottla_types::Offset;

/// Bytes of a slot: 16 of the key's digest, 8 of the offset.
const SLOT: usize = 24;
/// The table grows by doubling from this many slots on.
const FEWEST: usize = 1024;
const FREE: i64 = -1;

/// The last offset of each key. Keys are known by a digest of 128 bits, which the caller makes with a secret of its
/// own: no producer can search for two keys with one digest, and a chance collision is negligible.
#[derive(Debug)]
pub struct Keys {
    /// Open addressing, a digest in two halves and its offset; always a power of two, at most three quarters full.
    slots: Vec<(u64, u64, i64)>,
    used: usize,
    most: usize,
}

impl Keys {
    /// No keys yet, and room for as many as fit into `bytes`.
    pub fn within(bytes: usize) -> Keys {
        let slots = (bytes / SLOT).max(FEWEST);
        let most = if slots.is_power_of_two() { slots } else { slots.next_power_of_two() / 2 };
        Keys { slots: Vec::new(), used: 0, most }
    }

    /// How many keys are known.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether no key is known.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The most keys that fit.
    pub fn room(&self) -> usize {
        self.most / 4 * 3
    }

    /// Notes that a key is at this offset, which is larger than any noted for it before. False if there is no room for
    /// one more key.
    pub fn note(&mut self, digest: u128, offset: Offset) -> bool {
        if self.used == self.slots.len() / 4 * 3 && !self.grow() {
            return self.replace(digest, offset);
        }
        let place = self.place(digest);
        let (high, low) = halves(digest);
        let Some(slot) = self.slots.get_mut(place) else { return false };
        self.used += usize::from(slot.2 == FREE);
        *slot = (high, low, offset.0);
        true
    }

    /// The last offset noted for a key.
    pub fn last(&self, digest: u128) -> Option<Offset> {
        let slot = self.slots.get(self.place(digest))?;
        (slot.2 != FREE).then_some(Offset(slot.2))
    }

    fn replace(&mut self, digest: u128, offset: Offset) -> bool {
        let place = self.place(digest);
        match self.slots.get_mut(place) {
            Some(slot) if slot.2 != FREE => slot.2 = offset.0,
            _ => return false,
        }
        true
    }

    /// The slot that has the digest, or would take it.
    fn place(&self, digest: u128) -> usize {
        let (high, low) = halves(digest);
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = low as usize & mask;
        while let Some(slot) = self.slots.get(at) {
            if slot.2 == FREE || (slot.0, slot.1) == (high, low) {
                break;
            }
            at = (at + 1) & mask;
        }
        at
    }

    fn grow(&mut self) -> bool {
        let slots = (self.slots.len() * 2).max(FEWEST);
        if slots > self.most {
            return false;
        }
        let old = std::mem::replace(&mut self.slots, vec![(0, 0, FREE); slots]);
        for slot in old.into_iter().filter(|slot| slot.2 != FREE) {
            let place = self.place(u128::from(slot.0) << 64 | u128::from(slot.1));
            if let Some(free) = self.slots.get_mut(place) {
                *free = slot;
            }
        }
        true
    }
}

fn halves(digest: u128) -> (u64, u64) {
    ((digest >> 64) as u64, digest as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

        #[test]
        fn a_table_of_keys_is_a_map_with_a_bound(keys in prop::collection::vec(0u128..3000, 0..6000)) {
            let mut table = Keys::within(2048 * SLOT);
            let mut map = BTreeMap::new();
            for (offset, key) in (0..).map(Offset).zip(keys) {
                // Keys that differ in the upper half alone, and meet in the table.
                let digest = (key << 64) | (key % 7);
                let fits = map.len() < table.room() || map.contains_key(&digest);
                prop_assert_eq!(table.note(digest, offset), fits);
                if fits {
                    map.insert(digest, offset);
                }
            }
            prop_assert_eq!(table.len(), map.len());
            for key in 0..3000 {
                let digest = (key << 64) | (key % 7);
                prop_assert_eq!(table.last(digest), map.get(&digest).copied());
            }
        }
    }
}
