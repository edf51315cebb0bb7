//! A snapshot that is taken in pieces while the log grows.

use ottla_core::{RecordPosition, Shard};
use ottla_types::record::{LogRecord, SnapshotUnit};

/// The pieces so far, each with the number of records in the log when it was taken.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    taken: Vec<(usize, Vec<LogRecord>)>,
    reached: Option<SnapshotUnit>,
}

impl Pieces {
    /// Takes the next piece, unless the snapshot is whole.
    pub(crate) fn take(&mut self, shard: &Shard, records: usize, most: usize) {
        if !self.are_all() {
            let (rows, reached) = shard.snapshot_piece(self.reached.as_ref(), most);
            self.taken.push((records, rows));
            self.reached = Some(reached);
        }
    }

    pub(crate) fn are_all(&self) -> bool {
        self.reached == Some(SnapshotUnit::All)
    }

    /// Restores the pieces between the records of the log, from the first piece on.
    pub(crate) fn restore(&self, shard: &mut Shard, log: &[(RecordPosition, LogRecord)]) {
        let mut at = self.taken.first().map_or(0, |(records, _)| *records);
        for (records, rows) in &self.taken {
            log[at..*records].iter().for_each(|(at, record)| shard.apply(*at, record));
            rows.iter().for_each(|row| shard.restore(row));
            at = *records;
        }
        log[at..].iter().for_each(|(at, record)| shard.apply(*at, record));
    }
}
