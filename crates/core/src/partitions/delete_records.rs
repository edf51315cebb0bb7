//! DeleteRecords: the log of a partition starts later.

use super::Partitions;
use super::command::{DeleteRecords, DeleteRecordsError, DeleteRecordsReply};
use crate::catalog::Catalog;
use crate::effect::Effects;
use ottla_types::record::LogStartMoved;
use ottla_types::{Offset, TopicPartition};

impl Partitions {
    pub(super) fn delete_records(
        &self,
        ask: &DeleteRecords,
        catalog: &Catalog,
        out: &mut Effects,
    ) -> DeleteRecordsReply {
        let delete = |(at, offset): &(TopicPartition, Offset)| self.delete_before(*at, *offset, catalog, out);
        ask.partitions.iter().map(delete).collect()
    }

    /// The first offset that can be read afterwards.
    fn delete_before(
        &self,
        at: TopicPartition,
        offset: Offset,
        catalog: &Catalog,
        out: &mut Effects,
    ) -> Result<Offset, DeleteRecordsError> {
        let topic = catalog.topic(at.topic).ok_or(DeleteRecordsError::UnknownPartition)?;
        let partition = self.get(at).ok_or(DeleteRecordsError::UnknownPartition)?;
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
