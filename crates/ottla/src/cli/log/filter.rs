//! Which entries are shown.

use clap::Args;
use ottla_layout::explain::{FieldSpan, FieldValue};
use ottla_layout::record::KINDS;
use ottla_salvage::TopicNames;
use ottla_types::record::{LogRecord, PartitionRecord};
use ottla_types::{Offset, TopicId, TopicPartition};

/// Which entries are shown; all by default.
#[derive(Args)]
pub(super) struct Filter {
    /// Only entries about this topic, given by name or id.
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
    /// Only entries about this partition of --topic.
    #[arg(long, value_name = "N", requires = "topic")]
    partition: Option<i32>,
    /// Only batches, markers and parts whose last offset is at least this one.
    #[arg(long, value_name = "OFFSET", requires = "partition")]
    from: Option<i64>,
    /// Only this kind of entry, such as BatchAppended or TopicCreated; may be repeated.
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Vec<&'static str>,
}

fn kind(text: &str) -> Result<&'static str, String> {
    let found = KINDS.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
    found.map(|(_, name)| *name).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|(_, name)| *name).collect();
        format!("there are {}", names.join(", "))
    })
}

impl Filter {
    /// True if some entries are not shown.
    pub(super) fn is_set(&self) -> bool {
        self.topic.is_some() || !self.kind.is_empty()
    }

    /// True if a part, or a batch of one, is shown that ends at this offset.
    pub(super) fn fits_part(&self, at: TopicPartition, last: Offset, names: &TopicNames) -> bool {
        self.kind.is_empty()
            && self.topic.as_ref().is_none_or(|topic| names.is(at.topic, topic))
            && self.partition.is_none_or(|partition| partition == at.partition)
            && self.from.is_none_or(|from| last.0 >= from)
    }

    /// True if an entry is shown.
    pub(super) fn fits(&self, record: &LogRecord, pieces: &[FieldSpan], names: &TopicNames) -> bool {
        let kind = pieces.first().map(|piece| &piece.value);
        let wanted = |name: &&str| matches!(kind, Some(FieldValue::Named(_, found)) if found == name);
        if !self.kind.is_empty() && !self.kind.iter().any(wanted) {
            return false;
        }
        let Some(topic) = &self.topic else { return true };
        let concerned = concerned(pieces);
        let fits = |(id, partition): &(TopicId, Option<i32>)| {
            names.is(*id, topic) && (self.partition.is_none() || *partition == self.partition)
        };
        let last = last_offset(record);
        concerned.iter().any(fits) && self.from.is_none_or(|from| last.is_none_or(|last| last >= from))
    }
}

/// The topics that an entry names, with the partition where it names one.
fn concerned(pieces: &[FieldSpan]) -> Vec<(TopicId, Option<i32>)> {
    let number = |piece: &FieldSpan| match piece.value {
        FieldValue::Number(number) => i32::try_from(number).ok(),
        _ => None,
    };
    let topics = pieces.iter().enumerate().filter_map(|(id, piece)| match piece.value {
        FieldValue::Topic(topic) => {
            let next = pieces.get(id + 1).filter(|next| next.name == "partition");
            Some((topic, next.and_then(number)))
        }
        _ => None,
    });
    topics.collect()
}

/// The last offset that an entry is about, if it is about offsets.
fn last_offset(record: &LogRecord) -> Option<i64> {
    Some(match record {
        LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) => {
            batch.base_offset.plus(i64::from(batch.summary.last_offset_delta)).0
        }
        LogRecord::Partitions(PartitionRecord::MarkerAppended(marker)) => marker.offset.0,
        LogRecord::Partitions(PartitionRecord::PartsInstalled(installed)) => installed.to.0,
        LogRecord::Partitions(PartitionRecord::BatchesRestored(row)) => row.batches.last()?.last_offset.0,
        LogRecord::Partitions(PartitionRecord::PartsRestored(row)) => row.parts.last()?.last_offset.0,
        _ => return None,
    })
}
