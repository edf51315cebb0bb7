//! Names every byte on the medium: the fields of headers by tables, the fields of records by the code that decodes
//! them.
//!
//! The spans of an explanation are in the order of their bytes, and a span comes before the spans inside it. The spans
//! inside it are adjacent and cover it, except for the length in front of texts and bytes. Bytes that cannot be read
//! are one span named `undecoded`.

use crate::group::GROUP_HEADER;
use crate::identity::IDENTITY_LEN;
use crate::read::array;
use crate::record::{DecodeError, Reader, read};
use crate::snapshot::{CHUNK_HEADER, SNAPSHOT_HEADER};
pub use crate::span::{FieldSpan, FieldValue};

/// The spans of an entry without its length, as [`crate::record::decode`] reads it, and the error if it cannot be read
/// to its end.
pub fn entry(bytes: &[u8]) -> (Vec<FieldSpan>, Option<DecodeError>) {
    let mut input = Reader::traced(bytes);
    let error = read(&mut input).err();
    let read = input.at();
    let mut spans = input.into_trace().spans;
    if read < bytes.len() {
        spans.push(FieldSpan {
            name: "undecoded",
            index: None,
            word: "bytes",
            value: FieldValue::Bytes(bytes.len() - read),
            at: read,
            size: bytes.len() - read,
            depth: 0,
            about: "",
        });
    }
    (spans, error)
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

/// The spans of an identity.
pub fn identity(bytes: &[u8]) -> Vec<FieldSpan> {
    debug_assert_eq!(IDENTITY.iter().map(|row| row.1).sum::<usize>(), IDENTITY_LEN);
    header(bytes, &IDENTITY)
}

/// The spans of the header block of a segment.
pub fn segment_header(bytes: &[u8]) -> Vec<FieldSpan> {
    header(bytes, &SEGMENT)
}

/// The spans of the header of a group.
pub fn group_header(bytes: &[u8]) -> Vec<FieldSpan> {
    debug_assert_eq!(GROUP.iter().map(|row| row.1).sum::<usize>(), GROUP_HEADER);
    header(bytes, &GROUP)
}

/// The spans of the header of a snapshot.
pub fn snapshot_header(bytes: &[u8]) -> Vec<FieldSpan> {
    const CHECKSUM: Row = ("checksum", 4, As::Hex, "of the bytes before");
    let rows: Vec<Row> = SNAPSHOT.into_iter().chain([CHECKSUM]).collect();
    debug_assert_eq!(rows.iter().map(|row| row.1).sum::<usize>(), SNAPSHOT_HEADER);
    header(bytes, &rows)
}

/// The spans of the header of a chunk, or of the end of a snapshot, in a snapshot of this format.
pub fn chunk_header(format: u16, bytes: &[u8]) -> Vec<FieldSpan> {
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
fn header(bytes: &[u8], rows: &[Row]) -> Vec<FieldSpan> {
    let mut at = 0;
    let mut spans = Vec::with_capacity(rows.len());
    for (name, size, how, about) in rows.iter().copied() {
        let Some(field) = bytes.get(at..at + size) else { break };
        let (word, value) = read_value(field, how);
        spans.push(FieldSpan { name, index: None, word, value, at, size, depth: 0, about });
        at += size;
    }
    spans
}

fn read_value(field: &[u8], how: As) -> (&'static str, FieldValue) {
    let word = match field.len() {
        2 => "u16",
        4 => "u32",
        8 => "u64",
        _ => "bytes",
    };
    match how {
        As::Mark => ("mark", FieldValue::Text(String::from_utf8_lossy(field).into_owned())),
        As::Number => (word, FieldValue::Number(i128::from(little(field)))),
        As::Hex => (word, FieldValue::Hex(little(field))),
        As::Zero if field.iter().all(|byte| *byte == 0) => ("zeros", FieldValue::Nothing),
        As::Zero => ("zeros", FieldValue::Bytes(field.len())),
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

    /// The spans inside a span are adjacent and cover it, except for the length in front of texts and bytes.
    fn check_cover(spans: &[FieldSpan], len: usize) {
        let mut at = 0;
        for span in spans.iter().filter(|span| span.depth == 0) {
            assert_eq!(span.at, at, "{} in {spans:#?}", span.name);
            at += span.size;
        }
        assert_eq!(at, len, "{spans:#?}");
        for (id, parent) in spans.iter().enumerate() {
            let below = spans[id + 1..].iter().take_while(|span| span.depth > parent.depth);
            let children: Vec<_> = below.filter(|span| span.depth == parent.depth + 1).collect();
            let mut at = parent.at;
            for child in &children {
                assert_eq!(child.at, at, "{} in {} of {spans:#?}", child.name, parent.name);
                at += child.size;
            }
            assert!(children.is_empty() || at == parent.at + parent.size, "{}: {spans:#?}", parent.name);
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
            let (spans, error) = entry(&bytes);
            prop_assert_eq!(error, None);
            prop_assert!(spans.iter().all(|span| span.name != "undecoded"));
            prop_assert_eq!(&spans[0].value, &FieldValue::Named(i64::from(bytes[0]), kind_name(bytes[0]).unwrap()));
            check_cover(&spans, bytes.len());
        }

        #[test]
        fn what_cannot_be_read_is_still_covered(record in any_record(), cut in 0.0..1.0, noise in any::<u8>()) {
            let mut bytes = bytes_of(&record);
            let at = (bytes.len() as f64 * cut) as usize;
            bytes[at] ^= noise;
            bytes.truncate(bytes.len().max(at) - at / 2);
            let (spans, error) = entry(&bytes);
            prop_assert_eq!(error, crate::record::decode(&bytes).err());
            prop_assert_eq!(spans.iter().filter(|span| span.depth == 0).map(|span| span.size).sum::<usize>(), bytes.len());
        }
    }

    #[test]
    fn headers_are_cut_as_they_are_written() {
        use crate::{BLOCK, Geometry, GroupHeader, Identity, SegmentHeader, seal_group};
        let of = Identity { log_id: 0xabcd, shard: 3, geometry: Geometry::new(64 << 10).unwrap() };
        let value_of = |spans: &[FieldSpan], name: &str| {
            spans.iter().find(|span| span.name == name).map(|span| span.value.clone()).unwrap()
        };
        let spans = identity(&of.encode());
        assert_eq!(value_of(&spans, "log_id"), FieldValue::Hex(0xabcd));
        assert_eq!(value_of(&spans, "segment_size"), FieldValue::Number(64 << 10));
        let mut block = vec![0; BLOCK as usize];
        SegmentHeader::of(&of, 9, 4).encode(&mut block);
        let spans = segment_header(&block);
        check_cover(&spans, block.len());
        assert_eq!(
            (value_of(&spans, "number"), value_of(&spans, "epoch")),
            (FieldValue::Number(9), FieldValue::Number(4))
        );
        let (log_id, shard, epoch, sequence, position) = (0xabcd, 3, 7, 41, 8192);
        let (durable, payload, entries, previous) = (8000, 0, 0, 5);
        let header =
            GroupHeader { log_id, shard, epoch, sequence, position, durable, payload, entries, previous };
        let mut bytes = vec![0; GROUP_HEADER];
        let checksum = seal_group(&header, &mut bytes);
        let spans = group_header(&bytes);
        check_cover(&spans, GROUP_HEADER);
        assert_eq!(value_of(&spans, "checksum"), FieldValue::Hex(u64::from(checksum)));
        assert_eq!(value_of(&spans, "durable"), FieldValue::Number(8000));
        assert_eq!(value_of(&spans, "previous"), FieldValue::Hex(5));
        let head = crate::snapshot::SnapshotHeader { format: 1, log_id: 0xabcd, shard: 3, position: 77 };
        let head = head.encode();
        let spans = snapshot_header(&head);
        check_cover(&spans, SNAPSHOT_HEADER);
        assert_eq!(value_of(&spans, "position"), FieldValue::Number(77));
        let mut chunks = crate::snapshot::ChunkWriter::new(77);
        chunks.push(&[1, 2, 3]);
        let bytes = chunks.finish();
        let (chunk, end) = bytes.split_at(CHUNK_HEADER + 7);
        check_cover(&chunk_header(1, &chunk[..CHUNK_HEADER]), CHUNK_HEADER);
        assert_eq!(value_of(&chunk_header(1, chunk), "payload"), FieldValue::Number(7));
        assert_eq!(value_of(&chunk_header(1, chunk), "position"), FieldValue::Number(77));
        assert_eq!(value_of(&chunk_header(1, end), "chunks"), FieldValue::Number(1));
        check_cover(&chunk_header(1, end), CHUNK_HEADER);
        check_cover(&chunk_header(0, end), CHUNK_HEADER - 8);
    }
}
