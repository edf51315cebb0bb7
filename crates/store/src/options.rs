//! The settings of a log, and the callbacks to its host.

use crate::LogFailure;
use ottla_types::LogPosition;

/// When an append counts as durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the medium has synced it: one sync for each group.
    #[default]
    Sync,
    /// When it was handed to the operating system. It survives the end of the process, but not a power failure.
    Os,
}

/// Settings of a log.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The shard whose log this is.
    pub shard: u16,
    /// Bytes of a segment, a power of two from 64 KiB to 1 GiB. Fixed when the folder is made: later values are
    /// ignored.
    pub segment_size: u64,
    /// When an append counts as durable.
    pub durability: Durability,
    /// Bytes of recent groups that are kept in memory for readers.
    pub recent: usize,
    /// Write zeros ahead of the writer, so that a sync needs no change of metadata. Useless in memory.
    pub zero_fill: bool,
    /// The log has threads of its own. Without them, work is only done in [`crate::Log::drive`].
    pub threads: bool,
    /// The random number (log id) of a new folder, for reproducible runs; `None` for a random one.
    pub log_id: Option<u64>,
}

impl Options {
    /// Settings for a disk.
    pub fn disk() -> Options {
        Options {
            shard: 0,
            segment_size: 128 << 20,
            durability: Durability::Sync,
            recent: 48 << 20,
            zero_fill: true,
            threads: true,
            log_id: None,
        }
    }

    /// Settings for memory: small segments, and no second copy of what is in memory anyway.
    pub fn memory() -> Options {
        Options { segment_size: 4 << 20, recent: 0, zero_fill: false, ..Options::disk() }
    }
}

/// Functions that the log calls, from the writer thread or from [`crate::Log::drive`]. They must not block, and must
/// not call the log.
pub struct Callbacks {
    /// Every entry that ends at or before the position is durable.
    pub on_durable: Box<dyn Fn(LogPosition) + Send + Sync>,
    /// A write or sync failed: the log has ended, and the process should.
    pub on_failure: Box<dyn Fn(&LogFailure) + Send + Sync>,
}

impl Callbacks {
    /// Callbacks that do nothing.
    pub fn none() -> Callbacks {
        Callbacks { on_durable: Box::new(|_| {}), on_failure: Box::new(|_| {}) }
    }
}

impl std::fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callbacks").finish_non_exhaustive()
    }
}
