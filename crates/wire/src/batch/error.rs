//! The errors of record batches.

use crate::codec::CodecError;

/// Why bytes are not a batch, or not a batch that a broker accepts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The bytes end before the batch does.
    #[error("a record batch of {needed} bytes or more, {left} are there")]
    Short {
        /// The bytes that the batch needs.
        needed: usize,
        /// The bytes there are.
        left: usize,
    },
    /// Bytes after the batch where only one batch may be.
    #[error("{0} bytes after the record batch")]
    TrailingBytes(usize),
    /// A format other than 2.
    #[error("record format {0}, only 2 is known")]
    Magic(i8),
    /// A length that is smaller than the header.
    #[error("a batch length of {0}, at least 49 is needed")]
    Length(i32),
    /// The checksum does not match the bytes.
    #[error("checksum {found:08x}, the batch says {stated:08x}")]
    Crc {
        /// The checksum in the header.
        stated: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// An undefined codec number.
    #[error("compression codec {0} is not defined")]
    UnknownCodec(u8),
    /// The records cannot be decompressed.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// No records, or a negative number of them.
    #[error("a record count of {0}")]
    Count(i32),
    /// The last offset delta does not fit the count.
    #[error("a last offset delta of {delta} with {count} records")]
    LastOffsetDelta {
        /// The record count.
        count: i32,
        /// The last offset delta.
        delta: i32,
    },
    /// The control bit, which only brokers may set.
    #[error("the control bit is set")]
    Control,
    /// A producer id without a sequence number or epoch.
    #[error("a producer id with base sequence {0} or without an epoch")]
    Sequence(i32),
    /// A record with an unexpected offset delta.
    #[error("offset delta {found} where {expected} is due")]
    OffsetDelta {
        /// The expected delta.
        expected: i32,
        /// The delta of the record.
        found: i32,
    },
    /// A record that cannot be read.
    #[error("record {record} at byte {offset} of the decompressed records: {problem}")]
    Record {
        /// Its place in the batch, from 0.
        record: i32,
        /// The byte, counted from the start of the decompressed records.
        offset: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// A batch to be built would be too large for its length field.
    #[error("a record batch of {0} bytes is too large")]
    TooLarge(usize),
}
