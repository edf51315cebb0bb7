//! Visits the records of a batch while it is decompressed as a stream, so that memory does not grow with the
//! decompressed size.

use super::varint::RecordCursor;
use super::{Batch, BatchError, HEADER_SIZE};
use crate::codec::{self, CodecError, Compression};
use std::io::{self, BufRead, BufReader, Read};

/// The size of the buffer of decompressed bytes.
const STEP: usize = 16 << 10;
/// The most decompressed bytes of a zstd frame whose window is larger than 8 MiB, because zstd holds the window in
/// memory.
const LARGE_WINDOW_CAP: usize = 8 << 20;

/// The facts about a record that [`Batch::walk`] passes to its visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSummary {
    /// Its timestamp less the batch's base timestamp, in milliseconds.
    pub timestamp_delta: i64,
    /// Its offset less the batch's base offset.
    pub offset_delta: i32,
    /// Whether it has a key.
    pub has_key: bool,
}

impl Batch {
    /// Calls `visit` for each record until it returns false. Decompresses at most `cap` bytes. If `visit` never returns
    /// false, the number of records is the count of the header, and nothing follows them.
    ///
    /// # Errors
    /// The errors of [`Batch::records`] and of its records.
    pub fn walk(&self, cap: usize, visit: &mut dyn FnMut(RecordSummary) -> bool) -> Result<(), BatchError> {
        let codec = self.header().compression()?;
        if codec == Compression::None {
            return self.walk_plain(cap, visit);
        }
        let mut shown = 0;
        let mut count = |summary| {
            shown += 1;
            visit(summary)
        };
        let first = self.walk_compressed(codec, cap, false, &mut count);
        let window = matches!(&first, Err(BatchError::Codec(CodecError::Malformed { .. })));
        if codec != Compression::Zstd || !window {
            return first;
        }
        // A later zstd frame may be the one with the large window. Records that were visited are not visited again.
        let mut seen = 0;
        let mut once = |summary| {
            seen += 1;
            seen <= shown || visit(summary)
        };
        self.walk_compressed(codec, cap.min(LARGE_WINDOW_CAP), true, &mut once)
    }

    fn walk_plain(&self, cap: usize, visit: &mut dyn FnMut(RecordSummary) -> bool) -> Result<(), BatchError> {
        for record in self.records(cap)?.iter() {
            let record = record?;
            let has_key = record.key.is_some();
            let (timestamp_delta, offset_delta) = (record.timestamp_delta, record.offset_delta);
            if !visit(RecordSummary { timestamp_delta, offset_delta, has_key }) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn walk_compressed(
        &self,
        codec: Compression,
        cap: usize,
        large: bool,
        visit: &mut dyn FnMut(RecordSummary) -> bool,
    ) -> Result<(), BatchError> {
        let compressed = self.bytes().slice(HEADER_SIZE..);
        let opened = codec::decoder(codec, &compressed, large)?.take(cap as u64 + 1);
        let mut stream = Stream { from: BufReader::with_capacity(STEP, opened), at: 0, end: usize::MAX };
        let fail =
            |why: io::Error| BatchError::Codec(CodecError::Malformed { codec, problem: why.to_string() });
        let too_large = || BatchError::Codec(CodecError::TooLarge { codec, cap });
        for record in 0..self.header().record_count {
            let offset = stream.at;
            let summary = stream.record().map_err(fail)?;
            if stream.at > cap {
                return Err(too_large());
            }
            match summary {
                Ok(summary) if !visit(summary) => return Ok(()),
                Ok(_) => {}
                Err(problem) => return Err(BatchError::Record { record, offset, problem }),
            }
        }
        let end = stream.at;
        let left = stream.skip(usize::MAX - end).map_err(fail)?;
        match stream.at - end {
            _ if stream.at > cap => Err(too_large()),
            0 => Ok(()),
            more => {
                debug_assert!(!left, "nothing is as long as that");
                Err(BatchError::TrailingBytes(more))
            }
        }
    }
}

/// A stream of decompressed bytes.
struct Stream<R> {
    from: BufReader<R>,
    /// Bytes read.
    at: usize,
    /// The end of the current record.
    end: usize,
}

/// A value, or none if it is malformed or does not fit.
type Step<T> = io::Result<Option<T>>;

impl<R: Read> Stream<R> {
    fn byte(&mut self) -> Step<u8> {
        if self.at == self.end {
            return Ok(None);
        }
        let byte = self.from.fill_buf()?.first().copied();
        if byte.is_some() {
            self.from.consume(1);
            self.at += 1;
        }
        Ok(byte)
    }

    /// Skips `count` bytes; false if there are fewer.
    fn skip(&mut self, mut count: usize) -> io::Result<bool> {
        if count > self.end - self.at {
            return Ok(false);
        }
        while count > 0 {
            let some = self.from.fill_buf()?.len().min(count);
            if some == 0 {
                return Ok(false);
            }
            self.from.consume(some);
            self.at += some;
            count -= some;
        }
        Ok(true)
    }

    /// A number of at most ten bytes, read as [`RecordCursor`] reads it.
    fn number(&mut self) -> Step<i64> {
        let (mut bytes, mut count) = ([0; 10], 0);
        for place in &mut bytes {
            let Some(byte) = self.byte()? else { return Ok(None) };
            *place = byte;
            count += 1;
            if byte < 0x80 {
                break;
            }
        }
        Ok(RecordCursor { bytes: &bytes[..count], at: 0 }.varlong())
    }

    /// A number of at most 32 bits, in five bytes.
    fn int(&mut self) -> Step<i32> {
        let from = self.at;
        let number = self.number()?.filter(|_| self.at - from <= 5);
        Ok(number.and_then(|number| i32::try_from(number).ok()))
    }

    /// Skips a bytes field; false if it is null.
    fn field(&mut self) -> Step<bool> {
        match self.int()? {
            None => Ok(None),
            Some(-1) => Ok(Some(false)),
            Some(length) => match usize::try_from(length) {
                Ok(length) => Ok(self.skip(length)?.then_some(true)),
                Err(_) => Ok(None),
            },
        }
    }

    /// Skips the next record. The inner error says what is wrong with it.
    fn record(&mut self) -> io::Result<Result<RecordSummary, &'static str>> {
        self.end = usize::MAX;
        let Some(length) = self.int()? else { return Ok(Err("its length is malformed")) };
        let Ok(length) = usize::try_from(length) else { return Ok(Err("its length is negative")) };
        self.end = self.at + length;
        let summary = self.fields()?;
        if self.at < self.end && self.from.fill_buf()?.is_empty() {
            return Ok(Err("it is longer than the remaining bytes"));
        }
        let inside = summary.and_then(|summary| {
            if self.at == self.end { Ok(summary) } else { Err("it is shorter than its length") }
        });
        self.end = usize::MAX;
        Ok(inside)
    }

    fn fields(&mut self) -> io::Result<Result<RecordSummary, &'static str>> {
        let Some(_attributes) = self.byte()? else { return Ok(Err("it is empty")) };
        let Some(timestamp_delta) = self.number()? else {
            return Ok(Err("its timestamp delta is malformed"));
        };
        let Some(offset_delta) = self.int()? else { return Ok(Err("its offset delta is malformed")) };
        let Some(has_key) = self.field()? else { return Ok(Err("its key does not fit")) };
        let Some(_has_value) = self.field()? else { return Ok(Err("its value does not fit")) };
        if !self.headers()? {
            return Ok(Err("its headers do not fit"));
        }
        Ok(Ok(RecordSummary { timestamp_delta, offset_delta, has_key }))
    }

    fn headers(&mut self) -> io::Result<bool> {
        let Some(count) = self.int()?.and_then(|count| u32::try_from(count).ok()) else { return Ok(false) };
        for _ in 0..count {
            if self.field()? != Some(true) || self.field()?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchBuilder, Header, NewRecord, seal};
    use crate::codec::compress;
    use bytes::Bytes;

    const CAP: usize = 1 << 20;

    fn seen(batch: &Batch) -> Result<Vec<RecordSummary>, BatchError> {
        let mut all = Vec::new();
        batch.walk(CAP, &mut |summary| {
            all.push(summary);
            true
        })?;
        Ok(all)
    }

    fn iterated(batch: &Batch) -> Result<Vec<RecordSummary>, BatchError> {
        let set = batch.records(CAP)?;
        let summary = |record: Result<crate::batch::Record<'_>, BatchError>| {
            let record = record?;
            Ok(RecordSummary {
                timestamp_delta: record.timestamp_delta,
                offset_delta: record.offset_delta,
                has_key: record.key.is_some(),
            })
        };
        set.iter().map(summary).collect()
    }

    /// A batch whose records are these bytes, compressed with a codec.
    fn batch(codec: Compression, records: &[u8], count: i32) -> Batch {
        let mut bytes = BatchBuilder::new(codec).build().unwrap().to_vec();
        bytes.truncate(HEADER_SIZE);
        bytes.extend(compress(codec, records).unwrap());
        bytes[57..61].copy_from_slice(&count.to_be_bytes());
        bytes[23..27].copy_from_slice(&(count - 1).to_be_bytes());
        seal(&mut bytes).unwrap();
        Batch::only(&Bytes::from(bytes)).unwrap()
    }

    fn records() -> Vec<u8> {
        let mut builder = BatchBuilder::new(Compression::None);
        for number in 0..200_i64 {
            let value = vec![b'v'; usize::try_from(number).unwrap() * 17];
            let key = (number % 3 > 0).then_some(&b"key"[..]);
            let headers = [Header { key: b"h", value: Some(b"x") }, Header { key: b"none", value: None }];
            builder.push(&NewRecord {
                timestamp: number * 1000,
                key,
                value: Some(&value),
                headers: &headers,
            });
        }
        builder.build().unwrap()[HEADER_SIZE..].to_vec()
    }

    #[test]
    fn a_walk_sees_what_the_records_are() {
        for codec in Compression::ALL {
            let batch = batch(codec, &records(), 200);
            assert_eq!(seen(&batch).unwrap().len(), 200);
            assert_eq!(seen(&batch), iterated(&batch), "{codec:?}");
        }
    }

    #[test]
    fn a_walk_refuses_what_cannot_be_read_with_the_same_words() {
        let whole = records();
        let mut cases = vec![
            (whole.clone(), 201),
            (whole.clone(), 199),
            (whole[..whole.len() - 1].to_vec(), 200),
            (vec![], 1),
        ];
        for at in 0..40 {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut spoilt = whole.clone();
                spoilt[at] = byte;
                cases.push((spoilt, 200));
            }
        }
        for (bytes, count) in cases {
            let (plain, compressed) =
                (batch(Compression::None, &bytes, count), batch(Compression::Lz4, &bytes, count));
            assert_eq!(seen(&compressed).is_ok(), iterated(&plain).is_ok(), "{:?}", iterated(&plain));
        }
    }

    #[test]
    fn a_walk_ends_at_the_cap_and_when_it_is_told_to() {
        for codec in Compression::ALL.into_iter().skip(1) {
            let large = batch(codec, &vec![0; CAP + 1], i32::MAX);
            let mut builder = BatchBuilder::new(codec);
            builder.push(&NewRecord { value: Some(&vec![0; 2 * CAP]), ..NewRecord::default() });
            builder.push(&NewRecord::default());
            let two = Batch::only(&builder.build().unwrap()).unwrap();
            assert_eq!(seen(&two), Err(BatchError::Codec(CodecError::TooLarge { codec, cap: CAP })));
            assert!(seen(&large).is_err());
            let mut times = 0;
            batch(codec, &records(), 200)
                .walk(CAP, &mut |_| {
                    times += 1;
                    times < 5
                })
                .unwrap();
            assert_eq!(times, 5);
        }
    }
}
