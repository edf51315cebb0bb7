//! DeleteRecords: the log of a partition starts later.

use crate::effect::Effects;
use crate::shard::Shard;
use ottla_types::record::LogStartMoved;
use ottla_types::{Offset, TopicPartition};

/// Deletes the records of partitions before an offset each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRecords {
    /// Partition and its new first offset; -1 for the high watermark.
    pub partitions: Vec<(TopicPartition, Offset)>,
}

/// For each partition of [`DeleteRecords`] the first offset that can be read afterwards, in order.
pub type DeleteRecordsReply = Vec<Result<Offset, DeleteRecordsError>>;

/// Why records were not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteRecordsError {
    /// No such partition.
    UnknownPartition,
    /// The offset is negative or beyond the high watermark.
    OutOfRange,
    /// The topic's cleanup policy does not delete.
    NotByPolicy,
}

impl Shard {
    pub(crate) fn delete_records(&self, ask: &DeleteRecords, out: &mut Effects) -> DeleteRecordsReply {
        let delete = |(at, offset): &(TopicPartition, Offset)| self.delete_before(*at, *offset, out);
        ask.partitions.iter().map(delete).collect()
    }

    /// The first offset that can be read afterwards.
    fn delete_before(
        &self,
        at: TopicPartition,
        offset: Offset,
        out: &mut Effects,
    ) -> Result<Offset, DeleteRecordsError> {
        let topic = self.catalog.topic(at.topic).ok_or(DeleteRecordsError::UnknownPartition)?;
        let partition = self.partitions.get(at).ok_or(DeleteRecordsError::UnknownPartition)?;
        if !topic.settings.delete {
            return Err(DeleteRecordsError::NotByPolicy);
        }
        let log_start = if offset == Offset::NONE { partition.high_watermark() } else { offset };
        if log_start < Offset(0) || log_start > partition.high_watermark() {
            return Err(DeleteRecordsError::OutOfRange);
        }
        if log_start <= partition.log_start() {
            return Ok(partition.log_start());
        }
        out.append(LogStartMoved { partition: at, log_start });
        Ok(log_start)
    }
}
