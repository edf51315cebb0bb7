//! Keys of records as digests of 128 bits.

use crate::Randomness;
use crate::host::rewrite::error::JobError;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;

/// Makes digests of keys. The secret is this job's own: no producer can search for two keys
/// with one digest, of which compaction would keep one.
#[derive(Clone, Copy)]
pub(super) struct Digests {
    secret: [u8; 16],
}

impl std::fmt::Debug for Digests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Digests").finish_non_exhaustive()
    }
}

impl Digests {
    /// With a new secret; always the same for a host that is `driven`, whose runs must repeat.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(super) fn new(driven: bool) -> Result<Digests, JobError> {
        let mut secret = [0; 16];
        if !driven {
            let filled = Randomness::default().fill(&mut secret);
            filled.map_err(|error| JobError::Secret(error.to_string()))?;
        }
        Ok(Digests { secret })
    }

    pub(super) fn of(&self, key: &[u8]) -> u128 {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        hasher.write(key);
        hasher.finish128().as_u128()
    }
}
