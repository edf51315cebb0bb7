//! The source of the random parts of ids: the operating system, or a seed in runs that must be repeatable.

use std::sync::{Arc, Mutex, PoisonError};

/// The operating system gives no random bytes.
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
    Seeded(Arc<Mutex<fastrand::Rng>>),
}

impl Randomness {
    /// A source that gives the same bytes for the same seed. Only for simulation: its ids can be guessed.
    pub fn seeded(seed: u64) -> Randomness {
        Randomness(Source::Seeded(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)))))
    }

    /// Fills `bytes` with random values.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        let Source::Seeded(generator) = &self.0 else {
            return getrandom::fill(bytes).map_err(NoRandomness);
        };
        generator.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes);
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
