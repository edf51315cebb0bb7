//! The vocabulary of the log: every durable effect, as plain data.
//!
//! A record says what was decided, never what was asked for, so that replay only applies and never judges.
//! `core` makes and applies them, `layout` gives them bytes that stay. A snapshot is a list of these records that rebuilds
//! the state: the `…Restored` kinds occur only there.

use crate::{BatchSummary, LogPosition, Millis, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition};
use bytes::Bytes;

/// One durable effect.
#[derive(Clone, Debug, PartialEq)]
pub enum LogRecord {
    /// The data folder got its identity.
    ClusterCreated(ClusterCreated),
    /// A topic exists from here on.
    TopicCreated(TopicCreated),
    /// A topic, its data and its committed and staged offsets are gone (T-191).
    TopicDeleted(TopicDeleted),
    /// A topic has more partitions.
    PartitionsAdded(PartitionsAdded),
    /// A topic's own configuration was replaced.
    TopicConfigured(TopicConfigured),
    /// The broker's dynamic configuration was replaced.
    BrokerConfigured(BrokerConfigured),
    /// Producer ids below a bound count as handed out (T-22).
    ProducerIdsReserved(ProducerIdsReserved),
    /// A batch of records was appended to a partition.
    BatchAppended(BatchAppended),
    /// A transaction marker was appended to a partition by WriteTxnMarkers (T-128).
    MarkerAppended(MarkerAppended),
    /// The start of a partition's log moved forward: DeleteRecords or retention (T-53, T-213).
    LogStartMoved(LogStartMoved),
    /// Idle producers of a partition were forgotten (T-52).
    ProducersExpired(ProducersExpired),
    /// Batches of a partition were rewritten: they lie in runs now.
    PartsInstalled(PartsInstalled),
    /// A transactional id was set to a state without touching partitions: InitProducerId, first partitions (T-251).
    TransactionUpdated(TransactionUpdated),
    /// Partitions joined an ongoing transaction.
    TransactionExtended(TransactionExtended),
    /// A transaction ended: decision, markers, offsets and completion in one (T-104, T-128, T-180).
    TransactionEnded(TransactionEnded),
    /// A transactional id expired (T-143).
    TransactionForgotten(TransactionForgotten),
    /// A group's durable state was replaced: a generation completed, or it emptied.
    GroupUpdated(GroupUpdated),
    /// Groups are gone, with committed and staged offsets (T-188).
    GroupDeleted(GroupDeleted),
    /// Offsets were committed outside a transaction.
    OffsetsCommitted(OffsetsCommitted),
    /// Offsets were staged in a transaction (T-168).
    OffsetsStaged(OffsetsStaged),
    /// Offsets were deleted or expired, committed and staged (T-189, T-190).
    OffsetsDeleted(OffsetsDeleted),
    /// Snapshot row: a partition's bounds.
    PartitionRestored(PartitionRestored),
    /// Snapshot row: where a run of a partition's batches and markers lies.
    BatchesRestored(BatchesRestored),
    /// Snapshot row: one producer of a partition.
    ProducerRestored(ProducerRestored),
    /// Snapshot row: aborted transactions of a partition (T-209).
    AbortedRestored(AbortedRestored),
    /// Snapshot row: committed offsets of a group, with the log positions that rank them (T-185).
    OffsetsRestored(OffsetsRestored),
    /// Snapshot row: staged offsets of one producer in a group (T-185).
    StagedRestored(StagedRestored),
    /// Snapshot row: where the older batches of a partition lie.
    PartsRestored(PartsRestored),
    /// Snapshot row: how far the snapshot had come when its next piece was taken.
    SnapshotReached(SnapshotReached),
}

/// The identity of a data folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterCreated {
    /// The cluster id shown to clients, 22 characters of URL-safe base64.
    pub cluster_id: String,
}

/// A new topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicCreated {
    /// Its id.
    pub id: TopicId,
    /// Its name.
    pub name: String,
    /// Number of partitions.
    pub partitions: i32,
    /// Configuration given for this topic, by Kafka's names, sorted by name.
    pub configs: Vec<(String, String)>,
    /// When.
    pub at: Millis,
}

/// A deleted topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDeleted {
    /// Its id.
    pub id: TopicId,
    /// When.
    pub at: Millis,
}

/// A topic that grew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionsAdded {
    /// The topic.
    pub id: TopicId,
    /// Number of partitions from here on.
    pub partitions: i32,
}

/// A topic's configuration, replaced whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfigured {
    /// The topic.
    pub id: TopicId,
    /// All configuration given for this topic, sorted by name.
    pub configs: Vec<(String, String)>,
}

/// The broker's dynamic configuration, replaced whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerConfigured {
    /// All dynamic configuration of the broker, sorted by name.
    pub configs: Vec<(String, String)>,
}

/// Producer ids that count as handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerIdsReserved {
    /// The first id that is still free.
    pub next: ProducerId,
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
    /// The batch bytes as the producer sent them. Storing them writes base offset and leader epoch into bytes 0..8 and 12..16,
    /// and, if the summary says log append time, sets attribute bit 3, the maximum timestamp and the checksum.
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

/// What a transaction marker says (T-120). Its batch bytes follow from this and an offset.
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

/// Producers of a partition that are forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducersExpired {
    /// The partition.
    pub partition: TopicPartition,
    /// The forgotten ones.
    pub producers: Vec<ProducerId>,
}

/// The durable states of a transactional id. Preparing is not among them: ending is one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Initialised, nothing added yet.
    Empty,
    /// Partitions were added.
    Ongoing,
    /// The last transaction committed.
    CompleteCommit,
    /// The last transaction aborted.
    CompleteAbort,
}

/// All that is remembered of a transactional id (T-251).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionState {
    /// The id.
    pub transactional_id: String,
    /// Current producer id.
    pub producer_id: ProducerId,
    /// The one before the last rotation, or none (T-32).
    pub previous_producer_id: ProducerId,
    /// Current epoch.
    pub epoch: ProducerEpoch,
    /// The epoch before the last bump if its owner may still retry, else none (T-31).
    pub last_epoch: ProducerEpoch,
    /// Transaction timeout in milliseconds.
    pub timeout: Millis,
    /// State.
    pub status: TransactionStatus,
    /// When the current or last transaction started, -1 if never (T-86).
    pub started: Millis,
    /// When this state was reached.
    pub updated: Millis,
}

/// A transactional id set to a new state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionUpdated {
    /// The new state.
    pub state: TransactionState,
    /// Data partitions in the transaction, all of them.
    pub partitions: Vec<TopicPartition>,
    /// Partitions of the offsets topic in the transaction, all of them (T-151).
    pub offset_partitions: Vec<i32>,
}

/// Partitions added to an ongoing transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionExtended {
    /// The transactional id.
    pub transactional_id: String,
    /// Added data partitions.
    pub partitions: Vec<TopicPartition>,
    /// Added partitions of the offsets topic.
    pub offset_partitions: Vec<i32>,
    /// When.
    pub at: Millis,
}

/// A transaction's end, whole: nobody can see half of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionEnded {
    /// The state after completion: CompleteCommit or CompleteAbort, with the next owner's producer id and epoch.
    pub state: TransactionState,
    /// The marker that goes into each partition; it may still carry the old producer id (T-105).
    pub marker: Marker,
    /// Where it goes: each data partition of the transaction that still exists, with the offset the marker takes.
    pub partitions: Vec<(TopicPartition, Offset)>,
}

/// An expired transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionForgotten {
    /// The id.
    pub transactional_id: String,
}

/// A classic group's durable state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupUpdated {
    /// The group.
    pub group_id: String,
    /// Generation number; 0 before the first.
    pub generation: i32,
    /// Protocol type ("consumer", "connect" …), none before the first join.
    pub protocol_type: Option<String>,
    /// The chosen protocol (assignor), none if the group is empty.
    pub protocol: Option<String>,
    /// Member id of the leader, none if the group is empty.
    pub leader: Option<String>,
    /// The members of the generation.
    pub members: Vec<GroupMember>,
    /// When.
    pub at: Millis,
}

/// A member of a completed generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Member id.
    pub member_id: String,
    /// Static id (KIP-345), if any.
    pub instance_id: Option<String>,
    /// Client id of its connection.
    pub client_id: String,
    /// Address of its connection.
    pub client_host: String,
    /// Rebalance timeout in milliseconds.
    pub rebalance_timeout: Millis,
    /// Session timeout in milliseconds.
    pub session_timeout: Millis,
    /// Protocols it supports, in its order of preference, each with its metadata.
    pub protocols: Vec<(String, Bytes)>,
    /// What the leader assigned to it.
    pub assignment: Bytes,
}

/// A group that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDeleted {
    /// The group.
    pub group_id: String,
}

/// A committed or staged offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The offset to continue from.
    pub offset: Offset,
    /// Leader epoch of the last consumed record, -1 for none.
    pub leader_epoch: i32,
    /// The client's own note.
    pub metadata: String,
    /// When it was committed or staged.
    pub at: Millis,
}

/// Offsets committed outside a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetsCommitted {
    /// The group.
    pub group_id: String,
    /// What was committed.
    pub offsets: Vec<(TopicPartition, CommittedOffset)>,
}

/// Offsets staged in a transaction: invisible until it commits (T-180).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetsStaged {
    /// The group.
    pub group_id: String,
    /// The producer whose transaction decides.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// What was staged.
    pub offsets: Vec<(TopicPartition, CommittedOffset)>,
}

/// Offsets that are gone, committed and staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetsDeleted {
    /// The group.
    pub group_id: String,
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
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

/// A run of a partition's batches, in offset order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchesRestored {
    /// The partition.
    pub partition: TopicPartition,
    /// Batches and markers.
    pub batches: Vec<StoredBatch>,
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
    /// Nowhere: a marker's bytes follow from what it says.
    Marker(Marker),
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

/// A stretch of a partition's batches in a run: what a segment is to Kafka. A run is a file of sorted batches that is never
/// changed; in it the batches of a part follow each other without a gap, markers too, as clients see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPart {
    /// Number of the run.
    pub run: u64,
    /// Offset at which the part begins. Records may be missing behind it: compaction takes them out.
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
    /// Compaction has seen it: it holds no two records with one key, nor one whose key is in an earlier part.
    pub clean: bool,
    /// The earliest time at which compaction can take something more out of it: a mark of a deleted key, or of a transaction
    /// that left nothing else. -1 for never.
    pub horizon: Millis,
}

/// A range of a partition's offsets lies in runs from here on, whatever held it before. The same record takes in a first
/// rewrite, a merge of runs, and a compaction.
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

/// Where the older batches of a partition lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartsRestored {
    /// The partition.
    pub partition: TopicPartition,
    /// Its parts, by offset. They lie before all its batches that are still in the log.
    pub parts: Vec<RunPart>,
}

/// One batch a producer is remembered by (T-41).
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

/// What a partition knows of a producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// Coordinator epoch of its last marker, -1 if none.
    pub coordinator_epoch: i32,
    /// When it last appended, by the broker's clock (T-52, the better way).
    pub last_append: Millis,
    /// Timestamp of its last batch or marker, shown by DescribeProducers.
    pub last_timestamp: Millis,
    /// First offset of its open transaction, if one is open.
    pub transaction_start: Option<Offset>,
    /// Its last batches, oldest first, at most five.
    pub batches: Vec<ProducerBatch>,
}

/// One producer of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerRestored {
    /// The partition.
    pub partition: TopicPartition,
    /// The producer.
    pub state: ProducerState,
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

/// Aborted transactions of a partition, by marker offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortedRestored {
    /// The partition.
    pub partition: TopicPartition,
    /// The transactions.
    pub aborted: Vec<AbortedTransaction>,
}

/// Committed offsets with the log positions of the records that set them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetsRestored {
    /// The group.
    pub group_id: String,
    /// Partition, offset, position of its record (a staged offset keeps the position at which it was staged: T-185).
    pub offsets: Vec<(TopicPartition, CommittedOffset, LogPosition)>,
}

/// Staged offsets with the log positions of the records that staged them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedRestored {
    /// The group.
    pub group_id: String,
    /// The producer whose transaction decides.
    pub producer_id: ProducerId,
    /// Partition, offset, position of its record.
    pub offsets: Vec<(TopicPartition, CommittedOffset, LogPosition)>,
}

/// The last row of a piece of a snapshot. Pieces are taken one after the other while the log goes on: at the position of this
/// piece everything up to `unit`, inclusive, is in the snapshot, and nothing of what comes after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotReached {
    /// The last unit that was looked for.
    pub unit: SnapshotUnit,
}

/// What goes into a snapshot in one piece, in the order in which it goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotUnit {
    /// The cluster id, the broker's configuration, the producer ids that are taken.
    Broker,
    /// A topic, without its partitions.
    Topic(TopicId),
    /// A partition.
    Partition(TopicPartition),
    /// A transactional id.
    TransactionalId(String),
    /// A group, without its offsets.
    Group(String),
    /// The offsets of a group.
    Offsets(String),
    /// Whatever there is: the snapshot is whole.
    All,
}
