//! The size of a batch as clients see it.

use ottla_types::record::{BatchPlace, StoredBatch};

/// Size of a transaction marker's batch in bytes (T-120).
pub(super) const MARKER_BYTES: u32 = 78;

/// The size of a batch in bytes. A marker counts although its bytes are made only when it is read.
pub(crate) fn size(batch: &StoredBatch) -> u32 {
    match batch.place {
        BatchPlace::Log { size, .. } => size,
        BatchPlace::Marker(_) => MARKER_BYTES,
    }
}
