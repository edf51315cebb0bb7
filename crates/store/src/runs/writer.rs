//! Writes a run: large aligned writes to a blob that is published when everything is durable.
//!
//! ```text
//!   begin_part ─▶ push … ─▶ end_part ─▶ begin_part … ─▶ finish: table, footer, seal, publish
//!   dropped before, or after an error: nothing remains
//! ```

use crate::blob::{BlobWriter, Existing};
use crate::buffer::{Buffer, Pool};
use crate::names::run_name;
use crate::runs::error::RunError;
use crate::runs::files::RunFiles;
use ottla_layout::run::{BatchHead, DirectoryWriter, RunFooter, RunId, RunRow, SMALL_PART};
use ottla_types::record::RunPart;
use ottla_types::{Millis, Offset, TopicPartition};
use std::io;
use std::sync::Arc;

/// Bytes that are written at once.
const PIECE: usize = 1 << 20;
/// Bytes after which the file is synced, so that it never has many unsynced bytes.
const UNSYNCED: u64 = 32 << 20;

/// The fields of a part that the caller sets when the part ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartEnd {
    /// Last offset of the part: that of its last batch, or later if compaction took batches out after it.
    pub last_offset: Offset,
    /// [`RunPart::clean`].
    pub clean: bool,
    /// [`RunPart::horizon`].
    pub horizon: Millis,
}

/// The part that takes batches.
struct OpenPart {
    partition: TopicPartition,
    base_offset: Offset,
    /// No batch may begin before it.
    next_offset: Offset,
    data: u64,
    directory: DirectoryWriter,
    max_timestamp: Millis,
    appended: Millis,
}

/// Writes one run. Dropping it unfinished, or after an error, leaves no file.
///
/// Holds a buffer of 1 MiB, the directory of one part (a 145th of its bytes at most) and the table (92 bytes a part).
pub struct RunWriter {
    id: RunId,
    blob: Box<dyn BlobWriter>,
    buffer: Buffer,
    /// Bytes written from the buffer.
    written: u64,
    synced: u64,
    table: Vec<u8>,
    /// No part may begin before this.
    after: Option<(TopicPartition, Offset)>,
    open: Option<OpenPart>,
    /// Dropped last: nothing remains of the blob when the number may be used again.
    number: NumberInUse,
}

/// The number of a run that is being written.
struct NumberInUse {
    files: Arc<RunFiles>,
    number: u64,
    /// The run exists now.
    written: bool,
}

impl Drop for NumberInUse {
    fn drop(&mut self) {
        self.files.end(self.number, self.written);
    }
}

impl std::fmt::Debug for RunWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunWriter").field("run", &self.id.run).finish_non_exhaustive()
    }
}

impl RunWriter {
    pub(crate) fn create(
        files: &Arc<RunFiles>,
        pool: &Arc<Pool>,
        number: u64,
    ) -> Result<RunWriter, RunError> {
        let file = run_name(number);
        if !files.begin(number) {
            return Err(RunError::InvalidInput { file, what: "the number is in use".to_owned() });
        }
        let in_use = NumberInUse { files: Arc::clone(files), number, written: false };
        let created = files.blobs.create(&file);
        let blob = created.map_err(|source| RunError::Medium { file, offset: 0, source })?;
        let id = RunId::of(&files.identity, number);
        let mut buffer = pool.take(PIECE);
        buffer.write(&id.header());
        Ok(RunWriter {
            id,
            blob,
            buffer,
            written: 0,
            synced: 0,
            table: Vec::new(),
            after: None,
            open: None,
            number: in_use,
        })
    }

    /// The run's number.
    pub fn number(&self) -> u64 {
        self.id.run
    }

    /// Bytes of the file so far.
    pub fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// True until a part was begun.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.open.is_none()
    }

    /// Begins a part of `partition` at `base_offset`: its first batch, or earlier if compaction took batches out before
    /// it. Parts come in the order of topic id, partition, offset.
    pub fn begin_part(&mut self, partition: TopicPartition, base_offset: Offset) -> Result<(), RunError> {
        if self.open.is_some() {
            return Err(self.invalid("the part before is not ended"));
        }
        if self.after.is_some_and(|after| (partition, base_offset) < after) {
            return Err(self.invalid("parts must come in order"));
        }
        self.open = Some(OpenPart {
            partition,
            base_offset,
            next_offset: base_offset,
            data: self.len(),
            directory: DirectoryWriter::default(),
            max_timestamp: Millis::NONE,
            appended: Millis::NONE,
        });
        Ok(())
    }

    /// Adds a batch to the part, as clients see it, and notes when it was appended to the log. Batches come in order.
    pub fn push(&mut self, batch: &[u8], appended: Millis) -> Result<(), RunError> {
        let head = BatchHead::read(batch).map_err(|fault| self.invalid(&fault.to_string()))?;
        if head.size != batch.len() {
            return Err(self.invalid("there is more than one batch"));
        }
        let place = self.len();
        let Some(open) = &mut self.open else {
            return Err(self.invalid("no part was begun"));
        };
        if head.base_offset < open.next_offset {
            let what = format!("a batch at offset {}, not {}", head.base_offset.0, open.next_offset.0);
            return Err(self.invalid(&what));
        }
        open.directory.push(place, &head, batch);
        open.next_offset = head.last_offset.plus(1);
        open.max_timestamp = open.max_timestamp.max(head.max_timestamp);
        open.appended = open.appended.max(appended);
        self.write(batch)
    }

    /// Ends the part; nothing if no batch was pushed.
    pub fn end_part(&mut self, end: PartEnd) -> Result<Option<RunPart>, RunError> {
        let Some(open) = self.open.take() else {
            return Err(self.invalid("no part was begun"));
        };
        if end.last_offset < Offset(open.next_offset.0.saturating_sub(1)) {
            return Err(self.invalid("the part ends before its last batch"));
        }
        self.after = Some((open.partition, end.last_offset.plus(1)));
        let directory = self.len();
        let bytes = directory - open.data;
        if bytes == 0 {
            return Ok(None);
        }
        let (pages, count) = open.directory.finish(&self.id, directory, bytes <= SMALL_PART);
        self.write(&pages)?;
        let part = RunPart {
            run: self.id.run,
            base_offset: open.base_offset,
            last_offset: end.last_offset,
            bytes,
            max_timestamp: open.max_timestamp,
            appended: open.appended,
            data: open.data,
            directory,
            pages: count,
            clean: end.clean,
            horizon: end.horizon,
        };
        RunRow { partition: open.partition, part }.encode(&mut self.table);
        Ok(Some(part))
    }

    /// Writes the table and the footer, makes the run durable and publishes it. Records can refer to it when this
    /// returns its size.
    pub fn finish(mut self) -> Result<u64, RunError> {
        if self.open.is_some() {
            return Err(self.invalid("the last part is not ended"));
        }
        let table = std::mem::take(&mut self.table);
        let footer = RunFooter::of(self.len(), &table);
        self.write(&table)?;
        self.buffer.pad();
        self.write(&self.id.footer(&footer))?;
        self.flush()?;
        self.blob.seal().map_err(|source| self.medium(source))?;
        self.blob.publish(Existing::Keep).map_err(|source| self.medium(source))?;
        self.number.written = true;
        Ok(footer.length)
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), RunError> {
        while !bytes.is_empty() {
            let free = PIECE - self.buffer.len();
            let (now, later) = bytes.split_at(free.min(bytes.len()));
            self.buffer.write(now);
            bytes = later;
            if self.buffer.len() == PIECE {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RunError> {
        self.blob.append(self.buffer.as_ref()).map_err(|source| self.medium(source))?;
        self.written += self.buffer.len() as u64;
        self.buffer.resize(0);
        if self.written - self.synced >= UNSYNCED {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), RunError> {
        self.blob.sync().map_err(|source| self.medium(source))?;
        self.synced = self.written;
        Ok(())
    }

    fn medium(&self, source: io::Error) -> RunError {
        RunError::Medium { file: run_name(self.id.run), offset: self.written, source }
    }

    fn invalid(&self, what: &str) -> RunError {
        RunError::InvalidInput { file: run_name(self.id.run), what: what.to_owned() }
    }
}
