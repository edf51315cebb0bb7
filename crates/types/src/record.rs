//! The records of the log: every durable effect, as plain data.
//!
//! A record holds a decision, not the request that led to it, so replay applies records and decides nothing. `core`
//! makes and applies them, `layout` encodes them. A snapshot is a list of these records that rebuilds the state; the
//! kinds named `…Restored` occur only there.
//!
//! Each state machine has its own enum of records, in a file of its own. [`LogRecord`] joins them.

mod acl;
mod catalog;
mod group;
mod offsets;
mod partition;
mod quota;
mod snapshot;
mod transaction;
mod user;

pub use acl::{AclRecord, AclsChanged};
pub use catalog::{
    BrokerConfigured, CatalogRecord, ClusterCreated, PartitionsAdded, TopicConfigured, TopicCreated,
    TopicDeleted,
};
pub use group::{ClassicGroupUpdated, ClassicMember, GroupDeleted, GroupRecord};
pub use offsets::{
    CommittedOffset, OffsetRecord, OffsetsCommitted, OffsetsDeleted, OffsetsRestored, OffsetsStaged,
    StagedRestored,
};
pub use partition::{
    AbortedRestored, AbortedTransaction, BatchAppended, BatchPlace, BatchesRestored, LogStartMoved, Marker,
    MarkerAppended, PartitionRecord, PartitionRestored, PartsInstalled, PartsRestored, ProducerBatch,
    ProducerRestored, ProducerState, ProducersExpired, RunPart, StoredBatch,
};
pub use quota::{QuotaRecord, QuotasChanged};
pub use snapshot::{SnapshotReached, SnapshotUnit};
pub use transaction::{
    ProducerIdsReserved, TransactionEnded, TransactionExtended, TransactionForgotten, TransactionRecord,
    TransactionState, TransactionStatus, TransactionUpdated,
};
pub use user::{ScramChanged, ScramCredential, ScramMechanism, UserRecord};

/// One durable effect, by the state machine that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub enum LogRecord {
    /// Of the catalog.
    Catalog(CatalogRecord),
    /// Of a partition.
    Partitions(PartitionRecord),
    /// Of transactional ids and producer ids.
    Transactions(TransactionRecord),
    /// Of a group.
    Groups(GroupRecord),
    /// Of the offsets of a group.
    Offsets(OffsetRecord),
    /// Of access control.
    Acls(AclRecord),
    /// Of users.
    Users(UserRecord),
    /// Of client quotas.
    Quotas(QuotaRecord),
    /// Snapshot row: the last unit that the snapshot contained when its next piece was taken.
    SnapshotReached(SnapshotReached),
}

impl From<SnapshotReached> for LogRecord {
    fn from(reached: SnapshotReached) -> LogRecord {
        LogRecord::SnapshotReached(reached)
    }
}

/// Each record becomes a [`LogRecord`] by way of its machine's enum.
macro_rules! records {
    ($($variant:ident($record:ident) { $($kind:ident($fields:ident),)* })*) => {$(
        impl From<$record> for LogRecord {
            fn from(record: $record) -> LogRecord {
                LogRecord::$variant(record)
            }
        }

        $(impl From<$fields> for LogRecord {
            fn from(fields: $fields) -> LogRecord {
                LogRecord::$variant($record::$kind(fields))
            }
        })*
    )*};
}

records! {
    Catalog(CatalogRecord) {
        ClusterCreated(ClusterCreated),
        TopicCreated(TopicCreated),
        TopicDeleted(TopicDeleted),
        PartitionsAdded(PartitionsAdded),
        TopicConfigured(TopicConfigured),
        BrokerConfigured(BrokerConfigured),
    }
    Partitions(PartitionRecord) {
        BatchAppended(BatchAppended),
        MarkerAppended(MarkerAppended),
        LogStartMoved(LogStartMoved),
        ProducersExpired(ProducersExpired),
        PartsInstalled(PartsInstalled),
        PartitionRestored(PartitionRestored),
        PartsRestored(PartsRestored),
        BatchesRestored(BatchesRestored),
        ProducerRestored(ProducerRestored),
        AbortedRestored(AbortedRestored),
    }
    Transactions(TransactionRecord) {
        ProducerIdsReserved(ProducerIdsReserved),
        TransactionUpdated(TransactionUpdated),
        TransactionExtended(TransactionExtended),
        TransactionEnded(TransactionEnded),
        TransactionForgotten(TransactionForgotten),
    }
    Groups(GroupRecord) {
        ClassicUpdated(ClassicGroupUpdated),
        Deleted(GroupDeleted),
    }
    Offsets(OffsetRecord) {
        OffsetsCommitted(OffsetsCommitted),
        OffsetsStaged(OffsetsStaged),
        OffsetsDeleted(OffsetsDeleted),
        OffsetsRestored(OffsetsRestored),
        StagedRestored(StagedRestored),
    }
    Acls(AclRecord) {
        AclsChanged(AclsChanged),
    }
    Users(UserRecord) {
        ScramChanged(ScramChanged),
    }
    Quotas(QuotaRecord) {
        QuotasChanged(QuotasChanged),
    }
}
