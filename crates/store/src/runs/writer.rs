//! Writes a run: large aligned writes under a temporary name, which becomes the run's name when everything is durable.

use crate::buffer::{Buffer, Pool};
use crate::files::temporary;
use crate::medium::MediumFile;
use crate::runs::error::RunError;
use crate::runs::files::{RunFiles, run_name};
use ottla_layout::run::{BatchHead, DirectoryWriter, RunFooter, RunId, RunRow, SMALL_PART};
use ottla_types::record::RunPart;
use ottla_types::{Millis, Offset, TopicPartition};
use std::io;
use std::sync::Arc;

/// Bytes that are written at once.
const PIECE: usize = 1 << 20;
/// Bytes after which what was written is synced, so that the file never waits with much of it.
const UNSYNCED: u64 = 32 << 20;

/// What the caller knows of a part when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartEnd {
    /// Last offset of the part: that of its last batch, or later if compaction took batches out behind it.
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

/// Writes one run. Dropping it unfinished, or after an error, leaves nothing behind.
///
/// Holds a buffer of 1 MiB, the directory of one part (a 145th of its bytes at most) and the table (92 bytes a part).
pub struct RunWriter {
    files: Arc<RunFiles>,
    id: RunId,
    file: Arc<dyn MediumFile>,
    buffer: Buffer,
    /// Bytes written from the buffer.
    written: u64,
    synced: u64,
    table: Vec<u8>,
    /// No part may begin before this.
    after: Option<(TopicPartition, Offset)>,
    open: Option<OpenPart>,
    /// The name to remove if the run is not finished.
    name: Option<String>,
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
        let name = temporary(&file);
        let created = files.medium.create(&name);
        let handle = created.map_err(|source| {
            files.end(number, false);
            RunError::Medium { file: name.clone(), offset: 0, source }
        })?;
        let id = RunId::of(&files.identity, number);
        let mut buffer = pool.take(PIECE);
        buffer.write(&id.header());
        Ok(RunWriter {
            files: Arc::clone(files),
            id,
            file: handle,
            buffer,
            written: 0,
            synced: 0,
            table: Vec::new(),
            after: None,
            open: None,
            name: Some(name),
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

    /// Begins a part of `partition` at `base_offset`: its first batch, or earlier if compaction took batches out before it.
    /// Parts come in the order of topic id, partition, offset.
    pub fn begin_part(&mut self, partition: TopicPartition, base_offset: Offset) -> Result<(), RunError> {
        if self.open.is_some() {
            return Err(self.refused("the part before is not ended"));
        }
        if self.after.is_some_and(|after| (partition, base_offset) < after) {
            return Err(self.refused("parts must come in order"));
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
        let head = BatchHead::read(batch).map_err(|fault| self.refused(&fault.to_string()))?;
        if head.size != batch.len() {
            return Err(self.refused("there is more than one batch"));
        }
        let place = self.len();
        let Some(open) = &mut self.open else {
            return Err(self.refused("no part was begun"));
        };
        if head.base_offset < open.next_offset {
            let what = format!("a batch at offset {}, not {}", head.base_offset.0, open.next_offset.0);
            return Err(self.refused(&what));
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
            return Err(self.refused("no part was begun"));
        };
        if end.last_offset < Offset(open.next_offset.0.saturating_sub(1)) {
            return Err(self.refused("the part ends before its last batch"));
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

    /// Writes the table and the footer, syncs, and gives the file its name. The run is durable and can be referred to when this
    /// returns its size.
    pub fn finish(mut self) -> Result<u64, RunError> {
        if self.open.is_some() {
            return Err(self.refused("the last part is not ended"));
        }
        let table = std::mem::take(&mut self.table);
        let footer = RunFooter::of(self.len(), &table);
        self.write(&table)?;
        self.buffer.pad();
        self.write(&self.id.footer(&footer))?;
        self.flush()?;
        self.sync()?;
        self.publish().map_err(|source| self.medium(source))?;
        self.name = None;
        self.files.end(self.id.run, true);
        Ok(footer.length)
    }

    fn publish(&mut self) -> io::Result<()> {
        let name = run_name(self.id.run);
        self.files.medium.rename(&temporary(&name), &name)?;
        self.name = Some(name);
        self.files.medium.sync_names()
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), RunError> {
        while !bytes.is_empty() {
            let room = PIECE - self.buffer.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.write(now);
            bytes = later;
            if self.buffer.len() == PIECE {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RunError> {
        let written = self.file.write_at(self.buffer.as_ref(), self.written);
        written.map_err(|source| self.medium(source))?;
        self.written += self.buffer.len() as u64;
        self.buffer.resize(0);
        if self.written - self.synced >= UNSYNCED {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), RunError> {
        self.file.sync().map_err(|source| self.medium(source))?;
        self.synced = self.written;
        Ok(())
    }

    fn medium(&self, source: io::Error) -> RunError {
        let file = self.name.clone().unwrap_or_else(|| run_name(self.id.run));
        RunError::Medium { file, offset: self.written, source }
    }

    fn refused(&self, what: &str) -> RunError {
        RunError::InvalidInput { file: run_name(self.id.run), what: what.to_owned() }
    }
}

impl Drop for RunWriter {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            // What cannot be removed now goes when the folder is opened the next time.
            let _ = self.files.medium.remove(&name);
            self.files.end(self.id.run, false);
        }
    }
}
