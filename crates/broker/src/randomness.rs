//! Where the random parts of ids come from: the system, or a seed in runs that must repeat.

use std::sync::{Arc, Mutex, PoisonError};

/// The system gives no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("no random bytes for an id: {0}")]
pub(crate) struct NoRandomness(getrandom::Error);

/// A source of random bytes. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Randomness(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    Seeded(Arc<Mutex<u64>>),
}

impl Randomness {
    /// A source that gives the same bytes for the same seed: for simulation, never for a broker that others can reach.
    pub fn seeded(seed: u64) -> Randomness {
        Randomness(Source::Seeded(Arc::new(Mutex::new(seed))))
    }

    /// Fills `bytes` with random ones.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        let Source::Seeded(state) = &self.0 else {
            return getrandom::fill(bytes).map_err(NoRandomness);
        };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = *state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let mixed = (mixed ^ (mixed >> 31)).to_le_bytes();
            chunk.copy_from_slice(&mixed[..chunk.len()]);
        }
        Ok(())
    }

    /// A random UUID of version 4.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn uuid(&self) -> Result<[u8; 16], NoRandomness> {
        let mut bytes = [0; 16];
        self.fill(&mut bytes)?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_goes_on() {
        let (one, other) = (Randomness::seeded(7), Randomness::seeded(7));
        let first = one.uuid().unwrap();
        assert_eq!(first, other.clone().uuid().unwrap());
        assert_ne!(first, one.uuid().unwrap());
        assert_eq!(one.uuid().unwrap(), {
            other.uuid().unwrap();
            other.uuid().unwrap()
        });
    }
}
