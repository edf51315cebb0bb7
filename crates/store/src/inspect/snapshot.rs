//! Reads a snapshot chunk by chunk, up to the first damage.

use crate::blob::Blob;
use crate::error::OpenError;
use ottla_layout::Identity;
use ottla_layout::snapshot::{ChunkReader, ChunkStep, SNAPSHOT_HEADER, SnapshotError, SnapshotHeader};

/// An item of a snapshot. Offsets are those in the file.
#[derive(Debug)]
pub enum SnapshotItem<'a> {
    /// The intact header.
    Header {
        /// Version of the format.
        format: u16,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// An intact chunk.
    Chunk {
        /// Where it begins.
        offset: u64,
        /// All its bytes.
        bytes: &'a [u8],
        /// End of the log when the chunk was taken.
        position: u64,
        /// The offset of each entry, after its length, and its bytes.
        entries: Vec<(u64, &'a [u8])>,
    },
    /// The intact end.
    End {
        /// Where it begins.
        offset: u64,
        /// All its bytes.
        bytes: &'a [u8],
    },
    /// Damage, or bytes after the end. It is the last item.
    Damage {
        /// Where.
        offset: u64,
        /// What.
        reason: String,
    },
}

pub(super) fn read<E: From<OpenError>>(
    file: &dyn Blob,
    name: &str,
    identity: &Identity,
    position: u64,
    visit: &mut dyn FnMut(SnapshotItem<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let explain = || OpenError::medium(name, "reading");
    let ended = |stop, offset| match stop {
        ReadFault::Medium(error) => Err(explain()(error)),
        ReadFault::Damage(reason) => Ok(SnapshotItem::Damage { offset, reason }),
    };
    let (head, bytes) = match header(file, identity, position) {
        Ok(found) => found,
        Err(stop) => return visit(ended(stop, 0)?),
    };
    visit(SnapshotItem::Header { format: head.format, bytes: &bytes })?;
    let mut chunks = ChunkReader::new(&head);
    let mut offset = bytes.len() as u64;
    loop {
        let (is_end, bytes) = match chunk(file, offset, &chunks) {
            Ok(found) => found,
            Err(stop) => return visit(ended(stop, offset)?),
        };
        let bytes = bytes.as_slice();
        if is_end {
            visit(SnapshotItem::End { offset, bytes })?;
            return behind(file, offset + bytes.len() as u64, &explain, visit);
        }
        let body = offset + chunks.header_len() as u64;
        let entries = match chunks.entries(bytes) {
            Ok(entries) => place(body, entries),
            Err(error) => return visit(SnapshotItem::Damage { offset, reason: error.to_string() }),
        };
        visit(SnapshotItem::Chunk { offset, bytes, position: chunks.position(), entries })?;
        offset += bytes.len() as u64;
    }
}

/// Reports bytes after the end as damage.
fn behind<E: From<OpenError>, F: FnOnce(std::io::Error) -> OpenError>(
    file: &dyn Blob,
    end: u64,
    explain: &dyn Fn() -> F,
    visit: &mut dyn FnMut(SnapshotItem<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let size = file.size().map_err(explain())?;
    if size > end {
        let reason = format!("{} bytes behind the end of the snapshot", size - end);
        visit(SnapshotItem::Damage { offset: end, reason })?;
    }
    Ok(())
}

/// The entries of a chunk with their places in the file.
fn place(body: u64, entries: Vec<&[u8]>) -> Vec<(u64, &[u8])> {
    let mut at = body;
    let placed = entries.into_iter().map(|entry| {
        let body = at + 4;
        at = body + entry.len() as u64;
        (body, entry)
    });
    placed.collect()
}

enum ReadFault {
    Medium(std::io::Error),
    Damage(String),
}

impl From<SnapshotError> for ReadFault {
    fn from(error: SnapshotError) -> ReadFault {
        ReadFault::Damage(error.to_string())
    }
}

fn header(
    file: &dyn Blob,
    identity: &Identity,
    position: u64,
) -> Result<(SnapshotHeader, [u8; SNAPSHOT_HEADER]), ReadFault> {
    let mut bytes = [0; SNAPSHOT_HEADER];
    fill(file, &mut bytes, 0, &SnapshotError::Header)?;
    let found = SnapshotHeader::check(&bytes, identity)?;
    if found.position != position {
        return Err(ReadFault::Damage(format!("it is the snapshot of position {}", found.position)));
    }
    Ok((found, bytes))
}

/// Whether the end is at `offset`, and the bytes of it or of the chunk there.
fn chunk(file: &dyn Blob, offset: u64, chunks: &ChunkReader) -> Result<(bool, Vec<u8>), ReadFault> {
    let short = SnapshotError::Chunk(chunks.index());
    let mut bytes = vec![0; chunks.header_len()];
    fill(file, &mut bytes, offset, &short)?;
    let ChunkStep::Payload(len) = chunks.step(&bytes)? else {
        return Ok((true, bytes));
    };
    let len = bytes.len() + len;
    if file.size().map_err(ReadFault::Medium)? < offset + len as u64 {
        return Err(short.into());
    }
    bytes.resize(len, 0);
    fill(file, &mut bytes, offset, &short)?;
    Ok((false, bytes))
}

fn fill(file: &dyn Blob, bytes: &mut [u8], offset: u64, short: &SnapshotError) -> Result<(), ReadFault> {
    let found = file.read_at(bytes, offset).map_err(ReadFault::Medium)?;
    if found == bytes.len() { Ok(()) } else { Err(short.clone().into()) }
}
