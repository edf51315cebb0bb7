//! A snapshot, chunk by chunk.

use crate::error::OpenError;
use crate::medium::MediumFile;
use ottla_layout::Identity;
use ottla_layout::snapshot::{
    CHUNK_HEADER, ChunkReader, ChunkStep, SNAPSHOT_HEADER, SnapshotError, SnapshotHeader,
};

/// What is found in a snapshot, in order. Offsets are those in the file.
#[derive(Debug)]
pub enum SnapshotFound<'a> {
    /// The header, whole.
    Header {
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// A chunk, whole.
    Chunk {
        /// Where it begins.
        offset: u64,
        /// All its bytes.
        bytes: &'a [u8],
        /// The offset of each entry, behind its length, and its bytes.
        entries: Vec<(u64, &'a [u8])>,
    },
    /// The end, whole.
    End {
        /// Where it begins.
        offset: u64,
        /// All its bytes.
        bytes: &'a [u8],
    },
    /// Something that is not as it should be. Unless the end came before, reading ends here.
    Damage {
        /// Where.
        offset: u64,
        /// What.
        reason: String,
    },
}

pub(super) fn read<E: From<OpenError>>(
    file: &dyn MediumFile,
    name: &str,
    identity: &Identity,
    position: u64,
    see: &mut dyn FnMut(SnapshotFound<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut offset = 0;
    let explain = || OpenError::medium(name, "reading");
    let mut chunks = ChunkReader::new(position);
    loop {
        let step = match offset {
            0 => header(file, identity, position),
            _ => chunk(file, offset, &mut chunks),
        };
        let piece = match step {
            Ok(piece) => piece,
            Err(Stop::Medium(error)) => return Err(explain()(error).into()),
            Err(Stop::Damage(reason)) => return see(SnapshotFound::Damage { offset, reason }),
        };
        let bytes = piece.bytes.as_slice();
        let next = offset + bytes.len() as u64;
        match piece.what {
            What::Header => see(SnapshotFound::Header { bytes })?,
            What::Chunk => {
                let entries = match chunks.entries(bytes) {
                    Ok(entries) => place(offset, entries),
                    Err(error) => {
                        return see(SnapshotFound::Damage { offset, reason: error.to_string() });
                    }
                };
                see(SnapshotFound::Chunk { offset, bytes, entries })?;
            }
            What::End => {
                see(SnapshotFound::End { offset, bytes })?;
                let size = file.size().map_err(explain())?;
                if size > next {
                    let reason = format!("{} bytes behind the end of the snapshot", size - next);
                    see(SnapshotFound::Damage { offset: next, reason })?;
                }
                return Ok(());
            }
        }
        offset = next;
    }
}

/// The entries of a chunk with their places in the file.
fn place(offset: u64, entries: Vec<&[u8]>) -> Vec<(u64, &[u8])> {
    let mut at = offset + CHUNK_HEADER as u64;
    let placed = entries.into_iter().map(|entry| {
        let body = at + 4;
        at = body + entry.len() as u64;
        (body, entry)
    });
    placed.collect()
}

enum What {
    Header,
    Chunk,
    End,
}

struct Piece {
    what: What,
    bytes: Vec<u8>,
}

enum Stop {
    Medium(std::io::Error),
    Damage(String),
}

impl From<SnapshotError> for Stop {
    fn from(error: SnapshotError) -> Stop {
        Stop::Damage(error.to_string())
    }
}

fn header(file: &dyn MediumFile, identity: &Identity, position: u64) -> Result<Piece, Stop> {
    let head = fill::<SNAPSHOT_HEADER>(file, 0, &SnapshotError::Header)?;
    let found = SnapshotHeader::check(&head, identity)?.position;
    if found != position {
        return Err(Stop::Damage(format!("it is the snapshot of position {found}")));
    }
    Ok(Piece { what: What::Header, bytes: head.to_vec() })
}

fn chunk(file: &dyn MediumFile, offset: u64, chunks: &mut ChunkReader) -> Result<Piece, Stop> {
    let short = SnapshotError::Chunk(chunks.index());
    let head = fill::<CHUNK_HEADER>(file, offset, &short)?;
    let ChunkStep::Payload(len) = chunks.step(&head)? else {
        return Ok(Piece { what: What::End, bytes: head.to_vec() });
    };
    let len = CHUNK_HEADER + len;
    if file.size().map_err(Stop::Medium)? < offset + len as u64 {
        return Err(short.into());
    }
    let mut bytes = vec![0; len];
    if file.read_at(&mut bytes, offset).map_err(Stop::Medium)? < len {
        return Err(short.into());
    }
    Ok(Piece { what: What::Chunk, bytes })
}

fn fill<const N: usize>(file: &dyn MediumFile, offset: u64, short: &SnapshotError) -> Result<[u8; N], Stop> {
    let mut bytes = [0; N];
    let found = file.read_at(&mut bytes, offset).map_err(Stop::Medium)?;
    if found == N { Ok(bytes) } else { Err(short.clone().into()) }
}
