//! Record batches and their records.

use super::cursor::SourceCursor;
use super::values::{ReadResult, bytes, int};
use super::walk::{Step, Walk};
use super::{Kind, Note, Prefix, Problem, Region, Value};
use crate::batch::HEADER_SIZE;
use crate::codec::{Compression, decompress};
use bytes::Bytes;

const MAGIC_AT: usize = 16;
/// The bytes of base offset and length, which the length does not count.
const LENGTH_EXCLUDES: u64 = 12;
const CRC_FROM: usize = 21;
const CODEC_BITS: i16 = 7;
const CONTROL: i16 = 1 << 5;

/// The values of a batch header that its records depend on.
struct BatchContext {
    attributes: i16,
    count: i64,
}

impl Walk<'_> {
    /// A records field: batches, or the entries of an old message set, to its end.
    pub(super) fn records(&mut self, cur: &mut SourceCursor, id: usize) {
        let (region, message) = (self.region, self.message);
        let may_be_cut = message.ends_with("FetchResponse");
        self.region = Region::RecordBatch;
        let mut index = 0;
        while cur.left() > 0 {
            self.message = "RecordBatch";
            if self.batch_or_entry(cur, (index, may_be_cut)).is_err() {
                break;
            }
            index += 1;
        }
        if cur.left() > 0 {
            let first = self.out.nodes.len();
            self.undecoded(cur);
            if may_be_cut {
                self.edit(first, |node| node.note = Some(Note::Cut));
            }
        }
        (self.region, self.message) = (region, message);
        let end = self.out.nodes.len() as u32;
        self.edit(id, |node| node.end = end);
    }

    /// One batch or entry. Fails if the start of the next one is unknown.
    fn batch_or_entry(&mut self, cur: &mut SourceCursor, (index, may_be_cut): (u32, bool)) -> Step {
        let left = cur.left() as u64;
        let Some(magic) = cur.rest().get(MAGIC_AT).map(|magic| *magic as i8) else {
            if !may_be_cut {
                self.fault(cur, "records", Problem::Short { needed: HEADER_SIZE as u64, left });
            }
            return Err(super::walk::Stop);
        };
        let length = cur.rest().get(8..12).and_then(|raw| raw.try_into().ok()).map_or(0, i32::from_be_bytes);
        let Ok(needed) = u64::try_from(length).map(|length| length + LENGTH_EXCLUDES) else {
            return Err(self.fault(cur, "batch_length", Problem::Negative(length.into())));
        };
        if needed > left {
            if !may_be_cut {
                self.fault(cur, "batch_length", Problem::Short { needed, left });
            }
            return Err(super::walk::Stop);
        }
        let mut inner = cur.split(needed as usize).map_err(|problem| self.fault(cur, "records", problem))?;
        let (name, kind) = match magic {
            2 => ("RecordBatch", Kind::Version(2)),
            0 | 1 => ("Message", Kind::Version(magic.into())),
            _ => ("records", Kind::Blank),
        };
        let id = self.open(&inner, name, kind);
        self.edit(id, |node| node.index = Some(index));
        let _ = self.read_all(&mut inner, |walk, cur| match magic {
            2 => walk.batch(cur),
            0 | 1 => walk.message_set_entry(cur, magic),
            _ => Err(walk.fault(cur, "magic", Problem::Magic(magic))),
        });
        self.close(id, &inner);
        Ok(())
    }

    fn batch(&mut self, cur: &mut SourceCursor) -> Step {
        let whole = cur.clone();
        self.number(
            cur,
            ("base_offset", "int64", "offset of the first record, written by the broker"),
            SourceCursor::i64,
        )?;
        self.number(
            cur,
            ("batch_length", "int32", "number of bytes that follow in this batch"),
            SourceCursor::i32,
        )?;
        let about = "epoch of the leader that appended it, written by the broker";
        self.number(cur, ("partition_leader_epoch", "int32", about), SourceCursor::i32)?;
        self.number(cur, ("magic", "int8", "format of the batch"), SourceCursor::i8)?;
        let stated = whole.rest().get(CRC_FROM..).map(crc32c::crc32c).unwrap_or_default();
        self.crc(cur, "CRC-32C of everything from the attributes on", stated)?;
        let about = "codec, timestamp type, transactional, control, delete horizon";
        let attributes = self.leaf(cur, ("attributes", Kind::Word("int16"), about), |cur| {
            cur.i16().map(|bits| (bits, Value::Attributes(bits), None))
        })?;
        let about = "offset of the last record less the base offset";
        self.number(cur, ("last_offset_delta", "int32", about), SourceCursor::i32)?;
        self.timestamp(cur, "base_timestamp", "what the timestamps of the records count from")?;
        self.timestamp(cur, "max_timestamp", "the largest timestamp, or the time of the append")?;
        self.number(cur, ("producer_id", "int64", "the producer, -1 for none"), SourceCursor::i64)?;
        self.number(cur, ("producer_epoch", "int16", "its epoch, -1 for none"), SourceCursor::i16)?;
        let about = "sequence number of the first record, -1 for none";
        self.number(cur, ("base_sequence", "int32", about), SourceCursor::i32)?;
        let count = self.number(cur, ("record_count", "int32", "number of records"), SourceCursor::i32)?;
        self.batch_records(cur, &BatchContext { attributes, count })
    }

    fn batch_records(&mut self, cur: &mut SourceCursor, batch: &BatchContext) -> Step {
        match (batch.attributes & CODEC_BITS) as u8 {
            0 => self.record_list(cur, batch),
            codec => match self.decompressed(cur, codec)? {
                Some(mut inner) => {
                    self.read_source(&mut inner, |walk, cur| walk.record_list(cur, batch));
                    Ok(())
                }
                None => Ok(()),
            },
        }
    }

    /// Reads another source below the last node.
    pub(super) fn read_source(
        &mut self,
        inner: &mut SourceCursor,
        read: impl FnOnce(&mut Self, &mut SourceCursor) -> Step,
    ) {
        let id = self.out.nodes.len().saturating_sub(1);
        self.with_children(id, |walk| {
            let _ = walk.read_all(inner, read);
        });
    }

    /// Decompresses the rest of the cursor; `None` if it is empty.
    pub(super) fn decompressed(&mut self, cur: &mut SourceCursor, codec: u8) -> Step<Option<SourceCursor>> {
        let packed = cur.left();
        if packed == 0 {
            return Ok(None);
        }
        let cap = self.options.cap.saturating_sub(self.decompressed_bytes);
        let plain = match Compression::from_number(codec) {
            Some(codec) => decompress(codec, cur.rest(), cap).map_err(|why| why.to_string()),
            None => Err(format!("codec {codec}, which is not defined")),
        };
        let plain = plain.map_err(|why| self.fault(cur, "records", Problem::Codec(why)))?;
        self.decompressed_bytes += plain.len();
        let (source, to) = (self.out.sources.len() as u16, plain.len() as u32);
        let what = ("records", Kind::Word("compressed"), "the records, compressed as one");
        self.leaf(cur, what, |cur| {
            cur.take(packed)?;
            Ok(((), Value::Compressed { from: packed as u32, to }, None))
        })?;
        let plain = Bytes::from(plain);
        self.out.sources.push(plain.clone());
        Ok(Some(SourceCursor::new(source, plain)))
    }

    fn record_list(&mut self, cur: &mut SourceCursor, batch: &BatchContext) -> Step {
        self.region = Region::Record;
        self.message = "Record";
        let left = cur.left() as u64;
        match u64::try_from(batch.count) {
            Ok(count) if count <= left => {}
            Ok(count) => return Err(self.fault(cur, "record_count", Problem::Count { count, left })),
            Err(_) => return Err(self.fault(cur, "record_count", Problem::Negative(batch.count))),
        }
        for index in 0..batch.count {
            if self.out.is_cut() {
                // No node of the following records would be kept.
                cur.at = cur.end;
                break;
            }
            let id = self.open(cur, "Record", Kind::Blank);
            self.edit(id, |node| node.index = Some(index as u32));
            self.record(cur, batch.attributes & CONTROL != 0)?;
            self.close(id, cur);
        }
        Ok(())
    }

    fn record(&mut self, cur: &mut SourceCursor, control: bool) -> Step {
        let what = ("length", Kind::Word("varint"), "number of bytes that follow in this record");
        let length = self.leaf(cur, what, varint)?;
        let split = usize::try_from(length).map_err(|_| Problem::Negative(length)).and_then(|n| cur.split(n));
        let mut inner = split.map_err(|problem| self.fault(cur, "length", problem))?;
        let _ = self.read_all(&mut inner, |walk, cur| {
            walk.number(cur, ("attributes", "int8", "not used"), SourceCursor::i8)?;
            let what = ("timestamp_delta", Kind::Word("varlong"), "milliseconds from the base timestamp");
            walk.leaf(cur, what, |cur| {
                let (value, note) = cur.varlong()?;
                Ok(((), Value::Int(value), note))
            })?;
            walk.leaf(cur, ("offset_delta", Kind::Word("varint"), "offset less the base offset"), varint)?;
            walk.key_and_value(cur, control)?;
            walk.headers(cur)
        });
        Ok(())
    }

    fn key_and_value(&mut self, cur: &mut SourceCursor, control: bool) -> Step {
        let length = self.leaf(cur, ("key", Kind::Word("bytes"), "null for none"), |cur| {
            bytes(cur, Prefix::Varint, true)
        })?;
        let form = self.open_key(cur, length, control);
        let what = ("value", Kind::Word("bytes"), "null for a tombstone");
        let length = self.leaf(cur, what, |cur| bytes(cur, Prefix::Varint, true))?;
        self.open_value(cur, length, form);
        Ok(())
    }

    fn headers(&mut self, cur: &mut SourceCursor) -> Step {
        let id = self.open(cur, "headers", Kind::Word("[]Header"));
        let count = self.leaf(cur, ("length", Kind::Word("varint"), "number of headers"), varint)?;
        let Ok(count) = u32::try_from(count) else {
            return Err(self.fault(cur, "headers", Problem::Negative(count)));
        };
        self.edit(id, |node| node.value = Value::Elements(count));
        for index in 0..count {
            self.header(cur, index)?;
        }
        self.close(id, cur);
        Ok(())
    }

    fn header(&mut self, cur: &mut SourceCursor, index: u32) -> Step {
        let id = self.open(cur, "Header", Kind::Word("Header"));
        self.edit(id, |node| {
            node.index = Some(index);
            node.value = Value::Struct;
        });
        self.leaf(cur, ("key", Kind::Word("string"), ""), |cur| bytes(cur, Prefix::Varint, false))?;
        self.leaf(cur, ("value", Kind::Word("bytes"), ""), |cur| bytes(cur, Prefix::Varint, true))?;
        self.close(id, cur);
        Ok(())
    }

    pub(super) fn number<T: Into<i64>>(
        &mut self,
        cur: &mut SourceCursor,
        (name, word, about): (&'static str, &'static str, &'static str),
        read: impl FnOnce(&mut SourceCursor) -> Result<T, Problem>,
    ) -> Step<i64> {
        self.leaf(cur, (name, Kind::Word(word), about), int(read))
    }

    pub(super) fn timestamp(
        &mut self,
        cur: &mut SourceCursor,
        name: &'static str,
        about: &'static str,
    ) -> Step {
        self.leaf(cur, (name, Kind::Word("int64"), about), |cur| {
            cur.i64().map(|value| ((), Value::Timestamp(value), None))
        })
    }

    /// A checksum. A mismatch is a fault, after which the walk continues.
    pub(super) fn crc(&mut self, cur: &mut SourceCursor, about: &'static str, found: u32) -> Step {
        let before = cur.clone();
        let stated = self.leaf(cur, ("crc", Kind::Word("uint32"), about), |cur| {
            let stated = cur.u32()?;
            Ok((stated, Value::Crc(stated), (stated != found).then_some(Note::Crc)))
        })?;
        if stated != found {
            self.fault(&before, "crc", Problem::Crc { stated, found });
        }
        Ok(())
    }
}

fn varint(cur: &mut SourceCursor) -> ReadResult<i64> {
    let (value, note) = cur.varint()?;
    Ok((value.into(), Value::Int(value.into()), note))
}
