//! Every byte of what stays, named and placed: headers by their tables, records by the very code that reads them back.
//!
//! The pieces of an explanation come in the order of their bytes, a piece before those in it. Those in it lie side by side and
//! fill it; only texts and bytes have a part of their own in front, their length. What cannot be read is one piece named
//! `undecoded`.

use crate::group::GROUP_HEADER;
use crate::identity::IDENTITY_LEN;
use crate::read::array;
use crate::record::{DecodeError, Reader, read};
use crate::snapshot::{CHUNK_HEADER, SNAPSHOT_HEADER};
use ottla_types::TopicId;

/// What the bytes of a piece say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing of their own: the pieces in it say it, or nobody does.
    Nothing,
    /// A whole number.
    Number(i128),
    /// A number that has a name.
    Named(i64, &'static str),
    /// A truth value.
    Bool(bool),
    /// Milliseconds since 1970.
    Time(i64),
    /// A checksum, or a number by chance.
    Hex(u64),
    /// Text, behind its length unless it is a mark.
    Text(String),
    /// So many bytes, at the end of the piece.
    Bytes(usize),
    /// So many elements.
    Elements(u32),
    /// The id of a topic.
    Topic(TopicId),
}

/// A piece of something that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its name: that of a field.
    pub name: &'static str,
    /// Its place in a list.
    pub index: Option<u32>,
    /// What kind of field it is.
    pub word: &'static str,
    /// What its bytes say.
    pub said: Said,
    /// The first byte, counted from the start of what is explained.
    pub at: usize,
    /// Its bytes.
    pub size: usize,
    /// How many pieces it lies in.
    pub depth: usize,
    /// What it means, or an empty text.
    pub about: &'static str,
}

/// Gathers pieces while a record is read.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pieces: Vec<Piece>,
    open: Vec<usize>,
}

impl Trace {
    pub(crate) fn begin(&mut self, name: &'static str, index: Option<u32>, word: &'static str, at: usize) {
        self.open.push(self.pieces.len());
        let depth = self.open.len() - 1;
        self.pieces.push(Piece { name, index, word, said: Said::Nothing, at, size: 0, depth, about: "" });
    }

    pub(crate) fn end(&mut self, end: usize) {
        if let Some(piece) = self.open.pop().and_then(|id| self.pieces.get_mut(id)) {
            piece.size = end - piece.at;
        }
    }

    /// What the innermost piece that is not ended says.
    pub(crate) fn say(&mut self, said: Said) {
        if let Some(piece) = self.open.last().and_then(|id| self.pieces.get_mut(*id)) {
            piece.said = said;
        }
    }
}

/// The pieces of an entry without its length, as [`crate::record::decode`] reads it, and why it cannot be read to its end.
pub fn entry(bytes: &[u8]) -> (Vec<Piece>, Option<DecodeError>) {
    let mut input = Reader::traced(bytes);
    let error = read(&mut input).err();
    let read = input.at();
    let mut pieces = input.into_trace().pieces;
    if read < bytes.len() {
        pieces.push(Piece {
            name: "undecoded",
            index: None,
            word: "bytes",
            said: Said::Bytes(bytes.len() - read),
            at: read,
            size: bytes.len() - read,
            depth: 0,
            about: "",
        });
    }
    (pieces, error)
}

/// How the bytes of a header's field are read.
#[derive(Clone, Copy)]
enum As {
    Mark,
    Number,
    Hex,
    Zero,
}

/// A field of a header: name, bytes, how it is read, what it means.
type Row = (&'static str, usize, As, &'static str);

const IDENTITY: [Row; 7] = [
    ("magic", 8, As::Mark, "what the file is"),
    ("format", 2, As::Number, "version of the identity"),
    ("shard", 2, As::Number, "the shard whose log this is"),
    ("reserved", 4, As::Zero, ""),
    ("segment_size", 4, As::Number, "bytes of a segment"),
    ("log_id", 8, As::Hex, "random, repeated in every file"),
    ("checksum", 4, As::Hex, "of the bytes before"),
];

const SEGMENT: [Row; 10] = [
    ("magic", 8, As::Mark, "what the file is"),
    ("format", 2, As::Number, "version of the segment header"),
    ("shard", 2, As::Number, "the shard whose log this is"),
    ("epoch", 4, As::Number, "in which the segment was put into use"),
    ("log_id", 8, As::Hex, "that of the identity"),
    ("number", 8, As::Number, "of the segment"),
    ("segment_size", 8, As::Number, "bytes of a segment"),
    ("reserved", 4, As::Zero, ""),
    ("checksum", 4, As::Hex, "of the bytes before"),
    ("padding", 4048, As::Zero, "to the end of the block"),
];

const GROUP: [Row; 13] = [
    ("checksum", 4, As::Hex, "of everything behind it, without padding"),
    ("magic", 4, As::Mark, "a group begins"),
    ("format", 2, As::Number, "version of the group header"),
    ("shard", 2, As::Number, "the shard whose log this is"),
    ("epoch", 4, As::Number, "counts the times the folder was opened"),
    ("log_id", 8, As::Hex, "that of the identity"),
    ("sequence", 8, As::Number, "counts the groups of the log"),
    ("position", 8, As::Number, "of this group in the log"),
    ("durable", 8, As::Number, "everything before was synced when this was written"),
    ("payload", 4, As::Number, "bytes of the entries"),
    ("entries", 4, As::Number, "number of entries"),
    ("previous", 4, As::Hex, "checksum of the group before"),
    ("reserved", 4, As::Zero, ""),
];

const SNAPSHOT: [Row; 7] = [
    ("magic", 8, As::Mark, "what the file is"),
    ("format", 2, As::Number, "version of the snapshot"),
    ("shard", 2, As::Number, "the shard whose state this is"),
    ("reserved", 4, As::Zero, ""),
    ("log_id", 8, As::Hex, "that of the identity"),
    ("position", 8, As::Number, "replay begins here"),
    ("reserved", 4, As::Zero, ""),
];

const CHUNK: [Row; 6] = [
    ("checksum", 4, As::Hex, "of the snapshot's position and everything behind it"),
    ("magic", 4, As::Mark, "a chunk begins"),
    ("number", 4, As::Number, "of the chunk"),
    ("entries", 4, As::Number, "number of entries"),
    ("payload", 4, As::Number, "bytes of the entries"),
    ("reserved", 4, As::Zero, ""),
];

const END: [Row; 5] = [
    ("checksum", 4, As::Hex, "of the snapshot's position and everything behind it"),
    ("magic", 4, As::Mark, "the snapshot ends"),
    ("chunks", 4, As::Number, "number of chunks"),
    ("entries", 8, As::Number, "number of all entries"),
    ("reserved", 4, As::Zero, ""),
];

/// The pieces of an identity.
pub fn identity(bytes: &[u8]) -> Vec<Piece> {
    debug_assert_eq!(IDENTITY.iter().map(|row| row.1).sum::<usize>(), IDENTITY_LEN);
    header(bytes, &IDENTITY)
}

/// The pieces of the header block of a segment.
pub fn segment_header(bytes: &[u8]) -> Vec<Piece> {
    header(bytes, &SEGMENT)
}

/// The pieces of the header of a group.
pub fn group_header(bytes: &[u8]) -> Vec<Piece> {
    debug_assert_eq!(GROUP.iter().map(|row| row.1).sum::<usize>(), GROUP_HEADER);
    header(bytes, &GROUP)
}

/// The pieces of the header of a snapshot.
pub fn snapshot_header(bytes: &[u8]) -> Vec<Piece> {
    const CHECKSUM: Row = ("checksum", 4, As::Hex, "of the bytes before");
    let rows: Vec<Row> = SNAPSHOT.into_iter().chain([CHECKSUM]).collect();
    debug_assert_eq!(rows.iter().map(|row| row.1).sum::<usize>(), SNAPSHOT_HEADER);
    header(bytes, &rows)
}

/// The pieces of the header of a chunk, or of the end of a snapshot, in a snapshot of this format.
pub fn chunk_header(format: u16, bytes: &[u8]) -> Vec<Piece> {
    const POSITION: Row = ("position", 8, As::Number, "of the log when this was taken");
    debug_assert_eq!(CHUNK.iter().chain([&POSITION]).map(|row| row.1).sum::<usize>(), CHUNK_HEADER);
    let mut rows: Vec<Row> = match bytes.get(4..8) {
        Some(b"OTEN") => END.to_vec(),
        _ => CHUNK.to_vec(),
    };
    rows.extend((format > 0).then_some(POSITION));
    header(bytes, &rows)
}

/// Cuts a header into its fields; fewer if the bytes end.
fn header(bytes: &[u8], rows: &[Row]) -> Vec<Piece> {
    let mut at = 0;
    let mut pieces = Vec::with_capacity(rows.len());
    for (name, size, how, about) in rows.iter().copied() {
        let Some(field) = bytes.get(at..at + size) else { break };
        let (word, said) = say(field, how);
        pieces.push(Piece { name, index: None, word, said, at, size, depth: 0, about });
        at += size;
    }
    pieces
}

fn say(field: &[u8], how: As) -> (&'static str, Said) {
    let word = match field.len() {
        2 => "u16",
        4 => "u32",
        8 => "u64",
        _ => "bytes",
    };
    match how {
        As::Mark => ("mark", Said::Text(String::from_utf8_lossy(field).into_owned())),
        As::Number => (word, Said::Number(i128::from(little(field)))),
        As::Hex => (word, Said::Hex(little(field))),
        As::Zero if field.iter().all(|byte| *byte == 0) => ("zeros", Said::Nothing),
        As::Zero => ("zeros", Said::Bytes(field.len())),
    }
}

fn little(field: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide.iter_mut().zip(field).for_each(|(place, byte)| *place = *byte);
    array(&wide, 0).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::any_record;
    use crate::record::{encode, kind_name};
    use proptest::prelude::*;

    /// The pieces in one lie side by side and fill it, but for the length in front of texts and bytes.
    fn check_cover(pieces: &[Piece], len: usize) {
        let mut at = 0;
        for piece in pieces.iter().filter(|piece| piece.depth == 0) {
            assert_eq!(piece.at, at, "{} in {pieces:#?}", piece.name);
            at += piece.size;
        }
        assert_eq!(at, len, "{pieces:#?}");
        for (id, parent) in pieces.iter().enumerate() {
            let below = pieces[id + 1..].iter().take_while(|piece| piece.depth > parent.depth);
            let children: Vec<_> = below.filter(|piece| piece.depth == parent.depth + 1).collect();
            let mut at = parent.at;
            for child in &children {
                assert_eq!(child.at, at, "{} in {} of {pieces:#?}", child.name, parent.name);
                at += child.size;
            }
            assert!(children.is_empty() || at == parent.at + parent.size, "{}: {pieces:#?}", parent.name);
        }
    }

    fn bytes_of(record: &ottla_types::record::LogRecord) -> Vec<u8> {
        let mut bytes = Vec::new();
        let payload = encode(record, &mut bytes);
        bytes.extend(payload);
        bytes
    }

    proptest! {
        #[test]
        fn every_byte_of_a_record_belongs_to_a_named_piece(record in any_record()) {
            let bytes = bytes_of(&record);
            let (pieces, error) = entry(&bytes);
            prop_assert_eq!(error, None);
            prop_assert!(pieces.iter().all(|piece| piece.name != "undecoded"));
            prop_assert_eq!(&pieces[0].said, &Said::Named(i64::from(bytes[0]), kind_name(bytes[0]).unwrap()));
            check_cover(&pieces, bytes.len());
        }

        #[test]
        fn what_cannot_be_read_is_still_covered(record in any_record(), cut in 0.0..1.0, noise in any::<u8>()) {
            let mut bytes = bytes_of(&record);
            let at = (bytes.len() as f64 * cut) as usize;
            bytes[at] ^= noise;
            bytes.truncate(bytes.len().max(at) - at / 2);
            let (pieces, error) = entry(&bytes);
            prop_assert_eq!(error, crate::record::decode(&bytes).err());
            prop_assert_eq!(pieces.iter().filter(|piece| piece.depth == 0).map(|piece| piece.size).sum::<usize>(), bytes.len());
        }
    }

    #[test]
    fn headers_are_cut_as_they_are_written() {
        use crate::{BLOCK, Geometry, GroupHeader, Identity, SegmentHeader, seal_group};
        let of = Identity { log_id: 0xabcd, shard: 3, geometry: Geometry::new(64 << 10).unwrap() };
        let said = |pieces: &[Piece], name: &str| {
            pieces.iter().find(|piece| piece.name == name).map(|piece| piece.said.clone()).unwrap()
        };
        let pieces = identity(&of.encode());
        assert_eq!(said(&pieces, "log_id"), Said::Hex(0xabcd));
        assert_eq!(said(&pieces, "segment_size"), Said::Number(64 << 10));
        let mut block = vec![0; BLOCK as usize];
        SegmentHeader::of(&of, 9, 4).encode(&mut block);
        let pieces = segment_header(&block);
        check_cover(&pieces, block.len());
        assert_eq!((said(&pieces, "number"), said(&pieces, "epoch")), (Said::Number(9), Said::Number(4)));
        let (log_id, shard, epoch, sequence, position) = (0xabcd, 3, 7, 41, 8192);
        let (durable, payload, entries, previous) = (8000, 0, 0, 5);
        let header =
            GroupHeader { log_id, shard, epoch, sequence, position, durable, payload, entries, previous };
        let mut bytes = vec![0; GROUP_HEADER];
        let checksum = seal_group(&header, &mut bytes);
        let pieces = group_header(&bytes);
        check_cover(&pieces, GROUP_HEADER);
        assert_eq!(said(&pieces, "checksum"), Said::Hex(u64::from(checksum)));
        assert_eq!(said(&pieces, "durable"), Said::Number(8000));
        assert_eq!(said(&pieces, "previous"), Said::Hex(5));
        let head = crate::snapshot::SnapshotHeader { format: 1, log_id: 0xabcd, shard: 3, position: 77 };
        let head = head.encode();
        let pieces = snapshot_header(&head);
        check_cover(&pieces, SNAPSHOT_HEADER);
        assert_eq!(said(&pieces, "position"), Said::Number(77));
        let mut chunks = crate::snapshot::ChunkWriter::new(77);
        chunks.push(&[1, 2, 3]);
        let bytes = chunks.finish();
        let (chunk, end) = bytes.split_at(CHUNK_HEADER + 7);
        check_cover(&chunk_header(1, &chunk[..CHUNK_HEADER]), CHUNK_HEADER);
        assert_eq!(said(&chunk_header(1, chunk), "payload"), Said::Number(7));
        assert_eq!(said(&chunk_header(1, chunk), "position"), Said::Number(77));
        assert_eq!(said(&chunk_header(1, end), "chunks"), Said::Number(1));
        check_cover(&chunk_header(1, end), CHUNK_HEADER);
        check_cover(&chunk_header(0, end), CHUNK_HEADER - 8);
    }
}
