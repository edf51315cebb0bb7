//! `ottla log salvage`: copies what can be read of a damaged folder into a new one.

use super::FolderArgument;
use super::line::counted;
use crate::cli::failure::Failure;
use crate::cli::out::Out;
use clap::Args;
use ottla_salvage::{Folder, OffsetRange, OrphanTransaction, Remaining, write_folder};
use ottla_types::TopicPartition;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Copy what can be read of a damaged data folder into a new one, and list the offsets that are lost.
///
/// The old folder is not changed. Offsets stay as they are: where records are lost the new folder has a gap, which
/// readers pass over. The exit status is 0 if nothing is lost, 1 if something is, 2 if nothing could be written.
#[derive(Args)]
pub(super) struct Salvage {
    #[command(flatten)]
    folder: FolderArgument,
    /// The new folder, which must not exist or must be empty. Without it, losses are only reported.
    #[arg(long, value_name = "NEWFOLDER")]
    to: Option<PathBuf>,
    /// Write the new folder without the damaged data; by default nothing is written if anything is lost.
    #[arg(long)]
    skip_damaged: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

impl Salvage {
    pub(super) fn run(self, out: &mut Out) -> Result<(), Failure> {
        let folder = self.folder.open()?;
        let remaining = Remaining::of(&folder)?;
        let refused = remaining.is_damaged() && !self.skip_damaged;
        let to = self.to.as_deref().filter(|_| !refused);
        if let Some(to) = to {
            write_folder(&folder, &remaining, to)?;
        }
        if self.json {
            out.json(&as_json(&remaining, to.is_some()))?;
        } else {
            report(&folder, &remaining, out)?;
        }
        let lost = remaining.lost.values().flatten().map(|(from, to)| to - from + 1).sum::<i64>();
        let lost = counted(usize::try_from(lost).unwrap_or(usize::MAX), "offset");
        match (remaining.is_damaged(), to) {
            (false, _) if self.json => Ok(()),
            (false, None) => Ok(out.line("nothing is lost; give --to to write a new folder")?),
            (false, Some(to)) => Ok(out.line(format!("nothing is lost; {} can be served", to.display()))?),
            (true, Some(to)) => Err(Failure::damaged(format!(
                "{lost} are lost; {} has everything else and can be served",
                to.display()
            ))),
            (true, None) => Err(Failure::damaged(format!("{lost} are lost, and nothing was written"))
                .remedy("Give --to NEWFOLDER and --skip-damaged to leave them out.")),
        }
    }
}

fn report(folder: &Folder, remaining: &Remaining, out: &mut Out) -> Result<(), Failure> {
    if let Some(error) = folder.identity_fault() {
        out.line(format!("{error}; the segment headers say the same"))?;
    }
    for error in &remaining.unread {
        out.line(format!("cannot be read: {error}"))?;
    }
    for (at, ranges) in &remaining.lost {
        let name = remaining.names.partition(*at);
        for (from, to) in ranges {
            let there = if remaining.has_partition(*at) {
                ""
            } else {
                ", of an unknown topic: the record of its creation is lost"
            };
            out.line(format!("lost: {name} offsets {from} to {to}{there}"))?;
        }
    }
    for (kind, count) in &remaining.dropped {
        out.line(format!("left out: {count} {kind} in damaged groups, which no checksum proves"))?;
    }
    if remaining.damaged_ranges > 0 {
        out.line(
            "if a damaged group had the last records of a partition and no later entry mentions them, their loss is not listed",
        )?;
    }
    if remaining.rescued > 0 {
        let count = usize::try_from(remaining.rescued).unwrap_or(usize::MAX);
        let batches = if count == 1 { "1 batch".to_owned() } else { format!("{count} batches") };
        out.line(format!("{batches} in damaged groups were saved: their own checksums prove them"))?;
    }
    for OrphanTransaction { partition: at, producer_id: producer, first_offset: first } in remaining.orphans()
    {
        let TopicPartition { topic, partition } = at;
        out.line(format!(
            "producer {producer} has a transaction open on {}, and no transactional id will end it: once the new folder is served, run \
             ottla txn abort --topic {} --partition {partition} --start-offset {first}",
            remaining.names.partition(at),
            remaining.names.topic(topic),
        ))?;
    }
    Ok(())
}

fn as_json(remaining: &Remaining, written: bool) -> Value {
    let ranges = |(at, ranges): (&TopicPartition, &Vec<OffsetRange>)| {
        let (topic, partition) = (remaining.names.topic(at.topic), at.partition);
        let ranges = ranges.iter().map(|(from, to)| json!({ "from": from, "to": to }));
        json!({ "topic": topic, "partition": partition, "offsets": ranges.collect::<Vec<_>>() })
    };
    let orphan = |OrphanTransaction { partition: at, producer_id: producer, first_offset: first }| {
        let (topic, partition) = (remaining.names.topic(at.topic), at.partition);
        json!({ "topic": topic, "partition": partition, "producer_id": producer, "start_offset": first })
    };
    json!({
        "lost": remaining.lost.iter().map(ranges).collect::<Vec<_>>(),
        "dropped": remaining.dropped,
        "rescued_batches": remaining.rescued,
        "unread": remaining.unread,
        "open_transactions": remaining.orphans().into_iter().map(orphan).collect::<Vec<_>>(),
        "written": written,
    })
}
