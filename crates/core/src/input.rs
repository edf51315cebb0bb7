//! Everything a shard can be asked or told.

use crate::{catalog, group, offsets, ops, partition};
use ottla_types::LogPosition;

/// One event for [`crate::Shard::step`].
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Time went by: [`crate::Shard::deadline`] was reached.
    Tick,
    /// Everything in the log before this position is durable.
    Durable(LogPosition),
    /// CreateTopics, or a topic created by Metadata.
    CreateTopics(catalog::CreateTopics),
    /// DeleteTopics.
    DeleteTopics(catalog::DeleteTopics),
    /// CreatePartitions.
    CreatePartitions(catalog::CreatePartitions),
    /// IncrementalAlterConfigs and AlterConfigs.
    AlterConfigs(catalog::AlterConfigs),
    /// Produce.
    Produce(ops::Produce),
    /// InitProducerId.
    InitProducerId(ops::InitProducerId),
    /// AddPartitionsToTxn, one transaction of it.
    AddPartitionsToTxn(ops::AddPartitionsToTxn),
    /// AddOffsetsToTxn.
    AddOffsetsToTxn(ops::AddOffsetsToTxn),
    /// EndTxn.
    EndTxn(ops::EndTxn),
    /// WriteTxnMarkers.
    WriteTxnMarkers(ops::WriteTxnMarkers),
    /// An administrator ends an open transaction.
    AbortTransaction(ops::AbortTransaction),
    /// DeleteRecords.
    DeleteRecords(ops::DeleteRecords),
    /// JoinGroup.
    JoinGroup(group::JoinGroup),
    /// SyncGroup.
    SyncGroup(group::SyncGroup),
    /// Heartbeat.
    Heartbeat(group::Heartbeat),
    /// LeaveGroup.
    LeaveGroup(group::LeaveGroup),
    /// DeleteGroups.
    DeleteGroups(group::DeleteGroups),
    /// OffsetCommit.
    CommitOffsets(offsets::CommitOffsets),
    /// TxnOffsetCommit.
    StageOffsets(offsets::StageOffsets),
    /// OffsetDelete.
    DeleteOffsets(offsets::DeleteOffsets),
    /// Parts were written to runs.
    InstallParts(partition::InstallParts),
}
