//! What can be wrong with a batch.

use crate::codec::CodecError;

/// Why bytes are not a batch, or not one that a broker takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The bytes end before the batch does.
    #[error("a record batch of {needed} bytes or more, {left} are there")]
    Short {
        /// The bytes it needs.
        needed: usize,
        /// The bytes there are.
        left: usize,
    },
    /// Bytes behind the only batch that may be there.
    #[error("{0} bytes after the record batch")]
    TrailingBytes(usize),
    /// A format other than 2.
    #[error("record format {0}, only 2 is known")]
    Magic(i8),
    /// A length that leaves no room for the header.
    #[error("a batch length of {0}, at least 49 is needed")]
    Length(i32),
    /// The bytes are not those the checksum was made of.
    #[error("checksum {found:08x}, the batch says {stated:08x}")]
    Crc {
        /// What the header says.
        stated: u32,
        /// What the bytes give.
        found: u32,
    },
    /// A codec number that is not defined.
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
    /// A record out of line.
    #[error("offset delta {found} where {expected} is due")]
    OffsetDelta {
        /// The delta that is due.
        expected: i32,
        /// The one found.
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
