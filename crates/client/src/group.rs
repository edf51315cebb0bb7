//! Reading as a member of a classic consumer group: join, assignment, heartbeats, committed offsets.
//!
//! ```text
//!            JoinGroup, SyncGroup, OffsetFetch
//!   outside ─────────────────────────────────▶ member ─── leave ──▶ outside
//!      ▲                                         │
//!      └─ heartbeat or commit says: rebalance ───┘
//! ```
//! `poll` sends the heartbeats. A member that does not poll for a session timeout is removed from the group.

use crate::assign::{Share, Strategy, Subscriber, assign};
use crate::client::{Client, millis};
use crate::cluster::Coordinator;
use crate::commit::{GroupOffset, Membership};
use crate::consumer::{Consumer, Isolation};
use crate::error::{ClientError, check};
use crate::offsets::Start;
use crate::record::ConsumedRecord;
use bytes::Bytes;
use ottla_wire::messages::consumer_protocol_assignment::TopicPartition;
use ottla_wire::messages::join_group_request::JoinGroupRequestProtocol;
use ottla_wire::messages::leave_group_request::MemberIdentity;
use ottla_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use ottla_wire::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, HeartbeatRequest, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest,
};
use ottla_wire::{ErrorCode, Message, Versions};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

const PROTOCOL_TYPE: &str = "consumer";

/// The options of a member.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// Name of the group.
    pub group_id: String,
    /// Topics to share with the other members.
    pub topics: Vec<String>,
    /// The assignor, if this member leads.
    pub strategy: Strategy,
    /// The position to start from in a partition without a committed offset.
    pub start: Start,
    /// The isolation level.
    pub isolation: Isolation,
    /// The session timeout: without a heartbeat for this long the member is removed.
    pub session_timeout: Duration,
}

impl GroupOptions {
    /// Range assignment, read_committed, from the earliest offset, 45 seconds.
    pub fn new(group_id: &str, topics: &[&str]) -> GroupOptions {
        GroupOptions {
            group_id: group_id.to_owned(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            strategy: Strategy::Range,
            start: Start::Earliest,
            isolation: Isolation::ReadCommitted,
            session_timeout: Duration::from_secs(45),
        }
    }
}

/// A member of a group.
pub struct GroupConsumer {
    /// A connection apart from the consumer's, so that a Fetch that waits does not delay a heartbeat.
    client: Client,
    consumer: Consumer,
    options: GroupOptions,
    membership: Membership,
    joined: bool,
    last_heartbeat: Instant,
    committed: Vec<GroupOffset>,
}

impl GroupConsumer {
    /// A member that joins at the first poll. It opens connections of its own.
    pub fn new(client: &Client, options: GroupOptions) -> GroupConsumer {
        GroupConsumer {
            client: client.apart(),
            consumer: Consumer::new(client, options.isolation),
            membership: Membership::outside(&options.group_id),
            options,
            joined: false,
            last_heartbeat: Instant::now(),
            committed: Vec::new(),
        }
    }

    /// The current identity of the member, for offsets in a transaction.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The next offset of every assigned partition.
    pub fn positions(&self) -> Vec<GroupOffset> {
        self.consumer.positions()
    }

    /// True once every assigned partition has been read to its end as of the last Fetch.
    pub fn at_end(&self) -> bool {
        self.joined && self.consumer.at_end()
    }

    /// Joins if necessary, sends a heartbeat if one is due, and waits at most `wait` for records.
    ///
    /// Commit the processed records before the next poll, which may revoke partitions.
    pub async fn poll(&mut self, wait: Duration) -> Result<Vec<ConsumedRecord>, ClientError> {
        let pulse = self.options.session_timeout / 10;
        if self.joined && self.last_heartbeat.elapsed() >= pulse {
            self.heartbeat().await?;
        }
        if !self.joined {
            self.join().await?;
        }
        self.consumer.poll(wait.min(pulse)).await
    }

    /// Commits the positions. False if the group is rebalancing and did not accept them: the same records will be
    /// delivered again.
    pub async fn commit(&mut self) -> Result<bool, ClientError> {
        let positions = self.consumer.positions();
        self.commit_at(&positions).await
    }

    /// As [`GroupConsumer::commit`], with offsets that the caller gives.
    pub async fn commit_at(&mut self, offsets: &[GroupOffset]) -> Result<bool, ClientError> {
        let changed: Vec<GroupOffset> =
            offsets.iter().filter(|offset| !self.committed.contains(offset)).cloned().collect();
        if changed.is_empty() {
            return Ok(true);
        }
        match self.client.commit_offsets(&self.membership, &changed).await {
            Ok(()) => {
                let same = |old: &GroupOffset, new: &GroupOffset| {
                    old.topic == new.topic && old.partition == new.partition
                };
                self.committed.retain(|old| !changed.iter().any(|new| same(old, new)));
                self.committed.extend(changed);
                Ok(true)
            }
            Err(error) if self.is_lost(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Leaves, so that the other members need not wait for the session to time out.
    pub async fn leave(mut self) -> Result<(), ClientError> {
        if !self.joined {
            return Ok(());
        }
        self.joined = false;
        let client = &self.client;
        let node = client.coordinator(Coordinator::Group, &self.options.group_id).await?;
        let member =
            MemberIdentity { member_id: self.membership.member_id.as_str().into(), ..Default::default() };
        let request = LeaveGroupRequest {
            group_id: self.options.group_id.as_str().into(),
            members: vec![member],
            ..Default::default()
        };
        let answer = client.call(node, request).await?;
        check(answer.error_code, "LeaveGroup", || self.about())
    }

    fn about(&self) -> String {
        format!("group {:?}", self.options.group_id)
    }

    /// Whether an error means that the member has to join again; if so, the next poll joins.
    fn is_lost(&mut self, error: &ClientError) -> bool {
        match error.code() {
            Some(ErrorCode::REBALANCE_IN_PROGRESS) => {}
            Some(ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION) => {
                self.membership = Membership::outside(&self.options.group_id);
            }
            _ => return false,
        }
        self.joined = false;
        true
    }

    async fn heartbeat(&mut self) -> Result<(), ClientError> {
        self.last_heartbeat = Instant::now();
        let beaten = self.client.retrying("a heartbeat to be heard", || self.heartbeat_once()).await;
        match beaten {
            Err(error) if !self.is_lost(&error) => Err(error),
            _ => Ok(()),
        }
    }

    async fn heartbeat_once(&self) -> Result<(), ClientError> {
        let client = &self.client;
        let node = client.coordinator(Coordinator::Group, &self.options.group_id).await?;
        let request = HeartbeatRequest {
            group_id: self.options.group_id.as_str().into(),
            generation_id: self.membership.generation,
            member_id: self.membership.member_id.as_str().into(),
            ..Default::default()
        };
        let answer = client.call(node, request).await?;
        check(answer.error_code, "Heartbeat", || self.about())
    }

    /// Joins until a generation with this member is complete, then starts to read its partitions.
    async fn join(&mut self) -> Result<(), ClientError> {
        let started = Instant::now();
        loop {
            match self.join_once().await {
                Ok(share) => {
                    self.last_heartbeat = Instant::now();
                    self.take_up(share).await?;
                    self.joined = true;
                    return Ok(());
                }
                Err(error) if started.elapsed() >= self.client.options().patience => {
                    return Err(error);
                }
                Err(error) if self.is_lost(&error) => {}
                Err(error) if error.is_retriable() => {
                    self.client.view().forget();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// One JoinGroup and one SyncGroup. Returns the partitions assigned to this member.
    async fn join_once(&mut self) -> Result<Share, ClientError> {
        let client = self.client.clone();
        let node = client.coordinator(Coordinator::Group, &self.options.group_id).await?;
        let held = self.options.session_timeout;
        let mut joined =
            client.call_patiently(node, self.join_request()?, Versions::new(0, i16::MAX), held).await?;
        if ErrorCode(joined.error_code) == ErrorCode::MEMBER_ID_REQUIRED {
            self.membership.member_id = joined.member_id.to_string();
            joined =
                client.call_patiently(node, self.join_request()?, Versions::new(0, i16::MAX), held).await?;
        }
        check(joined.error_code, "JoinGroup", || self.about())?;
        self.membership.member_id = joined.member_id.to_string();
        self.membership.generation = joined.generation_id;
        let leads = joined.leader == joined.member_id && !joined.skip_assignment;
        let assignments = if leads { self.deal(&joined).await? } else { Vec::new() };
        let request = SyncGroupRequest {
            group_id: self.options.group_id.as_str().into(),
            generation_id: joined.generation_id,
            member_id: joined.member_id.clone(),
            protocol_type: Some(PROTOCOL_TYPE.into()),
            protocol_name: joined.protocol_name.clone(),
            assignments,
            ..Default::default()
        };
        let synced = client.call_patiently(node, request, Versions::new(0, i16::MAX), held).await?;
        check(synced.error_code, "SyncGroup", || self.about())?;
        read_assignment(&synced.assignment)
    }

    fn join_request(&self) -> Result<JoinGroupRequest, ClientError> {
        let subscription = ConsumerProtocolSubscription {
            topics: self.options.topics.iter().map(|topic| topic.as_str().into()).collect(),
            ..Default::default()
        };
        let metadata =
            subscription.to_versioned_bytes(1).map_err(|error| malformed("subscription", error))?;
        let protocol = JoinGroupRequestProtocol {
            name: self.options.strategy.name().into(),
            metadata,
            ..Default::default()
        };
        Ok(JoinGroupRequest {
            group_id: self.options.group_id.as_str().into(),
            session_timeout_ms: millis(self.options.session_timeout),
            rebalance_timeout_ms: millis(self.options.session_timeout),
            member_id: self.membership.member_id.as_str().into(),
            protocol_type: PROTOCOL_TYPE.into(),
            protocols: vec![protocol],
            ..Default::default()
        })
    }

    /// As the leader: assigns the partitions of all topics that any member subscribes to.
    async fn deal(&self, joined: &JoinGroupResponse) -> Result<Vec<SyncGroupRequestAssignment>, ClientError> {
        let mut members = Vec::new();
        for member in &joined.members {
            let (_, subscription) = ConsumerProtocolSubscription::from_versioned_bytes(&member.metadata)
                .map_err(|error| malformed("subscription of another member", error))?;
            let topics = subscription.topics.iter().map(|topic| topic.to_string()).collect();
            members.push(Subscriber { member_id: member.member_id.to_string(), topics });
        }
        let mut counts = BTreeMap::new();
        for topic in members.iter().flat_map(|member| &member.topics) {
            match self.client.ready_topic(topic, true).await {
                Ok(known) => counts.insert(topic.clone(), known.partitions.len() as i32),
                Err(error) if error.is(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => None,
                Err(error) => return Err(error),
            };
        }
        let shares = assign(self.options.strategy, &members, &counts);
        shares.into_iter().map(|(member_id, share)| write_assignment(member_id, share)).collect()
    }

    /// Starts to read at the committed offsets, or else where the options say.
    async fn take_up(&mut self, share: Share) -> Result<(), ClientError> {
        let client = self.client.clone();
        self.consumer.unassign();
        self.committed.clear();
        for (topic, partitions) in share {
            let committed =
                client.committed_offsets(&self.options.group_id, Some((&topic, &partitions))).await?;
            let is_new = |p: &&i32| !committed.iter().any(|known| known.offset.partition == **p);
            let fresh: Vec<i32> = partitions.iter().filter(is_new).copied().collect();
            let started =
                client.list_offsets(&topic, &fresh, self.options.start, self.options.isolation).await?;
            for (partition, place) in started {
                self.consumer.assign(&topic, partition, place.offset);
            }
            for known in committed {
                self.consumer.assign(&topic, known.offset.partition, known.offset.offset);
                self.committed.push(known.offset);
            }
        }
        Ok(())
    }
}

fn write_assignment(member_id: String, share: Share) -> Result<SyncGroupRequestAssignment, ClientError> {
    let partitions = share.into_iter().map(|(topic, partitions)| TopicPartition {
        topic: topic.into(),
        partitions: partitions.into(),
        ..Default::default()
    });
    let assignment =
        ConsumerProtocolAssignment { assigned_partitions: partitions.collect(), ..Default::default() };
    let assignment = assignment.to_versioned_bytes(1).map_err(|error| malformed("assignment", error))?;
    Ok(SyncGroupRequestAssignment { member_id: member_id.into(), assignment, ..Default::default() })
}

/// Partitions by topic from the bytes of an assignment; a member that gets nothing may get no bytes at all.
fn read_assignment(bytes: &Bytes) -> Result<Share, ClientError> {
    if bytes.is_empty() {
        return Ok(Share::new());
    }
    let (_, assignment) = ConsumerProtocolAssignment::from_versioned_bytes(bytes)
        .map_err(|error| malformed("assignment", error))?;
    let shares = assignment.assigned_partitions.iter();
    Ok(shares.map(|share| (share.topic.to_string(), share.partitions.to_vec())).collect())
}

fn malformed(what: &str, error: impl ToString) -> ClientError {
    ClientError::Malformed { what: what.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_survives_its_bytes() {
        let share = Share::from([("a".to_owned(), vec![0, 2]), ("b".to_owned(), vec![1])]);
        let written = write_assignment("m".to_owned(), share.clone()).unwrap();
        assert_eq!(read_assignment(&written.assignment).unwrap(), share);
        assert_eq!(read_assignment(&Bytes::new()).unwrap(), Share::new());
        assert!(read_assignment(&Bytes::from_static(b"\0\x01\0\0\0\x09")).is_err());
    }
}
