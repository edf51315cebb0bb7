//! Message sets of formats 0 and 1: Produce below version 3 and Fetch below version 4, which Kafka 4 does not support
//! any more.

use super::cursor::SourceCursor;
use super::values::bytes;
use super::walk::{Step, Walk};
use super::{Kind, Prefix, Region, Value};

/// The position from which the checksum covers the entry.
const CRC_FROM: usize = 16;
const CODEC_BITS: i16 = 7;

impl Walk<'_> {
    /// One entry: a message, or compressed messages.
    pub(super) fn message_set_entry(&mut self, cur: &mut SourceCursor, magic: i8) -> Step {
        self.message = "Message";
        let whole = cur.clone();
        self.number(
            cur,
            ("offset", "int64", "offset; of the last message inside, if compressed"),
            SourceCursor::i64,
        )?;
        self.number(
            cur,
            ("message_size", "int32", "number of bytes that follow in this entry"),
            SourceCursor::i32,
        )?;
        let found = whole.rest().get(CRC_FROM..).map(crc32).unwrap_or_default();
        self.crc(cur, "CRC-32 of everything from the magic on", found)?;
        self.number(cur, ("magic", "int8", "format of the message"), SourceCursor::i8)?;
        let about = "codec and timestamp type";
        let attributes = self.leaf(cur, ("attributes", Kind::Word("int8"), about), |cur| {
            let bits = i16::from(cur.i8()?);
            Ok((bits, Value::Attributes(bits), None))
        })?;
        if magic == 1 {
            self.timestamp(cur, "timestamp", "of creation or append")?;
        }
        self.region = Region::Record;
        self.leaf(cur, ("key", Kind::Word("bytes"), "null for none"), |cur| bytes(cur, Prefix::Int32, true))?;
        match (attributes & CODEC_BITS) as u8 {
            0 => self
                .leaf(cur, ("value", Kind::Word("bytes"), ""), |cur| bytes(cur, Prefix::Int32, true))
                .map(|_| ()),
            codec => self.compressed_entry(cur, codec),
        }
    }

    fn compressed_entry(&mut self, cur: &mut SourceCursor, codec: u8) -> Step {
        let about = "length of the compressed messages";
        self.number(cur, ("value_length", "int32", about), SourceCursor::i32)?;
        self.region = Region::RecordBatch;
        if let Some(mut inner) = self.decompressed(cur, codec)? {
            let id = self.out.nodes.len().saturating_sub(1);
            self.with_children(id, |walk| walk.records(&mut inner, id));
        }
        Ok(())
    }
}

/// The checksum of zlib, which only these formats use.
fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}
