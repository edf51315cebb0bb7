//! The batches of a partition that is compacted, from parts and from the log, in order.

use super::Fault;
use crate::stored::marker_bytes;
use bytes::Bytes;
use ottla_core::compaction::Compactable;
use ottla_store::{LogReader, RunError, Runs};
use ottla_types::record::{BatchPlace, StoredBatch};
use ottla_types::{Millis, Offset};
use ottla_wire::batch::Batch;
use std::io;

/// Batches of the log that are read at once, at most.
const BATCHES: usize = 64;
/// Bytes of the log that are read at once, but for one batch that is larger.
const BYTES: u64 = 1 << 20;

/// A batch that was read.
pub(super) struct ReadBatch {
    pub(super) batch: Batch,
    /// When it or a later batch was appended.
    pub(super) appended: Millis,
}

/// What a partition is read from.
pub(super) struct Sources<'a> {
    runs: Runs,
    reader: LogReader,
    of: &'a Compactable,
}

impl<'a> Sources<'a> {
    pub(super) fn new(runs: &Runs, reader: &LogReader, of: &'a Compactable) -> Sources<'a> {
        Sources { runs: runs.clone(), reader: reader.clone(), of }
    }

    /// The end of the part or batch that holds `offset`.
    pub(super) fn end_of(&self, offset: Offset) -> Offset {
        let part = self.of.parts.iter().map(|part| part.last_offset).find(|last| *last >= offset);
        part.unwrap_or(offset)
    }

    /// Passes all batches of the parts and of the log that end between `from` and `to`, inclusive, to `give`, until it
    /// returns false. Parts are read whole.
    pub(super) fn read(
        &self,
        from: Offset,
        to: Offset,
        mut give: impl FnMut(ReadBatch) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let wanted = |last: Offset| from <= last && last <= to;
        for part in self.of.parts.iter().filter(|part| wanted(part.last_offset)) {
            let mut scan = self.runs.scan(part)?;
            while let Some(found) = scan.next_batch()? {
                if !give(ReadBatch { batch: Batch::only(&found.bytes)?, appended: part.appended })? {
                    return Ok(());
                }
            }
        }
        let batches: Vec<_> = self.of.batches.iter().filter(|batch| wanted(batch.last_offset)).collect();
        let mut rest = &batches[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(at_once(rest));
            for (stored, bytes) in now.iter().zip(self.read_log(now)?) {
                let batch = Batch::only(&bytes)?;
                batch.check_crc()?;
                if !give(ReadBatch { batch, appended: stored.appended })? {
                    return Ok(());
                }
            }
            rest = later;
        }
        Ok(())
    }

    fn read_log(&self, batches: &[&StoredBatch]) -> Result<Vec<Bytes>, Fault> {
        let place = |batch: &&StoredBatch| match batch.place {
            BatchPlace::Log { position, size } => Some((position, size as usize)),
            BatchPlace::Marker(_) => None,
        };
        let places: Vec<_> = batches.iter().filter_map(place).collect();
        let mut read = self.reader.read_all(&places)?.into_iter();
        let one = |batch: &&StoredBatch| match batch.place {
            BatchPlace::Log { .. } => read.next(),
            BatchPlace::Marker(marker) => marker_bytes(&marker, batch.base_offset.0),
        };
        let all: Option<Vec<Bytes>> = batches.iter().map(one).collect();
        all.ok_or_else(|| Fault::Broken("a marker has no bytes".to_owned()))
    }
}

/// How many of the first batches are read at once.
fn at_once(batches: &[&StoredBatch]) -> usize {
    let mut bytes = 0;
    let fits = |batch: &&&StoredBatch| {
        if let BatchPlace::Log { size, .. } = batch.place {
            bytes += u64::from(size);
        }
        bytes <= BYTES
    };
    batches.iter().take(BATCHES).take_while(fits).count().max(1)
}

impl From<RunError> for Fault {
    fn from(error: RunError) -> Fault {
        match error {
            RunError::Freed { .. } => Fault::Gone,
            RunError::Medium { .. } => Fault::Reading(error.to_string()),
            RunError::Damaged { .. } | RunError::InvalidInput { .. } => Fault::Broken(error.to_string()),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::NotFound => Fault::Gone,
            _ => Fault::Reading(error.to_string()),
        }
    }
}
