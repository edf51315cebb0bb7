//! `ottla group`: consumer groups, their members and their offsets.

use super::Connect;
use super::failure::{Failure, refused};
use super::out::{Out, numbers};
use clap::{Args, Subcommand};
use ottla_client::{Client, CommittedOffset, Coordinator, GroupOffset, Isolation, Membership, Start};
use ottla_wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use ottla_wire::messages::list_groups_response::ListedGroup;
use ottla_wire::messages::{
    ConsumerProtocolAssignment, DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest,
};
use ottla_wire::{ErrorCode, Message};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// List, describe and delete consumer groups; show and reset their offsets.
#[derive(Args)]
pub(crate) struct Group {
    #[command(flatten)]
    connect: Connect,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List all groups with their state.
    #[command(visible_alias = "ls")]
    List,
    /// Show the state of a group, its members and their assigned partitions.
    Describe {
        /// Name of the group.
        group: String,
    },
    /// Delete a group with its committed offsets. It must have no members.
    Delete {
        /// Name of the group.
        group: String,
    },
    /// Show the committed offsets of a group, and their lag to the end of each partition.
    Offsets {
        /// Name of the group.
        group: String,
    },
    #[command(visible_alias = "seek")]
    Reset(Reset),
}

/// Set the committed offsets of a group in a topic. The group must have no members.
#[derive(Args)]
struct Reset {
    /// Name of the group; it is created if it does not exist.
    group: String,
    /// Topic whose offsets are set.
    #[arg(short, long)]
    topic: String,
    /// Set this partition only.
    #[arg(short, long, value_name = "NUMBER")]
    partition: Option<i32>,
    /// Where to continue: earliest, latest, or an offset.
    #[arg(long, value_name = "PLACE", value_parser = reset_to)]
    to: ResetTo,
}

/// The offset to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResetTo {
    Start(Start),
    Offset(i64),
}

fn reset_to(text: &str) -> Result<ResetTo, String> {
    match text {
        "earliest" | "beginning" => Ok(ResetTo::Start(Start::Earliest)),
        "latest" | "end" => Ok(ResetTo::Start(Start::Latest)),
        _ => match text.parse() {
            Ok(offset) if offset >= 0 => Ok(ResetTo::Offset(offset)),
            _ => Err("expected earliest, latest, or an offset from 0 on".to_owned()),
        },
    }
}

impl Group {
    pub(super) async fn run(self, out: &mut Out) -> Result<(), Failure> {
        let client = self.connect.client().await?;
        let json = self.connect.is_json();
        match self.command {
            Command::List => list(&client, json, out).await,
            Command::Describe { group } => describe(&client, &group, json, out).await,
            Command::Delete { group } => {
                delete(&client, &group).await?;
                match json {
                    true => Ok(out.json(&json!({ "group": group, "deleted": true }))?),
                    false => Ok(out.line(format!("group {group} deleted"))?),
                }
            }
            Command::Offsets { group } => offsets(&client, &group, json, out).await,
            Command::Reset(reset) => reset.run(&client, json, out).await,
        }
    }
}

async fn list(client: &Client, json: bool, out: &mut Out) -> Result<(), Failure> {
    let mut groups: Vec<ListedGroup> = Vec::new();
    for node in client.brokers().await? {
        let answer = client.call(node, ListGroupsRequest::default()).await?;
        refused(answer.error_code, "ListGroups", || "all groups".to_owned(), None)?;
        groups.extend(answer.groups);
    }
    groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
    if json {
        let groups = groups.iter().map(|group| {
            json!({
                "group": &*group.group_id,
                "state": &*group.group_state,
                "type": &*group.group_type,
                "protocol_type": &*group.protocol_type,
            })
        });
        return Ok(out.json(&Value::Array(groups.collect()))?);
    }
    let rows = groups.iter().map(|group| {
        let cells = [&group.group_id, &group.group_state, &group.group_type, &group.protocol_type];
        cells.map(ToString::to_string).to_vec()
    });
    Ok(out.table(&["GROUP", "STATE", "TYPE", "PROTOCOL"], &rows.collect::<Vec<_>>())?)
}

async fn describe(client: &Client, group: &str, json: bool, out: &mut Out) -> Result<(), Failure> {
    let node = client.coordinator(Coordinator::Group, group).await?;
    let request = DescribeGroupsRequest { groups: vec![group.into()], ..Default::default() };
    let answer = client.call(node, request).await?;
    let Some(found) = answer.groups.into_iter().next() else {
        return Err(Failure::new(format!("the broker does not describe group {group:?}")));
    };
    refused(found.error_code, "DescribeGroups", || quoted(group), found.error_message.as_deref())?;
    // Before version 6, DescribeGroups describes an unknown group as dead.
    if &*found.group_state == "Dead" {
        refused(ErrorCode::GROUP_ID_NOT_FOUND.0, "DescribeGroups", || quoted(group), None)?;
    }
    if json {
        return Ok(out.json(&described(&found))?);
    }
    out.line(format!(
        "group {}, state {}, {} members",
        found.group_id,
        found.group_state,
        found.members.len()
    ))?;
    if !found.protocol_data.is_empty() {
        out.line(format!("protocol {}, assignment {}", found.protocol_type, found.protocol_data))?;
    }
    if found.members.is_empty() {
        return Ok(());
    }
    let rows = found.members.iter().map(|member| {
        let reads = assignment(member);
        let reads = reads.iter().map(|(topic, partitions)| format!("{topic}[{}]", numbers(partitions)));
        let cells = [&member.member_id, &member.client_id, &member.client_host];
        let mut row = cells.map(ToString::to_string).to_vec();
        row.push(reads.collect::<Vec<_>>().join(" "));
        row
    });
    Ok(out.table(&["MEMBER", "CLIENT", "HOST", "READS"], &rows.collect::<Vec<_>>())?)
}

fn described(group: &DescribedGroup) -> Value {
    let members = group.members.iter().map(|member| {
        json!({
            "member": &*member.member_id,
            "instance": member.group_instance_id.as_deref(),
            "client": &*member.client_id,
            "host": &*member.client_host,
            "assignment": assignment(member),
        })
    });
    json!({
        "group": &*group.group_id,
        "state": &*group.group_state,
        "protocol_type": &*group.protocol_type,
        "assignor": &*group.protocol_data,
        "members": members.collect::<Vec<_>>(),
    })
}

/// Partitions by topic; empty for protocols other than that of consumers.
fn assignment(member: &DescribedGroupMember) -> BTreeMap<String, Vec<i32>> {
    let Ok((_, assignment)) = ConsumerProtocolAssignment::from_versioned_bytes(&member.member_assignment)
    else {
        return BTreeMap::new();
    };
    let topics = assignment.assigned_partitions.iter();
    topics.map(|topic| (topic.topic.to_string(), topic.partitions.to_vec())).collect()
}

async fn offsets(client: &Client, group: &str, json: bool, out: &mut Out) -> Result<(), Failure> {
    let committed = client.committed_so_far(group).await?;
    let mut rows = Vec::new();
    for CommittedOffset { offset, metadata } in committed {
        let end = end_of(client, &offset).await?;
        rows.push((offset, end, metadata));
    }
    if json {
        let rows = rows.iter().map(|(at, end, metadata)| {
            json!({
                "topic": at.topic,
                "partition": at.partition,
                "committed": at.offset,
                "end": end,
                "lag": end.map(|end| end - at.offset),
                "metadata": metadata,
            })
        });
        return Ok(out.json(&Value::Array(rows.collect()))?);
    }
    let rows = rows.into_iter().map(|(at, end, metadata)| {
        let number = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
        let lag = number(end.map(|end| end - at.offset));
        vec![at.topic, at.partition.to_string(), at.offset.to_string(), number(end), lag, metadata]
    });
    Ok(out.table(&["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "METADATA"], &rows.collect::<Vec<_>>())?)
}

/// The end offset of the partition of a committed offset; none if it was deleted.
async fn end_of(client: &Client, at: &GroupOffset) -> Result<Option<i64>, Failure> {
    let partition = [at.partition];
    match client.list_offsets(&at.topic, &partition, Start::Latest, Isolation::ReadUncommitted).await {
        Ok(found) => Ok(found.get(&at.partition).map(|found| found.offset)),
        Err(error) if error.is(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Reset {
    async fn run(self, client: &Client, json: bool, out: &mut Out) -> Result<(), Failure> {
        let topic = client.topic(&self.topic, false).await?;
        let partitions: Vec<i32> = match self.partition {
            Some(partition) => vec![partition],
            None => topic.partitions.keys().copied().collect(),
        };
        partitions.iter().try_for_each(|partition| topic.leader(*partition).map(drop))?;
        let offset = |(partition, offset)| GroupOffset { topic: self.topic.clone(), partition, offset };
        let offsets: Vec<GroupOffset> = match self.to {
            ResetTo::Offset(number) => {
                partitions.iter().map(|partition| offset((*partition, number))).collect()
            }
            ResetTo::Start(start) => {
                let found =
                    client.list_offsets(&self.topic, &partitions, start, Isolation::ReadUncommitted).await?;
                found.into_iter().map(|(partition, found)| offset((partition, found.offset))).collect()
            }
        };
        let committed = client.commit_offsets(&Membership::outside(&self.group), &offsets).await;
        committed.map_err(|error| match error.code() {
            Some(ErrorCode::UNKNOWN_MEMBER_ID) => Failure::new(format!(
                "group {:?} has members, which continue from their own offsets",
                self.group
            ))
            .remedy("Stop them first; `ottla group describe` shows them."),
            _ => error.into(),
        })?;
        if json {
            let offsets = offsets.iter().map(|at| json!({ "partition": at.partition, "offset": at.offset }));
            let offsets: Vec<Value> = offsets.collect();
            return Ok(out.json(&json!({ "group": self.group, "topic": self.topic, "offsets": offsets }))?);
        }
        let rows =
            offsets.iter().map(|at| vec![at.topic.clone(), at.partition.to_string(), at.offset.to_string()]);
        Ok(out.table(&["TOPIC", "PARTITION", "OFFSET"], &rows.collect::<Vec<_>>())?)
    }
}

/// Deletes a group that has no members.
pub(super) async fn delete(client: &Client, group: &str) -> Result<(), Failure> {
    let node = client.coordinator(Coordinator::Group, group).await?;
    let request = DeleteGroupsRequest { groups_names: vec![group.into()], ..Default::default() };
    let answer = client.call(node, request).await?;
    for result in &answer.results {
        refused(result.error_code, "DeleteGroups", || quoted(group), result.error_message.as_deref())?;
    }
    Ok(())
}

fn quoted(group: &str) -> String {
    format!("group {group:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_name_or_an_offset() {
        assert_eq!(reset_to("earliest"), Ok(ResetTo::Start(Start::Earliest)));
        assert_eq!(reset_to("end"), Ok(ResetTo::Start(Start::Latest)));
        assert_eq!(reset_to("0"), Ok(ResetTo::Offset(0)));
        assert!(reset_to("-2").is_err());
        assert!(reset_to("").is_err());
    }
}
