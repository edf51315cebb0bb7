//! A snapshot: entries that rebuild the state, in checked chunks, each with the log position at which it was taken.
//!
//! ```text
//!   header │ chunk │ chunk │ … │ end
//! ```
//!
//! Replay begins at the position of the first chunk; a later chunk is restored before the first entry of the log that
//! is at or after its position. The log must reach the position of the last one.

use crate::identity::Identity;
use crate::read::{put, u16_at, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"OTTLASNP";
const HEADER_CHECKSUM: usize = 36;
const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"OTCH");
const END_MAGIC: u32 = u32::from_le_bytes(*b"OTEN");
/// Bytes of a chunk's header in format 0, where all chunks are of the snapshot's position.
const CHUNK_HEADER_0: usize = 24;

/// Version of the snapshot format that is written. Format 0 is read too.
pub const SNAPSHOT_FORMAT: u16 = 1;
/// Bytes of a snapshot's header.
pub const SNAPSHOT_HEADER: usize = 40;
/// Bytes of a chunk's header, and of the end, as they are written.
pub const CHUNK_HEADER: usize = 32;
/// Size at which a chunk is closed, unless a single entry is larger.
pub const CHUNK_CAP: usize = 1 << 20;
/// The largest payload of a chunk that is accepted, in bytes. A longer one is damage.
pub const CHUNK_LIMIT: usize = 1 << 30;

/// The header of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// Version of the format: [`SNAPSHOT_FORMAT`] for one that is to be written.
    pub format: u16,
    /// The folder's random number.
    pub log_id: u64,
    /// The shard.
    pub shard: u16,
    /// Replay begins here: the first chunk holds the effect of every entry before on what it holds, and of none after.
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
    /// The encoded header.
    pub fn encode(&self) -> [u8; SNAPSHOT_HEADER] {
        let mut bytes = [0; SNAPSHOT_HEADER];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &self.format.to_le_bytes());
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
        if format > SNAPSHOT_FORMAT {
            return Err(SnapshotError::NewerFormat(format));
        }
        let read = || {
            Some(SnapshotHeader {
                format,
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

/// Collects entries into chunks.
#[derive(Debug)]
pub struct ChunkWriter {
    position: u64,
    /// The position of the chunk that is open.
    at: u64,
    chunk: Vec<u8>,
    entries: u32,
    index: u32,
    total: u64,
}

impl ChunkWriter {
    /// Chunks of the snapshot that replays from `position`, which is that of the first entries.
    pub fn new(position: u64) -> ChunkWriter {
        ChunkWriter { position, at: position, chunk: vec![0; CHUNK_HEADER], entries: 0, index: 0, total: 0 }
    }

    /// Sets the position of the entries that follow, which must not be before the last one. Returns the open chunk,
    /// ready to be written, if there was one.
    pub fn advance(&mut self, position: u64) -> Option<Vec<u8>> {
        let ready = (self.entries > 0 && position != self.at).then(|| self.close());
        self.at = position;
        ready
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
        self.seal(&mut end);
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
        self.seal(&mut chunk);
        self.entries = 0;
        self.index += 1;
        chunk
    }

    fn seal(&self, chunk: &mut [u8]) {
        put(chunk, 24, &self.at.to_le_bytes());
        let checksum = checksum(self.position, chunk);
        put(chunk, 0, &checksum.to_le_bytes());
    }
}

/// The checksum of a chunk covers the snapshot's position too, so that chunks of two snapshots cannot mix.
fn checksum(position: u64, chunk: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&position.to_le_bytes()), chunk.get(4..).unwrap_or_default())
}

/// The content of a chunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkStep {
    /// This many bytes of payload follow.
    Payload(usize),
    /// The snapshot ends here.
    End,
}

/// Checks chunks in order.
#[derive(Debug)]
pub struct ChunkReader {
    format: u16,
    /// The position in the snapshot's header.
    begin: u64,
    /// That of the chunk that was read last.
    position: u64,
    index: u32,
    total: u64,
}

impl ChunkReader {
    /// Reads the chunks of a snapshot with this header.
    pub fn new(header: &SnapshotHeader) -> ChunkReader {
        let position = header.position;
        ChunkReader { format: header.format, begin: position, position, index: 0, total: 0 }
    }

    /// Number of the next chunk.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The log position of the chunk that was read last, of the snapshot's begin before the first.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of a chunk's header, and of the end.
    pub fn header_len(&self) -> usize {
        if self.format == 0 { CHUNK_HEADER_0 } else { CHUNK_HEADER }
    }

    /// Checks the header of the next chunk, [`ChunkReader::header_len`] bytes.
    pub fn step(&self, header: &[u8]) -> Result<ChunkStep, SnapshotError> {
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
                    && self.position_of(header) == Some(self.position)
                    && u32_at(header, 0) == Some(checksum(self.begin, header));
                if whole { Ok(ChunkStep::End) } else { Err(damaged) }
            }
            _ => Err(damaged),
        }
    }

    /// Checks a whole chunk, header and payload, and returns its entries.
    pub fn entries<'a>(&mut self, chunk: &'a [u8]) -> Result<Vec<&'a [u8]>, SnapshotError> {
        let damaged = SnapshotError::Chunk(self.index);
        if u32_at(chunk, 0) != Some(checksum(self.begin, chunk)) {
            return Err(damaged);
        }
        let count = u32_at(chunk, 12).ok_or(damaged.clone())?;
        let at = self.position_of(chunk).filter(|at| *at >= self.position).ok_or(damaged.clone())?;
        let mut rest = chunk.get(self.header_len()..).ok_or(damaged.clone())?;
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
        self.position = at;
        self.index += 1;
        self.total += u64::from(count);
        Ok(entries)
    }

    /// The log position in a header; that of the snapshot in format 0.
    fn position_of(&self, header: &[u8]) -> Option<u64> {
        if self.format == 0 { Some(self.begin) } else { u64_at(header, 24) }
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

    fn header(position: u64) -> SnapshotHeader {
        SnapshotHeader { format: SNAPSHOT_FORMAT, log_id: 5, shard: 1, position }
    }

    fn encode(position: u64, entries: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = header(position).encode().to_vec();
        let mut writer = ChunkWriter::new(position);
        for (at, entry) in entries {
            bytes.extend(writer.advance(*at).unwrap_or_default());
            bytes.extend(writer.push(entry).unwrap_or_default());
        }
        bytes.extend(writer.finish());
        bytes
    }

    type Entries = Vec<(u64, Vec<u8>)>;

    fn decode(bytes: &[u8]) -> Result<(u64, Entries), SnapshotError> {
        let (head, mut rest) = bytes.split_at_checked(SNAPSHOT_HEADER).ok_or(SnapshotError::Header)?;
        let header = SnapshotHeader::check(head.try_into().unwrap(), &identity())?;
        let mut reader = ChunkReader::new(&header);
        let mut found = Vec::new();
        loop {
            let damaged = SnapshotError::Chunk(reader.index());
            let head = rest.get(..reader.header_len()).ok_or(damaged.clone())?;
            match reader.step(head)? {
                ChunkStep::End if rest.len() == head.len() => {
                    return Ok((header.position, found));
                }
                ChunkStep::End => return Err(damaged),
                ChunkStep::Payload(len) => {
                    let chunk = rest.get(..head.len() + len).ok_or(damaged)?;
                    rest = &rest[chunk.len()..];
                    let entries = reader.entries(chunk)?;
                    found.extend(entries.into_iter().map(|entry| (reader.position(), entry.to_vec())));
                }
            }
        }
    }

    fn few_entries() -> impl Strategy<Value = Entries> {
        proptest::collection::vec((0..3u64, proptest::collection::vec(any::<u8>(), 0..60)), 0..30)
    }

    proptest! {
        #[test]
        fn entries_come_back_with_their_positions(position in 0..u64::MAX / 2, steps in few_entries()) {
            let mut at = position;
            let place = |(step, entry)| { at += step; (at, entry) };
            let entries: Vec<_> = steps.into_iter().map(place).collect();
            prop_assert_eq!(decode(&encode(position, &entries)), Ok((position, entries)));
        }
    }

    #[test]
    fn large_snapshots_are_cut_into_chunks() {
        let entries = vec![(12, vec![7; 400 << 10]); 5];
        let bytes = encode(12, &entries);
        assert_eq!(decode(&bytes), Ok((12, entries)));
        assert_eq!(bytes.len(), SNAPSHOT_HEADER + 3 * CHUNK_HEADER + CHUNK_HEADER + 5 * (4 + (400 << 10)));
    }

    #[test]
    fn positions_that_go_back_are_damage() {
        let bytes = encode(99, &[(120, vec![1]), (110, vec![2])]);
        assert_eq!(decode(&bytes), Err(SnapshotError::Chunk(1)));
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_noticed() {
        let bytes = encode(99, &[(99, vec![1, 2, 3]), (99, vec![]), (120, vec![4; 30])]);
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
