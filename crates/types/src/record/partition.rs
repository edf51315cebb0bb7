//! The records of partitions: batches, markers, the start of the log, producers, and where batches are stored.

use crate::{BatchSummary, LogPosition, Millis, Offset, ProducerEpoch, ProducerId, TopicPartition};
use bytes::Bytes;

/// A record of one partition.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionRecord {
    /// A batch of records was appended to a partition.
    BatchAppended(BatchAppended),
    /// A transaction marker was appended to a partition by WriteTxnMarkers (T-128).
    MarkerAppended(MarkerAppended),
    /// The start of a partition's log moved forward: DeleteRecords or retention (T-53, T-213).
    LogStartMoved(LogStartMoved),
    /// The state of idle producers of a partition expired (T-52).
    ProducersExpired(ProducersExpired),
    /// Batches of a partition were rewritten: they lie in runs now.
    PartsInstalled(PartsInstalled),
    /// Snapshot row: a partition's bounds.
    PartitionRestored(PartitionRestored),
    /// Snapshot row: where the older batches of a partition lie.
    PartsRestored(PartsRestored),
    /// Snapshot row: where a run of a partition's batches and markers lies.
    BatchesRestored(BatchesRestored),
    /// Snapshot row: one producer of a partition.
    ProducerRestored(ProducerRestored),
    /// Snapshot row: aborted transactions of a partition (T-209).
    AbortedRestored(AbortedRestored),
}

/// A batch in a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchAppended {
    /// The partition.
    pub partition: TopicPartition,
    /// Offset of the first record, as assigned.
    pub base_offset: Offset,
    /// Leader epoch written into the batch.
    pub leader_epoch: i32,
    /// The broker's time of the append.
    pub at: Millis,
    /// What decisions need of the batch, timestamps as stored.
    pub summary: BatchSummary,
    /// The batch bytes as the producer sent them. Storing them writes base offset and leader epoch into bytes 0..8 and
    /// 12..16, and, if the summary says log append time, sets attribute bit 3, the maximum timestamp and the checksum.
    /// On replay this is empty: the bytes stay where they are.
    pub payload: Bytes,
}

/// A transaction marker in one partition, outside a [`TransactionEnded`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkerAppended {
    /// The partition.
    pub partition: TopicPartition,
    /// The marker.
    pub marker: Marker,
    /// Offset the marker takes.
    pub offset: Offset,
}

/// The content of a transaction marker (T-120). Its batch bytes are computed from this and an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// COMMIT, else ABORT.
    pub commit: bool,
    /// The producer whose transaction ends.
    pub producer_id: ProducerId,
    /// Its epoch from here on.
    pub producer_epoch: ProducerEpoch,
    /// Epoch of the coordinator that decided (T-121).
    pub coordinator_epoch: i32,
    /// Timestamp of the marker.
    pub at: Millis,
}

/// A partition's log starts later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStartMoved {
    /// The partition.
    pub partition: TopicPartition,
    /// The first offset that can still be read.
    pub log_start: Offset,
}

/// Producers of a partition whose state expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducersExpired {
    /// The partition.
    pub partition: TopicPartition,
    /// The expired ones.
    pub producers: Vec<ProducerId>,
}

/// A range of a partition's offsets lies in runs from here on, and no longer where it was before. The same record is
/// used for a first rewrite, a merge of runs, and a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartsInstalled {
    /// The partition.
    pub partition: TopicPartition,
    /// First offset of the range: batches and parts lie in it as a whole or not at all.
    pub from: Offset,
    /// Last offset of the range.
    pub to: Offset,
    /// What holds the range now, by offset; nothing if compaction left nothing.
    pub parts: Vec<RunPart>,
}

/// Consecutive batches of a partition in a run: the counterpart of a segment in Kafka. A run is a file of sorted
/// batches that is never changed; in it the batches of a part follow each other without a gap, markers too, as clients
/// see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPart {
    /// Number of the run.
    pub run: u64,
    /// Offset at which the part begins. Records may be missing after it, because compaction removes them.
    pub base_offset: Offset,
    /// Last offset of the part.
    pub last_offset: Offset,
    /// Bytes of the batches.
    pub bytes: u64,
    /// The largest timestamp of its records, -1 for none.
    pub max_timestamp: Millis,
    /// When its newest batch was appended: retention counts from here if it has no timestamp.
    pub appended: Millis,
    /// Place of its first batch in the file.
    pub data: u64,
    /// Place of its first directory page in the file.
    pub directory: u64,
    /// How many directory pages it has.
    pub pages: u32,
    /// Compaction has processed it: it holds no two records with one key, nor one whose key is in an earlier part.
    pub clean: bool,
    /// The earliest time at which compaction can remove more of it: a tombstone, or the marker of a transaction without
    /// remaining records. -1 for never.
    pub horizon: Millis,
}

/// The bounds of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRestored {
    /// The partition.
    pub partition: TopicPartition,
    /// The first offset that can be read.
    pub log_start: Offset,
    /// The offset the next record takes.
    pub next_offset: Offset,
}

/// Where the older batches of a partition lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartsRestored {
    /// The partition.
    pub partition: TopicPartition,
    /// Its parts, by offset. They lie before all its batches that are still in the log.
    pub parts: Vec<RunPart>,
}

/// A run of a partition's batches, in offset order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchesRestored {
    /// The partition.
    pub partition: TopicPartition,
    /// Batches and markers.
    pub batches: Vec<StoredBatch>,
}

/// One batch of a partition, found by offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBatch {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Its largest timestamp, -1 for none.
    pub max_timestamp: Millis,
    /// When it was appended: retention counts from here if it has no timestamp. -1 if it has one.
    pub appended: Millis,
    /// Where its bytes are.
    pub place: BatchPlace,
}

/// Where the bytes of a batch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchPlace {
    /// In the log, `size` bytes from `position` on.
    Log {
        /// The first byte.
        position: LogPosition,
        /// Bytes of the batch.
        size: u32,
    },
    /// A marker has no stored bytes: they are computed from its content.
    Marker(Marker),
}

/// One producer of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerRestored {
    /// The partition.
    pub partition: TopicPartition,
    /// The producer.
    pub state: ProducerState,
}

/// The state of a producer in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// Coordinator epoch of its last marker, -1 if none.
    pub coordinator_epoch: i32,
    /// When it last appended, by the broker's clock (T-52).
    pub last_append: Millis,
    /// Timestamp of its last batch or marker, shown by DescribeProducers.
    pub last_timestamp: Millis,
    /// First offset of its open transaction, if one is open.
    pub transaction_start: Option<Offset>,
    /// Its last batches, oldest first, at most five.
    pub batches: Vec<ProducerBatch>,
}

/// One of the last batches of a producer, by which duplicates are recognised (T-41).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerBatch {
    /// Sequence number of its first record.
    pub first_sequence: i32,
    /// Sequence number of its last record.
    pub last_sequence: i32,
    /// Offset of its first record.
    pub first_offset: Offset,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Its largest timestamp.
    pub timestamp: Millis,
}

/// Aborted transactions of a partition, by marker offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortedRestored {
    /// The partition.
    pub partition: TopicPartition,
    /// The transactions.
    pub aborted: Vec<AbortedTransaction>,
}

/// An aborted transaction on one partition (T-205, T-209).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: ProducerId,
    /// Offset of its first record on this partition.
    pub first_offset: Offset,
    /// Offset of its marker.
    pub marker_offset: Offset,
}
