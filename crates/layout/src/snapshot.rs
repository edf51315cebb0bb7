//! A snapshot: entries that rebuild the state, in checked chunks, and the position from which to replay the log.
//!
//! ```text
//!   header │ chunk │ chunk │ … │ end
//! ```

use crate::identity::Identity;
use crate::read::{put, u16_at, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"OTTLASNP";
const HEADER_CHECKSUM: usize = 36;
const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"OTCH");
const END_MAGIC: u32 = u32::from_le_bytes(*b"OTEN");

/// Version of the snapshot format.
pub const SNAPSHOT_FORMAT: u16 = 0;
/// Bytes of a snapshot's header.
pub const SNAPSHOT_HEADER: usize = 40;
/// Bytes of a chunk's header, and of the end.
pub const CHUNK_HEADER: usize = 24;
/// Size at which a chunk is closed, unless a single entry is larger.
pub const CHUNK_CAP: usize = 1 << 20;
/// The largest chunk that is believed, in bytes of payload.
pub const CHUNK_LIMIT: usize = 1 << 30;

/// What a snapshot says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The folder's random number.
    pub log_id: u64,
    /// The shard.
    pub shard: u16,
    /// Replay begins here: the snapshot holds the effect of every entry before, and of none after.
    pub position: u64,
}

/// A snapshot that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Not a snapshot.
    #[error("no snapshot header")]
    NotASnapshot,
    /// Written by a newer version.
    #[error("snapshot format {0} is newer than this program knows")]
    NewerFormat(u16),
    /// The snapshot of another folder or shard.
    #[error("the snapshot belongs to another log ({0:016x})")]
    Foreign(u64),
    /// Damaged or cut short.
    #[error("chunk {0} is damaged or cut short")]
    Chunk(u32),
    /// Damaged or cut short before the first chunk.
    #[error("the header is damaged")]
    Header,
}

impl SnapshotHeader {
    /// The bytes that stay.
    pub fn encode(&self) -> [u8; SNAPSHOT_HEADER] {
        let mut bytes = [0; SNAPSHOT_HEADER];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &SNAPSHOT_FORMAT.to_le_bytes());
        put(&mut bytes, 10, &self.shard.to_le_bytes());
        put(&mut bytes, 16, &self.log_id.to_le_bytes());
        put(&mut bytes, 24, &self.position.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..HEADER_CHECKSUM]);
        put(&mut bytes, HEADER_CHECKSUM, &checksum.to_le_bytes());
        bytes
    }

    /// Reads a header and checks that it belongs to `identity`.
    pub fn check(
        bytes: &[u8; SNAPSHOT_HEADER],
        identity: &Identity,
    ) -> Result<SnapshotHeader, SnapshotError> {
        if !bytes.starts_with(MAGIC) {
            return Err(SnapshotError::NotASnapshot);
        }
        if u32_at(bytes, HEADER_CHECKSUM) != Some(crc32c::crc32c(&bytes[..HEADER_CHECKSUM])) {
            return Err(SnapshotError::Header);
        }
        let format = u16_at(bytes, 8).ok_or(SnapshotError::Header)?;
        if format != SNAPSHOT_FORMAT {
            return Err(SnapshotError::NewerFormat(format));
        }
        let read = || {
            Some(SnapshotHeader {
                shard: u16_at(bytes, 10)?,
                log_id: u64_at(bytes, 16)?,
                position: u64_at(bytes, 24)?,
            })
        };
        let header = read().ok_or(SnapshotError::Header)?;
        if header.log_id == identity.log_id && header.shard == identity.shard {
            Ok(header)
        } else {
            Err(SnapshotError::Foreign(header.log_id))
        }
    }
}

/// Gathers entries into chunks.
#[derive(Debug)]
pub struct ChunkWriter {
    position: u64,
    chunk: Vec<u8>,
    entries: u32,
    index: u32,
    total: u64,
}

impl ChunkWriter {
    /// Chunks of the snapshot that replays from `position`; every chunk repeats it.
    pub fn new(position: u64) -> ChunkWriter {
        ChunkWriter { position, chunk: vec![0; CHUNK_HEADER], entries: 0, index: 0, total: 0 }
    }

    /// Adds an entry; returns a chunk that is ready to be written, if one became full.
    pub fn push(&mut self, entry: &[u8]) -> Option<Vec<u8>> {
        let full = self.entries > 0 && self.chunk.len() + 4 + entry.len() > CHUNK_CAP;
        let ready = full.then(|| self.close());
        self.chunk.extend((entry.len() as u32).to_le_bytes());
        self.chunk.extend(entry);
        self.entries += 1;
        self.total += 1;
        ready
    }

    /// The last chunk and the end.
    pub fn finish(mut self) -> Vec<u8> {
        let mut bytes = if self.entries > 0 { self.close() } else { Vec::new() };
        let mut end = [0; CHUNK_HEADER];
        put(&mut end, 4, &END_MAGIC.to_le_bytes());
        put(&mut end, 8, &self.index.to_le_bytes());
        put(&mut end, 12, &self.total.to_le_bytes());
        let checksum = self.checksum(&end);
        put(&mut end, 0, &checksum.to_le_bytes());
        bytes.extend(end);
        bytes
    }

    fn close(&mut self) -> Vec<u8> {
        let mut chunk = std::mem::replace(&mut self.chunk, vec![0; CHUNK_HEADER]);
        let payload = (chunk.len() - CHUNK_HEADER) as u32;
        put(&mut chunk, 4, &CHUNK_MAGIC.to_le_bytes());
        put(&mut chunk, 8, &self.index.to_le_bytes());
        put(&mut chunk, 12, &self.entries.to_le_bytes());
        put(&mut chunk, 16, &payload.to_le_bytes());
        let checksum = self.checksum(&chunk);
        put(&mut chunk, 0, &checksum.to_le_bytes());
        self.entries = 0;
        self.index += 1;
        chunk
    }

    fn checksum(&self, chunk: &[u8]) -> u32 {
        checksum(self.position, chunk)
    }
}

/// The checksum of a chunk covers the snapshot's position too, so that chunks of two snapshots cannot mix.
fn checksum(position: u64, chunk: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&position.to_le_bytes()), chunk.get(4..).unwrap_or_default())
}

/// What a chunk's header announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkStep {
    /// So many bytes of payload follow.
    Payload(usize),
    /// The snapshot ends here.
    End,
}

/// Checks chunks in order.
#[derive(Debug)]
pub struct ChunkReader {
    position: u64,
    index: u32,
    total: u64,
}

impl ChunkReader {
    /// Reads the chunks of a snapshot whose header said `position`.
    pub fn new(position: u64) -> ChunkReader {
        ChunkReader { position, index: 0, total: 0 }
    }

    /// Number of the chunk that comes next.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Judges the header of the next chunk.
    pub fn step(&self, header: &[u8; CHUNK_HEADER]) -> Result<ChunkStep, SnapshotError> {
        let damaged = SnapshotError::Chunk(self.index);
        if u32_at(header, 8) != Some(self.index) {
            return Err(damaged);
        }
        match u32_at(header, 4) {
            Some(CHUNK_MAGIC) => match u32_at(header, 16) {
                Some(len) if len as usize <= CHUNK_LIMIT => Ok(ChunkStep::Payload(len as usize)),
                _ => Err(damaged),
            },
            Some(END_MAGIC) => {
                let whole = u64_at(header, 12) == Some(self.total)
                    && u32_at(header, 0) == Some(checksum(self.position, header));
                if whole { Ok(ChunkStep::End) } else { Err(damaged) }
            }
            _ => Err(damaged),
        }
    }

    /// Checks a whole chunk, header and payload, and returns its entries.
    pub fn entries<'a>(&mut self, chunk: &'a [u8]) -> Result<Vec<&'a [u8]>, SnapshotError> {
        let damaged = SnapshotError::Chunk(self.index);
        if u32_at(chunk, 0) != Some(checksum(self.position, chunk)) {
            return Err(damaged);
        }
        let count = u32_at(chunk, 12).ok_or(damaged.clone())?;
        let mut rest = chunk.get(CHUNK_HEADER..).ok_or(damaged.clone())?;
        let mut entries = Vec::new();
        while let Some(len) = u32_at(rest, 0) {
            let body = rest.get(4..).unwrap_or_default();
            let entry = body.get(..len as usize).ok_or(damaged.clone())?;
            rest = &body[len as usize..];
            entries.push(entry);
        }
        if !rest.is_empty() || entries.len() != count as usize {
            return Err(damaged);
        }
        self.index += 1;
        self.total += u64::from(count);
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;
    use proptest::prelude::*;

    fn identity() -> Identity {
        Identity { log_id: 5, shard: 1, geometry: Geometry::new(64 << 10).unwrap() }
    }

    fn encode(position: u64, entries: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = SnapshotHeader { log_id: 5, shard: 1, position }.encode().to_vec();
        let mut writer = ChunkWriter::new(position);
        for entry in entries {
            bytes.extend(writer.push(entry).unwrap_or_default());
        }
        bytes.extend(writer.finish());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<(u64, Vec<Vec<u8>>), SnapshotError> {
        let (head, mut rest) = bytes.split_at_checked(SNAPSHOT_HEADER).ok_or(SnapshotError::Header)?;
        let header = SnapshotHeader::check(head.try_into().unwrap(), &identity())?;
        let mut reader = ChunkReader::new(header.position);
        let mut found = Vec::new();
        loop {
            let damaged = SnapshotError::Chunk(reader.index());
            let head = rest.first_chunk::<CHUNK_HEADER>().ok_or(damaged.clone())?;
            match reader.step(head)? {
                ChunkStep::End if rest.len() == CHUNK_HEADER => {
                    return Ok((header.position, found));
                }
                ChunkStep::End => return Err(damaged),
                ChunkStep::Payload(len) => {
                    let chunk = rest.get(..CHUNK_HEADER + len).ok_or(damaged)?;
                    rest = &rest[chunk.len()..];
                    found.extend(reader.entries(chunk)?.into_iter().map(<[u8]>::to_vec));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn entries_come_back(position in any::<u64>(), entries in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..30)) {
            prop_assert_eq!(decode(&encode(position, &entries)), Ok((position, entries)));
        }
    }

    #[test]
    fn large_snapshots_are_cut_into_chunks() {
        let entries = vec![vec![7; 400 << 10]; 5];
        let bytes = encode(12, &entries);
        assert_eq!(decode(&bytes), Ok((12, entries)));
        assert_eq!(bytes.len(), SNAPSHOT_HEADER + 3 * CHUNK_HEADER + CHUNK_HEADER + 5 * (4 + (400 << 10)));
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_noticed() {
        let bytes = encode(99, &[vec![1, 2, 3], vec![], vec![4; 30]]);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "cut at {len}");
        }
    }
}
