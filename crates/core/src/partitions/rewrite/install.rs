//! Whether what was rewritten still fits.

use crate::effect::Effects;
use crate::partitions::batch_size::size;
use crate::partitions::{Partition, Partitions};
use ottla_types::record::{PartsInstalled, RunPart};
use ottla_types::{Offset, TopicPartition};

/// Parts that were written, to be taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallParts {
    /// For each partition what it gets.
    pub installs: Vec<Install>,
}

/// The parts that are to hold a range of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// The partition.
    pub partition: TopicPartition,
    /// First offset of what was rewritten.
    pub from: Offset,
    /// Last offset of what was rewritten.
    pub to: Offset,
    /// Bytes of what was rewritten, as the plan found it.
    pub bytes: u64,
    /// What was written, by offset.
    pub parts: Vec<RunPart>,
}

impl Partitions {
    /// Takes in what still fits. What does not is left out: nothing refers to it then, and its run goes as any that is
    /// dead.
    pub(crate) fn install_parts(&self, command: InstallParts, out: &mut Effects) {
        for install in command.installs {
            let partition = self.get(install.partition);
            if let Some(installed) = partition.and_then(|partition| fit(partition, install)) {
                out.append(installed);
            }
        }
    }
}

/// The record, if the range holds what the plan found in it, but for what the start of the log has passed since.
fn fit(partition: &Partition, install: Install) -> Option<PartsInstalled> {
    let Install { partition: at, from, to, bytes, parts } = install;
    let start = partition.log_start();
    let held = partition.held(from, to);
    let unchanged = if start <= from { held == bytes } else { held > 0 && held <= bytes };
    let parts = parts.into_iter().filter(|part| part.last_offset >= start).collect();
    let installed = PartsInstalled { partition: at, from, to, parts };
    (unchanged && start <= to && partition.takes(&installed)).then_some(installed)
}

impl Partition {
    /// Bytes of what begins between two offsets, inclusive.
    fn held(&self, from: Offset, to: Offset) -> u64 {
        let parts = self.index.parts_from(from).iter().take_while(|part| part.base_offset <= to);
        let tail = self.index.tail().from(from).take_while(|batch| batch.base_offset <= to);
        parts.map(|part| part.bytes).sum::<u64>() + tail.map(|batch| u64::from(size(&batch))).sum::<u64>()
    }
}
