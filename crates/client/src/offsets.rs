//! Offsets of partitions (ListOffsets), and committed offsets of groups.

use crate::client::{Client, millis};
use crate::cluster::{Coordinator, Node};
use crate::commit::{GroupOffset, Membership};
use crate::consumer::Isolation;
use crate::error::{ClientError, check};
use ottla_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use ottla_wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use ottla_wire::messages::{ListOffsetsRequest, OffsetCommitRequest, OffsetFetchRequest};
use ottla_wire::{ErrorCode, Versions};
use std::collections::BTreeMap;
use std::time::Duration;

/// A position in a partition, as a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The first record.
    Earliest,
    /// Behind the last record that the isolation level lets a reader see.
    Latest,
    /// The first record of this time or later, in milliseconds since the Unix epoch.
    Time(i64),
}

impl Start {
    fn timestamp(self) -> i64 {
        match self {
            Start::Earliest => -2,
            Start::Latest => -1,
            Start::Time(millis) => millis,
        }
    }
}

/// A position in a partition, as in a ListOffsets response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetAndTimestamp {
    /// The offset; -1 if no record is that late.
    pub offset: i64,
    /// Timestamp of the record there, -1 if the query does not need it.
    pub timestamp: i64,
}

/// The committed offset of a group for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The offset to continue from.
    pub offset: GroupOffset,
    /// The metadata that was committed with it.
    pub metadata: String,
}

impl Client {
    /// Looks up a position in each of the given partitions of a topic.
    pub async fn list_offsets(
        &self,
        topic: &str,
        partitions: &[i32],
        start: Start,
        isolation: Isolation,
    ) -> Result<BTreeMap<i32, OffsetAndTimestamp>, ClientError> {
        let look = || self.list_offsets_once(topic, partitions, start, isolation);
        self.retrying(&format!("offsets of topic {topic:?}"), look).await
    }

    async fn list_offsets_once(
        &self,
        topic: &str,
        partitions: &[i32],
        start: Start,
        isolation: Isolation,
    ) -> Result<BTreeMap<i32, OffsetAndTimestamp>, ClientError> {
        let known = self.topic(topic, false).await?;
        let mut by_leader: Vec<(Node, ListOffsetsRequest)> = Vec::new();
        for partition in partitions {
            let leader = known.leader(*partition)?;
            let wanted = ListOffsetsPartition {
                partition_index: *partition,
                timestamp: start.timestamp(),
                ..Default::default()
            };
            if let Some((_, request)) = by_leader.iter_mut().find(|(node, _)| *node == leader) {
                request.topics[0].partitions.push(wanted);
                continue;
            }
            let topic =
                ListOffsetsTopic { name: topic.into(), partitions: vec![wanted], ..Default::default() };
            let request = ListOffsetsRequest {
                replica_id: -1,
                isolation_level: isolation as i8,
                topics: vec![topic],
                timeout_ms: millis(self.options().request_timeout),
                ..Default::default()
            };
            by_leader.push((leader, request));
        }
        let mut found = BTreeMap::new();
        for answer in self.call_each(by_leader, Versions::new(1, i16::MAX), Duration::ZERO).await? {
            for partition in answer.topics.iter().flat_map(|topic| &topic.partitions) {
                let about = || format!("partition {} of topic {topic:?}", partition.partition_index);
                check(partition.error_code, "ListOffsets", about)?;
                let place = OffsetAndTimestamp { offset: partition.offset, timestamp: partition.timestamp };
                found.insert(partition.partition_index, place);
            }
        }
        Ok(found)
    }

    /// What a group has committed: for some partitions of one topic, or everything. Waits until no open transaction
    /// holds offsets of those partitions; without a list of partitions, a broker may leave out partitions that have no
    /// committed offset yet.
    pub async fn committed_offsets(
        &self,
        group: &str,
        within: Option<(&str, &[i32])>,
    ) -> Result<Vec<CommittedOffset>, ClientError> {
        let look = || self.committed_once(group, within, true);
        self.retrying(&format!("offsets of group {group:?}"), look).await
    }

    /// The offsets that a group has committed, without waiting for open transactions.
    pub async fn committed_so_far(&self, group: &str) -> Result<Vec<CommittedOffset>, ClientError> {
        let look = || self.committed_once(group, None, false);
        self.retrying(&format!("offsets of group {group:?}"), look).await
    }

    async fn committed_once(
        &self,
        group: &str,
        within: Option<(&str, &[i32])>,
        require_stable: bool,
    ) -> Result<Vec<CommittedOffset>, ClientError> {
        let topics = within.map(|(topic, partitions)| {
            vec![OffsetFetchRequestTopics {
                name: topic.into(),
                partition_indexes: partitions.into(),
                ..Default::default()
            }]
        });
        let wanted = OffsetFetchRequestGroup { group_id: group.into(), topics, ..Default::default() };
        let request = OffsetFetchRequest { groups: vec![wanted], require_stable, ..Default::default() };
        let node = self.coordinator(Coordinator::Group, group).await?;
        let answer = self.call(node, request).await?;
        let mut committed = Vec::new();
        for found in &answer.groups {
            if ErrorCode(found.error_code) == ErrorCode::GROUP_ID_NOT_FOUND {
                continue;
            }
            check(found.error_code, "OffsetFetch", || format!("group {group:?}"))?;
            for (topic, partition) in
                found.topics.iter().flat_map(|t| t.partitions.iter().map(move |p| (t, p)))
            {
                let about = || {
                    format!(
                        "group {group:?}, partition {} of topic {:?}",
                        partition.partition_index, topic.name
                    )
                };
                check(partition.error_code, "OffsetFetch", about)?;
                if partition.committed_offset < 0 {
                    continue;
                }
                let offset = GroupOffset {
                    topic: topic.name.to_string(),
                    partition: partition.partition_index,
                    offset: partition.committed_offset,
                };
                let metadata = partition.metadata.as_deref().unwrap_or_default().to_owned();
                committed.push(CommittedOffset { offset, metadata });
            }
        }
        committed.sort_by(|a, b| {
            (&a.offset.topic, a.offset.partition).cmp(&(&b.offset.topic, b.offset.partition))
        });
        Ok(committed)
    }

    /// Commits offsets of a group, outside of any transaction.
    pub async fn commit_offsets(
        &self,
        group: &Membership,
        offsets: &[GroupOffset],
    ) -> Result<(), ClientError> {
        let what = format!("offsets of group {:?} to be committed", group.group_id);
        self.retrying(&what, || self.commit_once(group, offsets)).await
    }

    async fn commit_once(&self, group: &Membership, offsets: &[GroupOffset]) -> Result<(), ClientError> {
        let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
        for offset in offsets {
            let partition = OffsetCommitRequestPartition {
                partition_index: offset.partition,
                committed_offset: offset.offset,
                ..Default::default()
            };
            if let Some(topic) = topics.iter_mut().find(|topic| topic.name == *offset.topic) {
                topic.partitions.push(partition);
                continue;
            }
            topics.push(OffsetCommitRequestTopic {
                name: offset.topic.as_str().into(),
                topic_id: self.topic(&offset.topic, false).await?.id,
                partitions: vec![partition],
                ..Default::default()
            });
        }
        let request = OffsetCommitRequest {
            group_id: group.group_id.as_str().into(),
            generation_id_or_member_epoch: group.generation,
            member_id: group.member_id.as_str().into(),
            topics,
            ..Default::default()
        };
        let node = self.coordinator(Coordinator::Group, &group.group_id).await?;
        let answer = self.call(node, request).await?;
        for partition in answer.topics.iter().flat_map(|topic| &topic.partitions) {
            let about = || format!("group {:?}, partition {}", group.group_id, partition.partition_index);
            check(partition.error_code, "OffsetCommit", about)?;
        }
        Ok(())
    }
}
