//! Records as entries of a group: a tag byte, a version byte, the fields. One file per family.
//!
//! Tags and versions are frozen. To change a record, give it the next version and keep reading the old one.

mod catalog;
mod field;
mod group;
mod offsets;
mod partition;
mod restored;
mod transaction;

pub use field::DecodeError;
pub use partition::patch_batch;

pub(crate) use field::Reader;

use crate::explain::Said;
use field::Field;
use ottla_types::record::LogRecord;

/// Every kind of record with its frozen tag and the version that is written.
macro_rules! kinds {
    ($($tag:literal $version:literal $kind:ident;)*) => {
        fn put(record: &LogRecord, out: &mut Vec<u8>) {
            match record {
                $(LogRecord::$kind(fields) => {
                    out.extend([$tag, $version]);
                    fields.put(out);
                })*
            }
        }

        fn take(tag: u8, version: u8, input: &mut Reader<'_>) -> Result<LogRecord, DecodeError> {
            match (tag, version) {
                $(($tag, $version) => Field::take(input).map(LogRecord::$kind),)*
                (kind, version) => Err(DecodeError::Unknown { kind, version }),
            }
        }

        /// Tag and name of every kind of record, by tag.
        pub const KINDS: &[(u8, &str)] = &[$(($tag, stringify!($kind))),*];
    };
}

kinds! {
    1 0 ClusterCreated;
    2 0 TopicCreated;
    3 0 TopicDeleted;
    4 0 PartitionsAdded;
    5 0 TopicConfigured;
    6 0 BrokerConfigured;
    7 0 ProducerIdsReserved;
    16 0 BatchAppended;
    17 0 MarkerAppended;
    18 0 LogStartMoved;
    19 0 ProducersExpired;
    20 0 PartsInstalled;
    32 0 TransactionUpdated;
    33 0 TransactionExtended;
    34 0 TransactionEnded;
    35 0 TransactionForgotten;
    48 0 GroupUpdated;
    49 0 GroupDeleted;
    64 0 OffsetsCommitted;
    65 0 OffsetsStaged;
    66 0 OffsetsDeleted;
    80 0 PartitionRestored;
    81 0 BatchesRestored;
    82 0 ProducerRestored;
    83 0 AbortedRestored;
    84 0 OffsetsRestored;
    85 0 StagedRestored;
    86 0 PartsRestored;
    87 0 SnapshotReached;
}

/// Appends a record's tag, version and fields to `out` and returns the bytes that follow them in the entry: those of a batch,
/// to be copied and then given to [`patch_batch`]; nothing for any other kind.
///
/// The batch bytes must be as many as its summary says, else the entry cannot be read back.
pub fn encode<'a>(record: &'a LogRecord, out: &mut Vec<u8>) -> &'a [u8] {
    put(record, out);
    match record {
        LogRecord::BatchAppended(batch) => &batch.payload,
        _ => &[],
    }
}

/// A record read back.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The record; the payload of a batch is left empty.
    pub record: LogRecord,
    /// Where the batch bytes begin in the entry, if it is a batch. They reach to its end.
    pub payload: Option<usize>,
}

/// The name of a kind of record.
pub fn kind_name(tag: u8) -> Option<&'static str> {
    KINDS.iter().find(|(known, _)| *known == tag).map(|(_, name)| *name)
}

/// Reads a whole entry.
pub(crate) fn read(input: &mut Reader<'_>) -> Result<LogRecord, DecodeError> {
    let tag = input.piece("kind", None, "u8", |input| {
        let tag = u8::take(input)?;
        input.says(|| Said::Named(i64::from(tag), kind_name(tag).unwrap_or("unknown")));
        Ok(tag)
    })?;
    let version = input.field::<u8>("version")?;
    let record = take(tag, version, input)?;
    input.finish()?;
    Ok(record)
}

/// Reads the entry that [`encode`] and [`patch_batch`] made.
pub fn decode(entry: &[u8]) -> Result<Decoded, DecodeError> {
    let mut input = Reader::new(entry);
    let record = read(&mut input)?;
    let payload = match &record {
        LogRecord::BatchAppended(batch) => Some(entry.len() - batch.summary.size as usize),
        _ => None,
    };
    Ok(Decoded { record, payload })
}

#[cfg(test)]
pub(crate) mod tests;
