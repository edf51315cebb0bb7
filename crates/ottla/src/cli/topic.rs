//! `ottla topic`: lists, creates, changes and deletes topics.

use super::failure::{Failure, refused};
use super::out::{Out, numbers};
use super::{Connect, name_and_value};
use clap::{Args, Subcommand};
use ottla_client::{Client, Isolation, Node, Start, Topic as TopicMetadata};
use ottla_wire::ErrorCode;
use ottla_wire::messages::create_partitions_request::CreatePartitionsTopic;
use ottla_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use ottla_wire::messages::delete_topics_request::DeleteTopicState;
use ottla_wire::messages::describe_configs_request::DescribeConfigsResource;
use ottla_wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use ottla_wire::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How long a broker may take to carry out a change, in milliseconds.
const CHANGE_TIMEOUT: i32 = 30_000;
/// The number that stands for the default of the broker.
pub(super) const BROKER_DEFAULT: i16 = -1;
/// A configuration resource that is a topic.
const TOPIC_RESOURCE: i8 = 2;
/// The source of a configuration that is set on the topic itself.
const TOPIC_SOURCE: i8 = 1;
/// Operations of IncrementalAlterConfigs.
const SET: i8 = 0;
const DELETE: i8 = 1;

/// List, create, describe, change and delete topics.
#[derive(Args)]
pub(crate) struct Topic {
    #[command(flatten)]
    connect: Connect,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List all topics with their number of partitions.
    #[command(visible_alias = "ls")]
    List,
    Create(Create),
    Describe(Describe),
    Delete(Delete),
    Alter(Alter),
    Offsets(Offsets),
}

/// Create a topic.
#[derive(Args)]
struct Create {
    /// Name of the new topic: letters, digits, `.`, `_` and `-`.
    name: String,
    /// Number of partitions [default: that of the broker]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Number of replicas [default: that of the broker]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replication_factor: Option<i16>,
    /// A configuration for this topic under Kafka's name, such as retention.ms=60000; may be repeated.
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    config: Vec<(String, String)>,
    /// Succeed without a change if the topic exists already.
    #[arg(long)]
    if_not_exists: bool,
}

/// Show partitions, leaders and configuration of one topic or all.
#[derive(Args)]
struct Describe {
    /// Name of the topic; without it, all topics.
    name: Option<String>,
}

/// Delete a topic with all its records.
#[derive(Args)]
struct Delete {
    /// Name of the topic.
    name: String,
}

/// Change a topic: more partitions, other configuration.
#[derive(Args)]
#[group(required = true, multiple = true)]
#[command(arg_required_else_help = true)]
struct Changes {
    /// New number of partitions. It can only grow, and records with equal keys may go to other partitions afterwards.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Set a configuration under Kafka's name, such as retention.ms=60000; may be repeated.
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    config: Vec<(String, String)>,
    /// Reset a configuration to the default of the broker; may be repeated.
    #[arg(long, value_name = "NAME")]
    delete_config: Vec<String>,
}

/// Change a topic: more partitions, other configuration.
#[derive(Args)]
struct Alter {
    /// Name of the topic.
    name: String,
    #[command(flatten)]
    changes: Changes,
}

/// Show the first and the next offset of each partition.
///
/// EARLIEST is the first offset that can be read, LATEST the offset of the next record. STABLE is the last stable
/// offset, up to which read_committed consumers read: it is below LATEST while a transaction is open.
#[derive(Args)]
struct Offsets {
    /// Name of the topic.
    name: String,
}

impl Topic {
    pub(super) async fn run(self, out: &mut Out) -> Result<(), Failure> {
        let client = self.connect.client().await?;
        let json = self.connect.is_json();
        match self.command {
            Command::List => list(&client, json, out).await,
            Command::Create(create) => create.run(&client, json, out).await,
            Command::Describe(describe) => describe.run(&client, json, out).await,
            Command::Delete(delete) => delete.run(&client, json, out).await,
            Command::Alter(alter) => alter.run(&client, json, out).await,
            Command::Offsets(offsets) => offsets.run(&client, json, out).await,
        }
    }
}

async fn list(client: &Client, json: bool, out: &mut Out) -> Result<(), Failure> {
    let topics = client.topics().await?;
    if json {
        return Ok(out.json(&Value::Array(topics.iter().map(summary).collect()))?);
    }
    let row = |topic: &TopicMetadata| {
        let kind = if topic.internal { "internal" } else { "" };
        vec![
            topic.name.clone(),
            topic.partitions.len().to_string(),
            copies(topic).to_string(),
            kind.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = topics.iter().map(row).collect();
    Ok(out.table(&["NAME", "PARTITIONS", "REPLICATION", ""], &rows)?)
}

fn summary(topic: &TopicMetadata) -> Value {
    json!({
        "name": topic.name,
        "id": topic.id.to_string(),
        "internal": topic.internal,
        "partitions": topic.partitions.len(),
        "replication_factor": copies(topic),
    })
}

fn copies(topic: &TopicMetadata) -> usize {
    topic.partitions.values().map(|partition| partition.replicas.len()).max().unwrap_or(0)
}

impl Create {
    async fn run(self, client: &Client, json: bool, out: &mut Out) -> Result<(), Failure> {
        let config = |(name, value): &(String, String)| CreatableTopicConfig {
            name: name.as_str().into(),
            value: Some(value.as_str().into()),
            ..Default::default()
        };
        let topic = CreatableTopic {
            name: self.name.as_str().into(),
            num_partitions: self.partitions.unwrap_or(BROKER_DEFAULT.into()),
            replication_factor: self.replication_factor.unwrap_or(BROKER_DEFAULT),
            configs: self.config.iter().map(config).collect(),
            ..Default::default()
        };
        let created = create(client, topic, self.if_not_exists).await?;
        if json {
            return Ok(out.json(&json!({ "name": self.name, "created": created }))?);
        }
        let done = if created { "created" } else { "exists already" };
        Ok(out.line(format!("topic {} {done}", self.name))?)
    }
}

impl Describe {
    async fn run(self, client: &Client, json: bool, out: &mut Out) -> Result<(), Failure> {
        let topics = match &self.name {
            Some(name) => vec![client.topic(name, false).await?],
            None => client.topics().await?,
        };
        let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
        let configs = topic_configs(client, &names).await?;
        if json {
            let described = topics.iter().map(|topic| described(topic, configs.get(&topic.name)));
            return Ok(out.json(&Value::Array(described.collect()))?);
        }
        for (index, topic) in topics.iter().enumerate() {
            if index > 0 {
                out.line("")?;
            }
            print_topic(topic, configs.get(&topic.name), out)?;
        }
        Ok(())
    }
}

type Configs = BTreeMap<String, String>;

fn described(topic: &TopicMetadata, configs: Option<&Configs>) -> Value {
    let partitions = topic.partitions.iter().map(|(number, partition)| {
        json!({
            "partition": number,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replicas": partition.replicas,
            "in_sync": partition.in_sync,
        })
    });
    json!({
        "name": topic.name,
        "id": topic.id.to_string(),
        "internal": topic.internal,
        "configs": configs.cloned().unwrap_or_default(),
        "partitions": partitions.collect::<Vec<_>>(),
    })
}

fn print_topic(topic: &TopicMetadata, configs: Option<&Configs>, out: &mut Out) -> Result<(), Failure> {
    out.line(format!("topic {}, id {}", topic.name, topic.id))?;
    for (name, value) in configs.into_iter().flatten() {
        out.line(format!("config {name}={value}"))?;
    }
    let rows = topic.partitions.iter().map(|(number, partition)| {
        vec![
            number.to_string(),
            partition.leader.to_string(),
            numbers(&partition.replicas),
            numbers(&partition.in_sync),
        ]
    });
    Ok(out.table(&["PARTITION", "LEADER", "REPLICAS", "IN-SYNC"], &rows.collect::<Vec<_>>())?)
}

/// The configuration that is set on the topics themselves, by topic.
async fn topic_configs(client: &Client, names: &[&str]) -> Result<BTreeMap<String, Configs>, Failure> {
    let resource = |name: &&str| DescribeConfigsResource {
        resource_type: TOPIC_RESOURCE,
        resource_name: (*name).into(),
        configuration_keys: None,
        ..Default::default()
    };
    let request =
        DescribeConfigsRequest { resources: names.iter().map(resource).collect(), ..Default::default() };
    let answer = client.call(Node::Any, request).await?;
    let mut by_topic = BTreeMap::new();
    for result in &answer.results {
        let about = || quoted(&result.resource_name);
        refused(result.error_code, "DescribeConfigs", about, result.error_message.as_deref())?;
        let given = result.configs.iter().filter(|config| config.config_source == TOPIC_SOURCE);
        let given = given.map(|c| (c.name.to_string(), c.value.as_deref().unwrap_or_default().to_owned()));
        by_topic.insert(result.resource_name.to_string(), given.collect());
    }
    Ok(by_topic)
}

impl Delete {
    async fn run(self, client: &Client, json: bool, out: &mut Out) -> Result<(), Failure> {
        delete(client, &self.name).await?;
        if json {
            return Ok(out.json(&json!({ "name": self.name, "deleted": true }))?);
        }
        Ok(out.line(format!("topic {} deleted", self.name))?)
    }
}

impl Alter {
    async fn run(self, client: &Client, json: bool, out: &mut Out) -> Result<(), Failure> {
        if let Some(count) = self.changes.partitions {
            self.grow(client, count).await?;
        }
        if !self.changes.config.is_empty() || !self.changes.delete_config.is_empty() {
            self.configure(client).await?;
        }
        if json {
            return Ok(out.json(&json!({ "name": self.name, "altered": true }))?);
        }
        Ok(out.line(format!("topic {} altered", self.name))?)
    }

    async fn grow(&self, client: &Client, count: i32) -> Result<(), Failure> {
        let topic = CreatePartitionsTopic {
            name: self.name.as_str().into(),
            count,
            assignments: None,
            ..Default::default()
        };
        let request =
            CreatePartitionsRequest { topics: vec![topic], timeout_ms: CHANGE_TIMEOUT, ..Default::default() };
        let answer = client.call(Node::Any, request).await?;
        for result in &answer.results {
            let message = result.error_message.as_deref();
            refused(result.error_code, "CreatePartitions", || quoted(&self.name), message)?;
        }
        Ok(())
    }

    async fn configure(&self, client: &Client) -> Result<(), Failure> {
        let set = self.changes.config.iter().map(|(name, value)| AlterableConfig {
            name: name.as_str().into(),
            config_operation: SET,
            value: Some(value.as_str().into()),
            ..Default::default()
        });
        let delete = self.changes.delete_config.iter().map(|name| AlterableConfig {
            name: name.as_str().into(),
            config_operation: DELETE,
            value: None,
            ..Default::default()
        });
        let resource = AlterConfigsResource {
            resource_type: TOPIC_RESOURCE,
            resource_name: self.name.as_str().into(),
            configs: set.chain(delete).collect(),
            ..Default::default()
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        let answer = client.call(Node::Any, request).await?;
        for result in &answer.responses {
            let message = result.error_message.as_deref();
            refused(result.error_code, "IncrementalAlterConfigs", || quoted(&self.name), message)?;
        }
        Ok(())
    }
}

impl Offsets {
    async fn run(self, client: &Client, json: bool, out: &mut Out) -> Result<(), Failure> {
        let topic = client.topic(&self.name, false).await?;
        let partitions: Vec<i32> = topic.partitions.keys().copied().collect();
        let look =
            async |start, isolation| client.list_offsets(&self.name, &partitions, start, isolation).await;
        let earliest = look(Start::Earliest, Isolation::ReadUncommitted).await?;
        let latest = look(Start::Latest, Isolation::ReadUncommitted).await?;
        let stable = look(Start::Latest, Isolation::ReadCommitted).await?;
        let at = |found: &BTreeMap<i32, ottla_client::OffsetAndTimestamp>, partition| {
            found.get(partition).map_or(-1, |found| found.offset)
        };
        let rows = partitions.iter().map(|p| (p, at(&earliest, p), at(&latest, p), at(&stable, p)));
        if json {
            let rows = rows.map(|(partition, earliest, latest, stable)| {
                json!({ "partition": partition, "earliest": earliest, "latest": latest, "stable": stable })
            });
            return Ok(out.json(&Value::Array(rows.collect()))?);
        }
        let rows = rows.map(|(partition, earliest, latest, stable)| {
            vec![partition.to_string(), earliest.to_string(), latest.to_string(), stable.to_string()]
        });
        Ok(out.table(&["PARTITION", "EARLIEST", "LATEST", "STABLE"], &rows.collect::<Vec<_>>())?)
    }
}

/// Creates a topic. False if it exists already and `tolerate` is set.
pub(super) async fn create(client: &Client, topic: CreatableTopic, tolerate: bool) -> Result<bool, Failure> {
    let name = topic.name.to_string();
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: CHANGE_TIMEOUT, ..Default::default() };
    let answer = client.call(Node::Any, request).await?;
    for result in &answer.topics {
        if ErrorCode(result.error_code) == ErrorCode::TOPIC_ALREADY_EXISTS && tolerate {
            return Ok(false);
        }
        let message = result.error_message.as_deref();
        refused(result.error_code, "CreateTopics", || quoted(&name), message)?;
    }
    Ok(true)
}

/// Deletes a topic.
pub(super) async fn delete(client: &Client, name: &str) -> Result<(), Failure> {
    let topic = DeleteTopicState { name: Some(name.into()), ..Default::default() };
    let request =
        DeleteTopicsRequest { topics: vec![topic], timeout_ms: CHANGE_TIMEOUT, ..Default::default() };
    let answer = client.call(Node::Any, request).await?;
    for result in &answer.responses {
        refused(result.error_code, "DeleteTopics", || quoted(name), result.error_message.as_deref())?;
    }
    Ok(())
}

fn quoted(topic: &str) -> String {
    format!("topic {topic:?}")
}
