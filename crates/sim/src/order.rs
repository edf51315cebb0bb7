//! Events that the machine is exposed to, and the ways in which the broker ends.

use ottla_store::testing::{Fault, NameEvent};

/// An event that the machine is exposed to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// The broker ends soon: its state is dumped at every write.
    Watch,
    /// The broker ends in this way.
    End(Fate),
    /// This fault occurs at the disk after this many calls.
    Disk(u64, Fault),
    /// Power is lost this many calls after a file whose name begins so is created or removed.
    CrashAtFile(NameEvent, &'static str, u64),
    /// The broker ends in this way when the next snapshot is complete.
    EndAtSnapshot(Fate),
    /// The disk has this many bytes free.
    Fill(u64),
    /// The disk is no longer full.
    Empty,
    /// The broker does nothing for this many milliseconds.
    Pause(u64),
}

/// How a life of the broker ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The machine loses power.
    Power,
    /// The process is killed.
    Killed,
    /// The process stops cleanly.
    Stopped,
    /// The process stops cleanly, and the run ends.
    Over,
}
