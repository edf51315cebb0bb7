//! Records as entries of a group: a tag byte, a version byte, the fields. One file per family.
//!
//! Tags and versions are frozen. To change a record, give it the next version and keep reading the old one.

mod access;
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

use crate::span::FieldValue;
use field::Field;
use ottla_types::record::{
    AclRecord, CatalogRecord, GroupRecord, LogRecord, OffsetRecord, PartitionRecord, QuotaRecord,
    TransactionRecord, UserRecord,
};

/// Every kind of record with its frozen tag, the version that is written, its frozen name, and its place in
/// [`LogRecord`].
macro_rules! kinds {
    ($($tag:literal $version:literal $name:ident = $machine:ident $(($record:ident::$kind:ident))?;)*) => {
        fn put(record: &LogRecord, out: &mut Vec<u8>) {
            match record {
                $(kinds!(@place fields $machine $($record $kind)?) => {
                    out.extend([$tag, $version]);
                    fields.put(out);
                })*
            }
        }

        fn take(tag: u8, version: u8, input: &mut Reader<'_>) -> Result<LogRecord, DecodeError> {
            match (tag, version) {
                $(($tag, $version) => {
                    Field::take(input).map(|fields| kinds!(@place fields $machine $($record $kind)?))
                })*
                (kind, version) => Err(DecodeError::Unknown { kind, version }),
            }
        }

        /// Tag and name of every kind of record, by tag.
        pub const KINDS: &[(u8, &str)] = &[$(($tag, stringify!($name))),*];
    };
    (@place $fields:ident $machine:ident) => { LogRecord::$machine($fields) };
    (@place $fields:ident $machine:ident $record:ident $kind:ident) => {
        LogRecord::$machine($record::$kind($fields))
    };
}

kinds! {
    1 0 ClusterCreated = Catalog(CatalogRecord::ClusterCreated);
    2 0 TopicCreated = Catalog(CatalogRecord::TopicCreated);
    3 0 TopicDeleted = Catalog(CatalogRecord::TopicDeleted);
    4 0 PartitionsAdded = Catalog(CatalogRecord::PartitionsAdded);
    5 0 TopicConfigured = Catalog(CatalogRecord::TopicConfigured);
    6 0 BrokerConfigured = Catalog(CatalogRecord::BrokerConfigured);
    7 0 ProducerIdsReserved = Transactions(TransactionRecord::ProducerIdsReserved);
    8 0 AclsChanged = Acls(AclRecord::AclsChanged);
    9 0 ScramChanged = Users(UserRecord::ScramChanged);
    10 0 QuotasChanged = Quotas(QuotaRecord::QuotasChanged);
    16 0 BatchAppended = Partitions(PartitionRecord::BatchAppended);
    17 0 MarkerAppended = Partitions(PartitionRecord::MarkerAppended);
    18 0 LogStartMoved = Partitions(PartitionRecord::LogStartMoved);
    19 0 ProducersExpired = Partitions(PartitionRecord::ProducersExpired);
    20 0 PartsInstalled = Partitions(PartitionRecord::PartsInstalled);
    32 0 TransactionUpdated = Transactions(TransactionRecord::TransactionUpdated);
    33 0 TransactionExtended = Transactions(TransactionRecord::TransactionExtended);
    34 0 TransactionEnded = Transactions(TransactionRecord::TransactionEnded);
    35 0 TransactionForgotten = Transactions(TransactionRecord::TransactionForgotten);
    48 0 GroupUpdated = Groups(GroupRecord::ClassicUpdated);
    49 0 GroupDeleted = Groups(GroupRecord::Deleted);
    64 0 OffsetsCommitted = Offsets(OffsetRecord::OffsetsCommitted);
    65 0 OffsetsStaged = Offsets(OffsetRecord::OffsetsStaged);
    66 0 OffsetsDeleted = Offsets(OffsetRecord::OffsetsDeleted);
    80 0 PartitionRestored = Partitions(PartitionRecord::PartitionRestored);
    81 0 BatchesRestored = Partitions(PartitionRecord::BatchesRestored);
    82 0 ProducerRestored = Partitions(PartitionRecord::ProducerRestored);
    83 0 AbortedRestored = Partitions(PartitionRecord::AbortedRestored);
    84 0 OffsetsRestored = Offsets(OffsetRecord::OffsetsRestored);
    85 0 StagedRestored = Offsets(OffsetRecord::StagedRestored);
    86 0 PartsRestored = Partitions(PartitionRecord::PartsRestored);
    87 0 SnapshotReached = SnapshotReached;
}

/// Appends a record's tag, version and fields to `out` and returns the bytes that follow them in the entry: those of a
/// batch, to be copied and then given to [`patch_batch`]; nothing for any other kind.
///
/// The batch bytes must be as many as its summary says, else the entry cannot be read back.
pub fn encode<'a>(record: &'a LogRecord, out: &mut Vec<u8>) -> &'a [u8] {
    put(record, out);
    match record {
        LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) => &batch.payload,
        _ => &[],
    }
}

/// A decoded record.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedRecord {
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
    let tag = input.span("kind", None, "u8", |input| {
        let tag = u8::take(input)?;
        input.set_value(|| FieldValue::Named(i64::from(tag), kind_name(tag).unwrap_or("unknown")));
        Ok(tag)
    })?;
    let version = input.field::<u8>("version")?;
    let record = take(tag, version, input)?;
    input.finish()?;
    Ok(record)
}

/// Reads the entry that [`encode`] and [`patch_batch`] made.
pub fn decode(entry: &[u8]) -> Result<DecodedRecord, DecodeError> {
    let mut input = Reader::new(entry);
    let record = read(&mut input)?;
    let payload = match &record {
        LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) => {
            Some(entry.len() - batch.summary.size as usize)
        }
        _ => None,
    };
    Ok(DecodedRecord { record, payload })
}

#[cfg(test)]
pub(crate) mod generators;
#[cfg(test)]
pub(crate) mod tests;
