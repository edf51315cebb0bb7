//! Disk-pressure levels. At every level the broker frees space and ends transactions.
//!
//! ```text
//!   plenty ──10 % free──▶ scarce: nothing is merged only to have fewer runs ──5 % free──▶ full: Produce is refused
//! ```
//!
//! On a large disk the limits are lower: 4 GiB and 1 GiB are enough for the broker's own needs.

use ottla_store::LogReader;
use ottla_types::Millis;

/// How long a measurement of the disk counts as current.
const BELIEVED: Millis = Millis(1000);
/// Free bytes below which space is scarce, at most.
const SCARCE: u64 = 4 << 30;
/// Free bytes below which the disk counts as full, at most.
const FULL: u64 = 1 << 30;

/// How much space there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DiskPressure {
    /// Enough.
    #[default]
    Plenty,
    /// Only work that frees space takes some.
    Scarce,
    /// No new data.
    Full,
}

/// The last measurement of the disk.
#[derive(Debug)]
pub(super) struct Space {
    reader: LogReader,
    rung: DiskPressure,
    until: Option<Millis>,
}

impl Space {
    pub(super) fn new(reader: LogReader) -> Space {
        Space { reader, rung: DiskPressure::Plenty, until: None }
    }

    /// The level now, or a moment ago.
    pub(super) fn rung(&mut self, now: Millis) -> DiskPressure {
        if self.until.is_none_or(|until| until <= now || until > now.after(BELIEVED)) {
            self.until = Some(now.after(BELIEVED));
            let seen = self.reader.free_space().ok().zip(self.reader.capacity().ok().flatten());
            let rung = seen.map_or(DiskPressure::Plenty, |(free, capacity)| rung(free, capacity));
            if std::mem::replace(&mut self.rung, rung) != rung {
                tell(rung, seen);
            }
        }
        self.rung
    }
}

fn rung(free: u64, capacity: u64) -> DiskPressure {
    if free < (capacity / 20).min(FULL) {
        DiskPressure::Full
    } else if free < (capacity / 10).min(SCARCE) {
        DiskPressure::Scarce
    } else {
        DiskPressure::Plenty
    }
}

fn tell(rung: DiskPressure, seen: Option<(u64, u64)>) {
    let free = seen.map_or(0, |(free, _)| free);
    match rung {
        DiskPressure::Plenty => tracing::info!(free, "the disk has room again"),
        DiskPressure::Scarce => {
            tracing::warn!(free, "the disk is nearly full: runs are only rewritten to free space")
        }
        DiskPressure::Full => {
            tracing::warn!(
                free,
                "the disk is full: new data is refused until there is room; make some, or delete records"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_are_shares_of_a_small_disk_and_sizes_on_a_large_one() {
        assert_eq!(rung(99, 1000), DiskPressure::Scarce);
        assert_eq!(rung(100, 1000), DiskPressure::Plenty);
        assert_eq!(rung(49, 1000), DiskPressure::Full);
        assert_eq!(rung(5 << 30, 1 << 40), DiskPressure::Plenty);
        assert_eq!(rung(2 << 30, 1 << 40), DiskPressure::Scarce);
    }
}
