//! Which runs hold something that can be read, and how much.

use ottla_types::record::RunPart;
use std::collections::BTreeMap;

/// What a run holds that can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunUse {
    /// Its parts that partitions refer to.
    pub parts: u64,
    /// Bytes of their batches.
    pub bytes: u64,
}

/// The runs that parts refer to.
#[derive(Debug, Default)]
pub(super) struct Runs {
    used: BTreeMap<u64, RunUse>,
}

impl Runs {
    pub(super) fn add(&mut self, part: &RunPart) {
        let used = self.used.entry(part.run).or_default();
        used.parts += 1;
        used.bytes += part.bytes;
    }

    pub(super) fn remove(&mut self, part: &RunPart) {
        let Some(used) = self.used.get_mut(&part.run) else { return };
        used.parts -= 1;
        used.bytes -= part.bytes;
        if used.parts == 0 {
            self.used.remove(&part.run);
        }
    }

    pub(super) fn get(&self, run: u64) -> Option<RunUse> {
        self.used.get(&run).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, RunUse)> {
        self.used.iter().map(|(run, used)| (*run, *used))
    }
}
