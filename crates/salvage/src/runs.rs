//! The runs of a folder: their parts, and the batches in those.

use crate::remaining::state;
use crate::{Damage, SalvageError};
use ottla_layout::run::RunRow;
use ottla_store::inspect::Folder;
use ottla_store::{PartBatch, PartScan};
use ottla_types::record::RunPart;
use ottla_types::{Offset, TopicPartition};
use std::collections::BTreeSet;

/// A run.
#[derive(Debug)]
pub struct Run {
    /// Name of its file.
    pub file: String,
    /// Its parts, or why the table of them cannot be read.
    pub parts: Result<Vec<Part>, Damage>,
}

/// A part of a run: consecutive batches of one partition.
#[derive(Debug)]
pub struct Part {
    /// Whose batches it has.
    pub partition: TopicPartition,
    /// Its offsets, and where it is in the file.
    pub part: RunPart,
    /// True if the log refers to it. The space of other parts may have been freed, so their batches are not read.
    pub is_referenced: bool,
}

/// An item of a part, in order.
#[derive(Debug)]
pub enum PartItem {
    /// A batch, whole.
    Batch(PartBatch),
    /// Batches that cannot be read; reading continues after them.
    Damage(Damage),
}

/// The runs of a folder, in order. The log is replayed to know which parts it refers to.
///
/// # Errors
/// The medium fails.
pub fn runs(
    folder: &Folder,
) -> Result<impl Iterator<Item = Result<Run, SalvageError>> + use<'_>, SalvageError> {
    let runs = folder.runs();
    let numbers = runs.list();
    let referenced = if numbers.is_empty() { BTreeSet::new() } else { referenced(folder)? };
    Ok(numbers.into_iter().map(move |number| {
        let file = Folder::run_name(number);
        let parts = match runs.parts(number) {
            Err(error) => Err(Damage::of_run(&file, error)?),
            Ok(rows) => Ok(rows.into_iter().map(|row| part(row, &referenced)).collect()),
        };
        Ok(Run { file, parts })
    }))
}

/// Parts that the log refers to: run, partition, first offset.
type Referenced = BTreeSet<(u64, TopicPartition, Offset)>;

fn referenced(folder: &Folder) -> Result<Referenced, SalvageError> {
    let shard = state(folder)?;
    let partitions = shard.partitions().iter();
    let parts = partitions.flat_map(|(at, partition)| {
        partition.parts().iter().map(move |part| (part.run, at, part.base_offset))
    });
    Ok(parts.collect())
}

fn part(row: RunRow, referenced: &Referenced) -> Part {
    let RunRow { partition, part } = row;
    let is_referenced = referenced.contains(&(part.run, partition, part.base_offset));
    Part { partition, part, is_referenced }
}

/// The batches of a part, in order. An error ends them: the medium failed.
pub fn batches(folder: &Folder, part: &Part) -> impl Iterator<Item = Result<PartItem, SalvageError>> + use<> {
    let file = Folder::run_name(part.part.run);
    let (mut scan, mut failure) = match folder.runs().scan(&part.part) {
        Ok(scan) => (Some(scan), None),
        Err(error) => (None, Some(error)),
    };
    std::iter::from_fn(move || {
        if let Some(error) = failure.take() {
            return Some(Damage::of_run(&file, error).map(PartItem::Damage));
        }
        match scan.as_mut().map(PartScan::next_batch)? {
            Ok(batch) => batch.map(|batch| Ok(PartItem::Batch(batch))),
            Err(error) => {
                let damage = Damage::of_run(&file, error).map(PartItem::Damage);
                if damage.is_err() {
                    scan = None;
                }
                Some(damage)
            }
        }
    })
}
