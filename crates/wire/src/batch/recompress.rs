//! Compresses the records of a batch with another codec. The records are streamed, so that memory holds little more
//! than the two compressed forms.

use super::{Batch, BatchError, HEADER_SIZE, header};
use crate::codec::{self, CodecError, Compression, Level};
use bytes::Bytes;
use std::io::{self, Read, Write};

impl Batch {
    /// The batch with its records in another codec, in at most `max` bytes. At most `cap` decompressed bytes are read.
    /// Validate the records before with [`Batch::walk`].
    ///
    /// # Errors
    /// The result is larger, or the records are not data of the codec.
    pub fn recompress(
        &self,
        target: Compression,
        level: Level,
        cap: usize,
        max: usize,
    ) -> Result<Bytes, BatchError> {
        let first = self.recompress_within(target, level, (cap, max), false);
        match &first {
            // The zstd window may be larger than the decoder's first limit, as in [`Batch::walk`].
            Err(BatchError::Codec(CodecError::Malformed { .. }))
                if self.header().compression() == Ok(Compression::Zstd) =>
            {
                self.recompress_within(target, level, (cap, max), true)
            }
            _ => first,
        }
    }

    fn recompress_within(
        &self,
        target: Compression,
        level: Level,
        (cap, max): (usize, usize),
        large_window: bool,
    ) -> Result<Bytes, BatchError> {
        let source = self.header().compression()?;
        let compressed = self.bytes().slice(HEADER_SIZE..);
        let mut records = codec::decoder(source, &compressed, large_window)?.take(cap as u64 + 1);
        let mut header = *self.header();
        header.set_compression(target);
        let mut bytes = LimitedBuffer { bytes: header.to_bytes().to_vec(), max, is_full: false };
        let copied = codec::encode_stream(target, level, &mut records, &mut bytes);
        if bytes.is_full {
            return Err(CodecError::TooLarge { codec: target, cap: max }.into());
        }
        let problem = |why: io::Error| CodecError::Malformed { codec: source, problem: why.to_string() };
        let copied = copied.map_err(problem)?;
        if copied > cap as u64 {
            return Err(CodecError::TooLarge { codec: source, cap }.into());
        }
        let mut bytes = bytes.bytes;
        header::seal(&mut bytes)?;
        Ok(Bytes::from(bytes))
    }
}

/// A buffer of limited size.
struct LimitedBuffer {
    bytes: Vec<u8>,
    max: usize,
    is_full: bool,
}

impl Write for LimitedBuffer {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if more.len() > self.max.saturating_sub(self.bytes.len()) {
            self.is_full = true;
            return Err(io::Error::other("the batch becomes too large"));
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchBuilder, BatchHeader, NewRecord};

    fn batch(codec: Compression) -> Batch {
        let mut builder = BatchBuilder::new(codec).producer(7, 3, 11).transactional(true);
        for number in 0..500 {
            let value = format!("value {number}").repeat(20);
            builder.push(&NewRecord {
                timestamp: 1000 + number,
                value: Some(value.as_bytes()),
                ..NewRecord::default()
            });
        }
        Batch::only(&builder.build().unwrap()).unwrap()
    }

    fn values(batch: &Batch) -> Vec<Vec<u8>> {
        let set = batch.records(1 << 20).unwrap();
        set.iter().map(|record| record.unwrap().value.unwrap().to_vec()).collect()
    }

    #[test]
    fn every_codec_becomes_every_other_with_the_same_records() {
        for source in Compression::ALL {
            let before = batch(source);
            for target in Compression::ALL {
                let bytes = before.recompress(target, Level::default(), 1 << 20, 1 << 20).unwrap();
                let after = Batch::only(&bytes).unwrap();
                after.validate_header().unwrap();
                after.validate_records(1 << 20).unwrap();
                assert_eq!(after.header().compression(), Ok(target));
                assert_eq!(values(&after), values(&before), "{source:?} {target:?}");
                let same =
                    |batch: &Batch| BatchHeader { attributes: 0, batch_length: 0, crc: 0, ..*batch.header() };
                assert_eq!(same(&after), same(&before));
                assert!(after.header().is_transactional());
            }
        }
    }

    #[test]
    fn levels_change_the_size() {
        let plain = batch(Compression::None);
        for (codec, weak, strong) in [(Compression::Gzip, 1, 9), (Compression::Zstd, -50, 19)] {
            let size = |level| plain.recompress(codec, Level(Some(level)), 1 << 20, 1 << 20).unwrap().len();
            assert!(size(weak) > size(strong), "{codec:?}");
        }
    }

    #[test]
    fn what_becomes_too_large_is_an_error() {
        let compressed = batch(Compression::Gzip);
        let max = compressed.bytes().len();
        let refused = compressed.recompress(Compression::None, Level::default(), 1 << 20, max);
        let codec = Compression::None;
        assert_eq!(refused, Err(BatchError::Codec(CodecError::TooLarge { codec, cap: max })));
        let refused = compressed.recompress(Compression::Zstd, Level::default(), 1000, 1 << 20);
        let codec = Compression::Gzip;
        assert_eq!(refused, Err(BatchError::Codec(CodecError::TooLarge { codec, cap: 1000 })));
    }
}
