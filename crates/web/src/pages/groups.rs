//! Groups, and one group with its members, assignment, offsets and lag.

use super::text::{Shown, moment};
use crate::asked::{Asked, Refusal};
use crate::shell::Shell;
use askama::Template;
use ottla_core::Shard;
use ottla_core::group::{GroupView, MemberView};
use ottla_core::offsets::Fetched;
use ottla_types::TopicPartition;
use ottla_wire::messages::{ConsumerProtocolAssignment, Message};
use serde::Serialize;

/// The list of groups.
#[derive(Template, Serialize)]
#[template(path = "groups.html")]
pub(crate) struct GroupsPage {
    #[serde(skip)]
    shell: Shell,
    #[serde(skip)]
    filter: String,
    groups: Vec<GroupRow>,
    /// Groups that are not listed, for there are too many.
    left_out: usize,
}

/// A group in the list.
#[derive(Serialize)]
struct GroupRow {
    id: String,
    state: &'static str,
    protocol_type: String,
    members: usize,
    /// Partitions with a committed offset.
    partitions: usize,
    /// Records between committed offsets and high watermarks.
    lag: i64,
}

pub(crate) async fn groups(asked: Asked) -> Result<GroupsPage, Refusal> {
    let filter = asked.text("q").unwrap_or_default().to_owned();
    let wanted = filter.clone();
    let look = asked.app.broker.host().read(move |shard, _| {
        let groups = shard.groups().list().filter(|group| group.group_id.contains(&wanted));
        let row = |group: ottla_core::group::GroupListing<'_>| {
            let lags: Vec<i64> = committed(shard, group.group_id).map(|one| one.lag).collect();
            GroupRow {
                id: group.group_id.to_owned(),
                state: group.state.name(),
                protocol_type: group.protocol_type.to_owned(),
                members: group.members,
                partitions: lags.len(),
                lag: lags.iter().sum(),
            }
        };
        groups.map(row).collect()
    });
    let (groups, left_out) = super::cut(look.await?);
    Ok(GroupsPage { shell: asked.shell("Groups", "Groups"), filter, groups, left_out })
}

/// One group.
#[derive(Template, Serialize)]
#[template(path = "group.html")]
pub(crate) struct GroupPage {
    #[serde(skip)]
    shell: Shell,
    id: String,
    state: &'static str,
    protocol_type: String,
    /// How partitions are dealt; empty unless the group is stable.
    protocol: String,
    lag: i64,
    members: Vec<MemberRow>,
    members_left_out: usize,
    offsets: Vec<OffsetRow>,
    offsets_left_out: usize,
}

/// A member of a group.
#[derive(Serialize)]
struct MemberRow {
    member_id: String,
    instance_id: Option<String>,
    client_id: String,
    client_host: String,
    /// Topics and partitions, if the assignment is one of consumers.
    assignment: Vec<Assigned>,
    /// The assignment as bytes, if it is not one of consumers.
    raw: Option<Shown>,
}

#[derive(Serialize)]
struct Assigned {
    topic: String,
    partitions: Vec<i32>,
}

/// A committed offset.
#[derive(Serialize)]
struct OffsetRow {
    topic: String,
    partition: i32,
    offset: i64,
    high_watermark: i64,
    lag: i64,
    metadata: String,
    committed_ms: i64,
    /// Open transactions that have another offset staged: their producers.
    staged_by: Vec<i64>,
}

pub(crate) async fn group(asked: Asked) -> Result<GroupPage, Refusal> {
    let id = asked.text("id").ok_or_else(|| Refusal::bad("say which group: /group?id=NAME"))?.to_owned();
    let wanted = id.clone();
    let look = asked.app.broker.host().read(move |shard, _| {
        let group = shard.groups().describe(&wanted)?;
        Some((group, committed(shard, &wanted).collect::<Vec<_>>()))
    });
    let seen = look.await?;
    let (group, offsets) = seen.ok_or_else(|| Refusal::missing(format!("there is no group {id:?}")))?;
    let GroupView { state, protocol_type, protocol, members } = group;
    let members = members.into_iter().map(|member| MemberRow::of(member, &protocol_type));
    let (members, members_left_out) = super::cut(members.collect());
    let lag = offsets.iter().map(|one| one.lag).sum();
    let (offsets, offsets_left_out) = super::cut(offsets);
    Ok(GroupPage {
        shell: asked.shell(format!("Group {id}"), "Groups"),
        id,
        state: state.name(),
        protocol_type,
        protocol,
        lag,
        members,
        members_left_out,
        offsets,
        offsets_left_out,
    })
}

/// The committed offsets of a group whose partitions exist.
fn committed<'a>(shard: &'a Shard, group_id: &'a str) -> impl Iterator<Item = OffsetRow> + 'a {
    let all = shard.offsets().fetch_all(group_id, false);
    all.filter_map(move |(at, fetched)| {
        let Fetched::Offset(committed) = fetched else { return None };
        let high_watermark = shard.partitions().get(at)?.high_watermark().0;
        Some(OffsetRow {
            topic: topic_name(shard, at)?,
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

pub(super) fn topic_name(shard: &Shard, at: TopicPartition) -> Option<String> {
    shard.catalog().topic(at.topic).map(|topic| topic.name.clone())
}

impl MemberRow {
    fn of(member: MemberView, protocol_type: &str) -> MemberRow {
        let of_consumers = (protocol_type == "consumer")
            .then(|| ConsumerProtocolAssignment::from_versioned_bytes(&member.assignment).ok())
            .flatten();
        let raw = of_consumers.is_none() && !member.assignment.is_empty();
        let topics = of_consumers.into_iter().flat_map(|(_, assignment)| assignment.assigned_partitions);
        let assigned = topics.map(|topic| Assigned {
            topic: topic.topic.to_string(),
            partitions: topic.partitions.iter().collect(),
        });
        MemberRow {
            assignment: assigned.collect(),
            raw: raw.then(|| Shown::new(&member.assignment, 1000)),
            member_id: member.member_id,
            instance_id: member.instance_id,
            client_id: member.client_id,
            client_host: member.client_host,
        }
    }
}

impl Assigned {
    fn numbers(&self) -> String {
        self.partitions.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")
    }
}
