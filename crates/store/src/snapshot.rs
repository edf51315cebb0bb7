//! Writes snapshots, reads them back, keeps two.

use crate::error::{OpenError, SnapshotFailure};
use crate::files::{snapshot_name, temporary};
use crate::log_core::LogCore;
use crate::medium::{Medium, MediumFile};
use ottla_layout::Identity;
use ottla_layout::record::{decode, encode};
use ottla_layout::snapshot::{
    ChunkReader, ChunkStep, ChunkWriter, SNAPSHOT_FORMAT, SNAPSHOT_HEADER, SnapshotError, SnapshotHeader,
};
use ottla_types::LogPosition;
use ottla_types::record::LogRecord;
use std::io;
use std::sync::Arc;

/// Snapshots that are kept: the newest, and the one before in case the newest is damaged.
const KEPT: usize = 2;

/// Writes snapshots of the state, from any thread, one at a time.
#[derive(Clone)]
pub struct Snapshotter {
    shared: Arc<LogCore>,
}

impl std::fmt::Debug for Snapshotter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshotter").finish_non_exhaustive()
    }
}

impl Snapshotter {
    pub(crate) fn new(shared: Arc<LogCore>) -> Snapshotter {
        Snapshotter { shared }
    }

    /// Begins a snapshot that is replayed from `position`: [`crate::Log::end`] at the time when its first piece is taken from
    /// the state. The file is written under a temporary name. An error, now or later, leaves the older snapshots.
    pub fn begin(&self, position: LogPosition) -> Result<SnapshotWriter, SnapshotFailure> {
        if let Some(failure) = &self.shared.lock().failed {
            return Err(SnapshotFailure::Ended(failure.clone()));
        }
        let position = position.0;
        let name = snapshot_name(position);
        let identity = self.shared.files.identity;
        let format = SNAPSHOT_FORMAT;
        let header = SnapshotHeader { format, log_id: identity.log_id, shard: identity.shard, position };
        let temporary_name = temporary(&name);
        let explain = |source| SnapshotFailure::Medium { file: temporary_name.clone(), source };
        let file = self.shared.files.medium.create(&temporary_name).map_err(explain)?;
        let chunks = ChunkWriter::new(position);
        let snapshotter = self.clone();
        let mut writer = SnapshotWriter {
            snapshotter,
            name,
            file,
            chunks,
            position,
            last: position,
            size: 0,
            entry: Vec::new(),
        };
        writer.clean_up(|writer| writer.write(&header.encode()))?;
        Ok(writer)
    }

    /// Writes the snapshot of the state at `position` in one piece.
    pub fn write(
        &self,
        position: LogPosition,
        records: &mut dyn Iterator<Item = LogRecord>,
    ) -> Result<(), SnapshotFailure> {
        let mut writer = self.begin(position)?;
        writer.piece(position, records)?;
        writer.finish().map(drop).inspect_err(|_| writer.remove())
    }

    fn wait_until_durable(&self, wanted: u64) -> Result<(), SnapshotFailure> {
        let mut state = self.shared.lock();
        loop {
            if let Some(failure) = &state.failed {
                return Err(SnapshotFailure::Ended(failure.clone()));
            }
            let durable = self.shared.durable();
            if durable >= wanted {
                break;
            }
            if !self.shared.options.threads {
                return Err(SnapshotFailure::NotDurable { durable, wanted });
            }
            state = self.shared.wait_for_progress(state);
        }
        drop(state);
        if self.shared.syncs() {
            return Ok(());
        }
        // A snapshot must not outlive the log that it belongs to.
        self.shared.sync_up_to(wanted).map_err(|failure| {
            self.shared.fail(failure.clone());
            SnapshotFailure::Ended(failure)
        })
    }

    fn forget_old(&self, position: u64) -> Result<(), SnapshotFailure> {
        let old = {
            let mut state = self.shared.lock();
            state.snapshots.retain(|kept| *kept != position);
            state.snapshots.push(position);
            state.snapshots.sort_unstable_by(|a, b| b.cmp(a));
            let keep = KEPT.min(state.snapshots.len());
            let mut old = state.snapshots.split_off(keep);
            old.extend(state.damaged.drain(..).filter(|damaged| *damaged != position));
            old
        };
        for position in old {
            let file = snapshot_name(position);
            let removed = self.shared.files.medium.remove(&file);
            removed.map_err(|source| SnapshotFailure::Medium { file, source })?;
        }
        Ok(())
    }
}

/// A snapshot that is being written, piece by piece.
pub struct SnapshotWriter {
    snapshotter: Snapshotter,
    name: String,
    file: Arc<dyn MediumFile>,
    chunks: ChunkWriter,
    position: u64,
    /// The position of the last piece.
    last: u64,
    size: u64,
    entry: Vec<u8>,
}

impl std::fmt::Debug for SnapshotWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotWriter").field("name", &self.name).finish_non_exhaustive()
    }
}

impl SnapshotWriter {
    /// Writes the next piece: rows as they were when the log ended at `position`.
    pub fn piece(
        &mut self,
        position: LogPosition,
        records: &mut dyn Iterator<Item = LogRecord>,
    ) -> Result<(), SnapshotFailure> {
        self.clean_up(|writer| writer.write_piece(position.0, records))
    }

    /// Ends the snapshot: waits until the log is durable up to the last piece, syncs the file, reads it back, and gives it its
    /// name. A log without threads must be driven there first: until then this says [`SnapshotFailure::NotDurable`], and can be
    /// tried again. Returns the size in bytes.
    pub fn finish(&mut self) -> Result<u64, SnapshotFailure> {
        self.snapshotter.wait_until_durable(self.last)?;
        self.clean_up(SnapshotWriter::complete)?;
        let explain = |source| SnapshotFailure::Medium { file: self.name.clone(), source };
        let medium = &self.snapshotter.shared.files.medium;
        medium.rename(&temporary(&self.name), &self.name).map_err(explain)?;
        medium.sync_names().map_err(explain)?;
        self.snapshotter.forget_old(self.position)?;
        Ok(self.size)
    }

    fn write_piece(
        &mut self,
        position: u64,
        records: &mut dyn Iterator<Item = LogRecord>,
    ) -> Result<(), SnapshotFailure> {
        self.last = position;
        if let Some(chunk) = self.chunks.advance(position) {
            self.write(&chunk)?;
        }
        for record in records {
            self.entry.clear();
            let payload = encode(&record, &mut self.entry);
            self.entry.extend(payload);
            if let Some(chunk) = self.chunks.push(&self.entry) {
                self.write(&chunk)?;
            }
        }
        Ok(())
    }

    fn complete(&mut self) -> Result<(), SnapshotFailure> {
        let end = std::mem::replace(&mut self.chunks, ChunkWriter::new(self.position)).finish();
        self.write(&end)?;
        self.file.sync().map_err(|source| self.failure(source))?;
        let files = &self.snapshotter.shared.files;
        files.set_snapshot_size(self.size);
        match check_snapshot(Arc::clone(&self.file), &files.identity) {
            Ok(_) => Ok(()),
            Err(Unusable::Medium(source)) => Err(self.failure(source)),
            Err(why) => {
                let file = temporary(&self.name);
                Err(SnapshotFailure::Unreadable { file, why: why.to_string() })
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SnapshotFailure> {
        self.file.write_at(bytes, self.size).map_err(|source| self.failure(source))?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn failure(&self, source: io::Error) -> SnapshotFailure {
        SnapshotFailure::Medium { file: temporary(&self.name), source }
    }

    /// Without space there may be no second try for this name: what fails leaves nothing behind.
    fn clean_up(
        &mut self,
        act: impl FnOnce(&mut SnapshotWriter) -> Result<(), SnapshotFailure>,
    ) -> Result<(), SnapshotFailure> {
        act(self).inspect_err(|_| self.remove())
    }

    fn remove(&self) {
        let _ = self.snapshotter.shared.files.medium.remove(&temporary(&self.name));
    }
}

/// Why a snapshot cannot be used.
pub(crate) enum Unusable {
    Medium(io::Error),
    Damaged { offset: u64, error: SnapshotError },
    Entry { offset: u64, error: String },
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unusable::Medium(error) => error.fmt(f),
            Unusable::Damaged { offset, error } => write!(f, "offset {offset}: {error}"),
            Unusable::Entry { offset, error } => write!(f, "chunk at offset {offset}: {error}"),
        }
    }
}

/// Reads a snapshot chunk by chunk.
struct Chunks {
    file: Arc<dyn MediumFile>,
    reader: ChunkReader,
    /// Where the next chunk begins.
    at: u64,
    chunk: Vec<u8>,
}

impl Chunks {
    fn open(file: Arc<dyn MediumFile>, identity: &Identity) -> Result<Chunks, Unusable> {
        let mut head = [0; SNAPSHOT_HEADER];
        fill(file.as_ref(), &mut head, 0, SnapshotError::Header)?;
        let header =
            SnapshotHeader::check(&head, identity).map_err(|error| Unusable::Damaged { offset: 0, error })?;
        let reader = ChunkReader::new(&header);
        Ok(Chunks { file, reader, at: SNAPSHOT_HEADER as u64, chunk: Vec::new() })
    }

    /// The records of the next chunk and its position; none at the end.
    fn next(&mut self) -> Result<Option<(u64, Vec<LogRecord>)>, Unusable> {
        let at = self.at;
        let damaged = |error| Unusable::Damaged { offset: at, error };
        let short = SnapshotError::Chunk(self.reader.index());
        let head = self.reader.header_len();
        self.chunk.resize(head, 0);
        fill(self.file.as_ref(), &mut self.chunk, at, short.clone())?;
        let ChunkStep::Payload(len) = self.reader.step(&self.chunk).map_err(damaged)? else {
            return Ok(None);
        };
        self.at = at + (head + len) as u64;
        if self.file.size().map_err(Unusable::Medium)? < self.at {
            return Err(damaged(short));
        }
        self.chunk.resize(head + len, 0);
        fill(self.file.as_ref(), &mut self.chunk, at, short)?;
        let entries = self.reader.entries(&self.chunk).map_err(damaged)?;
        let read = |entry: &[u8]| decode(entry).map(|decoded| decoded.record);
        let records = entries.into_iter().map(read).collect::<Result<Vec<_>, _>>();
        let records = records.map_err(|error| Unusable::Entry { offset: at, error: error.to_string() })?;
        Ok(Some((self.reader.position(), records)))
    }
}

fn fill(file: &dyn MediumFile, buf: &mut [u8], offset: u64, short: SnapshotError) -> Result<(), Unusable> {
    let found = file.read_at(buf, offset).map_err(Unusable::Medium)?;
    if found == buf.len() { Ok(()) } else { Err(Unusable::Damaged { offset, error: short }) }
}

/// Reads a whole snapshot; the positions of its first and its last piece.
fn check_snapshot(file: Arc<dyn MediumFile>, identity: &Identity) -> Result<(u64, u64), Unusable> {
    let mut chunks = Chunks::open(file, identity)?;
    let first = chunks.reader.position();
    while chunks.next()?.is_some() {}
    Ok((first, chunks.reader.position()))
}

/// The pieces of a snapshot on their way back into the state, each at its place between the records of the log.
pub(crate) struct Pieces {
    name: String,
    chunks: Chunks,
    ahead: Option<(u64, Vec<LogRecord>)>,
    /// Position of the first piece: replay begins there.
    pub(crate) first: u64,
    /// Position of the last piece: the log must reach it.
    pub(crate) last: u64,
    /// Bytes of the snapshot.
    pub(crate) size: u64,
}

impl Pieces {
    /// Before which position the next piece has its place, if there is one left.
    pub(crate) fn due(&self) -> Option<u64> {
        self.ahead.as_ref().map(|(position, _)| *position)
    }

    /// Gives the rows of every piece whose place is not behind `position`.
    pub(crate) fn give(&mut self, position: u64, sink: &mut dyn FnMut(LogRecord)) -> Result<(), OpenError> {
        while let Some((_, rows)) = self.ahead.take_if(|(at, _)| *at <= position) {
            rows.into_iter().for_each(&mut *sink);
            self.read_ahead()?;
        }
        Ok(())
    }

    fn read_ahead(&mut self) -> Result<(), OpenError> {
        self.ahead = self.chunks.next().map_err(|why| OpenError::Damaged {
            file: self.name.clone(),
            offset: 0,
            what: why.to_string(),
        })?;
        Ok(())
    }
}

/// A snapshot that was left out because it is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DamagedSnapshot {
    pub(crate) position: u64,
    pub(crate) reason: String,
}

/// What was found of snapshots.
#[derive(Default)]
pub(crate) struct SnapshotSearch {
    /// The newest that is whole.
    pub(crate) newest: Option<Pieces>,
    pub(crate) skipped: Vec<DamagedSnapshot>,
}

/// Finds the newest snapshot that is whole.
pub(crate) fn find_newest(
    medium: &dyn Medium,
    identity: &Identity,
    positions: impl DoubleEndedIterator<Item = u64>,
) -> Result<SnapshotSearch, OpenError> {
    let mut found = SnapshotSearch::default();
    for position in positions.rev() {
        let name = snapshot_name(position);
        let file = medium.open(&name).map_err(OpenError::medium(&name, "opening"))?;
        let size = file.size().map_err(OpenError::medium(&name, "measuring"))?;
        // Everything is checked before the first record is applied: a state cannot be taken back.
        let checked = match check_snapshot(Arc::clone(&file), identity) {
            Ok((first, last)) if first == position => Ok(last),
            Ok((other, _)) => Err(format!("it is the snapshot of position {other}")),
            Err(why) => Err(why.to_string()),
        };
        match checked {
            Err(reason) => found.skipped.push(DamagedSnapshot { position, reason }),
            Ok(last) => {
                let damaged = |what: String| OpenError::Damaged { file: name.clone(), offset: 0, what };
                let chunks = Chunks::open(file, identity).map_err(|why| damaged(why.to_string()))?;
                let mut pieces = Pieces { name, chunks, ahead: None, first: position, last, size };
                pieces.read_ahead()?;
                found.newest = Some(pieces);
                return Ok(found);
            }
        }
    }
    Ok(found)
}
