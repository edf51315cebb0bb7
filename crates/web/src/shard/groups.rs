//! Groups, and one group with its members and committed offsets.

use super::topics::name_of;
use crate::format::ByteText;
use ottla_broker::Context;
use ottla_broker::host::HostGone;
use ottla_core::Shard;
use ottla_core::groups::{GroupListing, GroupView, MemberView};
use ottla_core::offsets::OffsetLookup;
use ottla_wire::messages::{ConsumerProtocolAssignment, Message};
use serde::Serialize;

/// Bytes of an assignment that are shown at most if it is not one of a consumer.
const MAX_SHOWN_BYTES: usize = 1000;

/// A group in the list of groups.
#[derive(Serialize)]
pub(crate) struct GroupRow {
    pub(crate) id: String,
    pub(crate) state: &'static str,
    pub(crate) protocol_type: String,
    pub(crate) members: usize,
    /// Partitions with a committed offset.
    pub(crate) partitions: usize,
    /// Offsets between committed offsets and high watermarks.
    pub(crate) lag: i64,
}

/// One group.
pub(crate) struct GroupDetail {
    pub(crate) state: &'static str,
    pub(crate) protocol_type: String,
    /// The assignment strategy; empty unless the group is stable.
    pub(crate) protocol: String,
    pub(crate) members: Vec<MemberRow>,
    pub(crate) offsets: Vec<OffsetRow>,
}

/// A member of a group.
#[derive(Serialize)]
pub(crate) struct MemberRow {
    pub(crate) member_id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    /// The assigned partitions by topic, if the group is one of consumers.
    pub(crate) assignment: Vec<TopicAssignment>,
    /// The assignment as bytes, if it is not one of a consumer.
    pub(crate) raw: Option<ByteText>,
}

/// The partitions of a topic that are assigned to a member.
#[derive(Serialize)]
pub(crate) struct TopicAssignment {
    pub(crate) topic: String,
    pub(crate) partitions: Vec<i32>,
}

/// A committed offset.
#[derive(Serialize)]
pub(crate) struct OffsetRow {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) high_watermark: i64,
    pub(crate) lag: i64,
    pub(crate) metadata: String,
    pub(crate) committed_ms: i64,
    /// Producers whose open transactions stage another offset for the partition.
    pub(crate) staged_by: Vec<i64>,
}

/// The groups whose id contains `filter`.
pub(crate) async fn list(broker: &Context, filter: String) -> Result<Vec<GroupRow>, HostGone> {
    let rows = broker.shards().groups().read(move |shard, _| {
        let groups = shard.groups().list().filter(|group| group.group_id.contains(&filter));
        groups.map(|group| GroupRow::of(shard, &group)).collect()
    });
    rows.await
}

/// One group; none if there is no group of that id.
pub(crate) async fn find(broker: &Context, id: String) -> Result<Option<GroupDetail>, HostGone> {
    let read = broker.shards().groups().read(move |shard, _| {
        let group = shard.groups().describe(&id)?;
        Some((group, committed_offsets(shard, &id).collect::<Vec<_>>()))
    });
    let Some((group, offsets)) = read.await? else { return Ok(None) };
    let GroupView { state, protocol_type, protocol, members } = group;
    let members = members.into_iter().map(|member| MemberRow::of(member, &protocol_type)).collect();
    Ok(Some(GroupDetail { state: state.name(), protocol_type, protocol, members, offsets }))
}

impl GroupRow {
    fn of(shard: &Shard, group: &GroupListing<'_>) -> GroupRow {
        let lags: Vec<i64> = committed_offsets(shard, group.group_id).map(|one| one.lag).collect();
        GroupRow {
            id: group.group_id.to_owned(),
            state: group.state.name(),
            protocol_type: group.protocol_type.to_owned(),
            members: group.members,
            partitions: lags.len(),
            lag: lags.iter().sum(),
        }
    }
}

/// The committed offsets of a group whose partitions exist.
fn committed_offsets<'a>(shard: &'a Shard, group_id: &'a str) -> impl Iterator<Item = OffsetRow> + 'a {
    let all = shard.offsets().fetch_all(group_id, false);
    all.filter_map(move |(at, fetched)| {
        let OffsetLookup::Offset(committed) = fetched else { return None };
        let high_watermark = shard.partitions().get(at)?.high_watermark().0;
        Some(OffsetRow {
            topic: name_of(shard, at)?,
            partition: at.partition,
            offset: committed.offset.0,
            high_watermark,
            lag: (high_watermark - committed.offset.0).max(0),
            metadata: committed.metadata.clone(),
            committed_ms: committed.at.0,
            staged_by: shard.offsets().stagers(group_id, at).map(|producer| producer.0).collect(),
        })
    })
}

impl MemberRow {
    fn of(member: MemberView, protocol_type: &str) -> MemberRow {
        let consumer = (protocol_type == "consumer")
            .then(|| ConsumerProtocolAssignment::from_versioned_bytes(&member.assignment).ok())
            .flatten();
        let raw = consumer.is_none() && !member.assignment.is_empty();
        let topics = consumer.into_iter().flat_map(|(_, assignment)| assignment.assigned_partitions);
        let assignment = topics.map(|topic| TopicAssignment {
            topic: topic.topic.to_string(),
            partitions: topic.partitions.iter().collect(),
        });
        MemberRow {
            assignment: assignment.collect(),
            raw: raw.then(|| ByteText::new(&member.assignment, MAX_SHOWN_BYTES)),
            member_id: member.member_id,
            instance_id: member.instance_id,
            client_id: member.client_id,
            client_host: member.client_host,
        }
    }
}

impl TopicAssignment {
    /// The partition numbers, separated by commas.
    pub(crate) fn numbers(&self) -> String {
        self.partitions.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")
    }
}
