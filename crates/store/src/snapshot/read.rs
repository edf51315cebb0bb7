//! Reads snapshots: checks a snapshot, finds the newest that is intact, and returns its rows piece by piece.

use crate::blob::{Blob, BlobStore};
use crate::error::OpenError;
use crate::names::snapshot_name;
use ottla_layout::Identity;
use ottla_layout::record::{DecodeError, decode};
use ottla_layout::snapshot::{ChunkReader, ChunkStep, SNAPSHOT_HEADER, SnapshotError, SnapshotHeader};
use ottla_types::record::LogRecord;
use std::io;
use std::sync::Arc;

/// Why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SnapshotFault {
    #[error(transparent)]
    Medium(#[from] io::Error),
    #[error("offset {offset}: {error}")]
    Damaged { offset: u64, error: SnapshotError },
    #[error("chunk at offset {offset}: {error}")]
    Entry { offset: u64, error: DecodeError },
}

/// Reads a snapshot chunk by chunk.
struct Chunks {
    file: Arc<dyn Blob>,
    reader: ChunkReader,
    /// Where the next chunk begins.
    at: u64,
    chunk: Vec<u8>,
}

impl Chunks {
    fn open(file: Arc<dyn Blob>, identity: &Identity) -> Result<Chunks, SnapshotFault> {
        let mut head = [0; SNAPSHOT_HEADER];
        fill(file.as_ref(), &mut head, 0, SnapshotError::Header)?;
        let header = SnapshotHeader::check(&head, identity)
            .map_err(|error| SnapshotFault::Damaged { offset: 0, error })?;
        let reader = ChunkReader::new(&header);
        Ok(Chunks { file, reader, at: SNAPSHOT_HEADER as u64, chunk: Vec::new() })
    }

    /// The records of the next chunk and its position; none at the end.
    fn next(&mut self) -> Result<Option<(u64, Vec<LogRecord>)>, SnapshotFault> {
        let at = self.at;
        let damaged = |error| SnapshotFault::Damaged { offset: at, error };
        let short = SnapshotError::Chunk(self.reader.index());
        let head = self.reader.header_len();
        self.chunk.resize(head, 0);
        fill(self.file.as_ref(), &mut self.chunk, at, short.clone())?;
        let ChunkStep::Payload(len) = self.reader.step(&self.chunk).map_err(damaged)? else {
            return Ok(None);
        };
        self.at = at + (head + len) as u64;
        if self.file.size().map_err(SnapshotFault::Medium)? < self.at {
            return Err(damaged(short));
        }
        self.chunk.resize(head + len, 0);
        fill(self.file.as_ref(), &mut self.chunk, at, short)?;
        let entries = self.reader.entries(&self.chunk).map_err(damaged)?;
        let read = |entry: &[u8]| decode(entry).map(|decoded| decoded.record);
        let records = entries.into_iter().map(read).collect::<Result<Vec<_>, _>>();
        let records = records.map_err(|error| SnapshotFault::Entry { offset: at, error })?;
        Ok(Some((self.reader.position(), records)))
    }
}

fn fill(file: &dyn Blob, buf: &mut [u8], offset: u64, short: SnapshotError) -> Result<(), SnapshotFault> {
    let found = file.read_at(buf, offset).map_err(SnapshotFault::Medium)?;
    if found == buf.len() { Ok(()) } else { Err(SnapshotFault::Damaged { offset, error: short }) }
}

/// Reads a whole snapshot and checks it. Returns the positions of its first and its last piece.
pub(super) fn check_snapshot(file: Arc<dyn Blob>, identity: &Identity) -> Result<(u64, u64), SnapshotFault> {
    let mut chunks = Chunks::open(file, identity)?;
    let first = chunks.reader.position();
    while chunks.next()?.is_some() {}
    Ok((first, chunks.reader.position()))
}

/// The pieces of a snapshot, to be restored one by one, each at its position between the records of the log.
pub(crate) struct SnapshotPieces {
    name: String,
    chunks: Chunks,
    next: Option<(u64, Vec<LogRecord>)>,
    /// Position of the first piece: replay begins there.
    pub(crate) first: u64,
    /// Position of the last piece: the log must reach it.
    pub(crate) last: u64,
    /// Bytes of the snapshot.
    pub(crate) size: u64,
}

impl SnapshotPieces {
    /// The position of the next piece, if there is one.
    pub(crate) fn due(&self) -> Option<u64> {
        self.next.as_ref().map(|(position, _)| *position)
    }

    /// Restores the rows of every piece whose position is at most `position`.
    pub(crate) fn give(&mut self, position: u64, sink: &mut dyn FnMut(LogRecord)) -> Result<(), OpenError> {
        while let Some((_, rows)) = self.next.take_if(|(at, _)| *at <= position) {
            rows.into_iter().for_each(&mut *sink);
            self.load_next()?;
        }
        Ok(())
    }

    fn load_next(&mut self) -> Result<(), OpenError> {
        self.next = self.chunks.next().map_err(|why| OpenError::Damaged {
            file: self.name.clone(),
            offset: 0,
            what: why.to_string(),
        })?;
        Ok(())
    }
}

/// A snapshot that is not used because it is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DamagedSnapshot {
    pub(crate) position: u64,
    pub(crate) reason: String,
}

/// The outcome of [`find_newest`].
#[derive(Default)]
pub(crate) struct SnapshotSearch {
    /// The newest intact one.
    pub(crate) newest: Option<SnapshotPieces>,
    pub(crate) skipped: Vec<DamagedSnapshot>,
}

/// Finds the newest intact snapshot.
pub(crate) fn find_newest(
    blobs: &dyn BlobStore,
    identity: &Identity,
    positions: impl DoubleEndedIterator<Item = u64>,
) -> Result<SnapshotSearch, OpenError> {
    let mut found = SnapshotSearch::default();
    for position in positions.rev() {
        let name = snapshot_name(position);
        let file = blobs.open(&name).map_err(OpenError::medium(&name, "opening"))?;
        let size = file.size().map_err(OpenError::medium(&name, "measuring"))?;
        // Everything is checked before the first record is applied, because applying cannot be undone.
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
                let mut pieces = SnapshotPieces { name, chunks, next: None, first: position, last, size };
                pieces.load_next()?;
                found.newest = Some(pieces);
                return Ok(found);
            }
        }
    }
    Ok(found)
}
