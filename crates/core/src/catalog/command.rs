//! What the catalog can be asked, and what it answers.

use crate::config::ConfigError;
use crate::effect::Ticket;
use ottla_types::TopicId;
use std::collections::BTreeMap;

/// A topic to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// The id it gets; drawn at random by the host.
    pub id: TopicId,
    /// Number of partitions, -1 for the broker's default.
    pub partitions: i32,
    /// Copies of each partition, -1 for the broker's default.
    pub replication_factor: i16,
    /// Brokers for each partition, if the client chose them: every list must name this broker alone.
    pub assignments: Vec<(i32, Vec<i32>)>,
    /// Configuration, by Kafka's names.
    pub configs: BTreeMap<String, Option<String>>,
}

/// Creates topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopics {
    /// The topics, each judged by itself.
    pub topics: Vec<NewTopic>,
    /// Judge only.
    pub validate_only: bool,
}

/// A topic by name or by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicRef {
    /// By name.
    Name(String),
    /// By id.
    Id(TopicId),
}

/// Deletes topics with their data and offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteTopics {
    /// The topics.
    pub topics: Vec<TopicRef>,
}

/// Raises the number of partitions of topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatePartitions {
    /// Topic name and the total number of partitions it shall have.
    pub topics: Vec<(String, i32)>,
    /// Judge only.
    pub validate_only: bool,
}

/// Whose configuration changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigTarget {
    /// A topic's.
    Topic(String),
    /// The broker's.
    Broker,
}

/// What happens to one configuration key (IncrementalAlterConfigs, KIP-339).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigOp {
    /// Gets a value.
    Set(String),
    /// Falls back to its default.
    Delete,
    /// Gets more list items.
    Append(String),
    /// Loses list items.
    Subtract(String),
}

/// Changes to one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// Whose.
    pub target: ConfigTarget,
    /// True if keys that are not named lose their values (AlterConfigs).
    pub replace: bool,
    /// Key and operation.
    pub ops: Vec<(String, ConfigOp)>,
}

/// Changes configurations, each target judged by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterConfigs {
    /// The changes.
    pub changes: Vec<ConfigChange>,
    /// Judge only.
    pub validate_only: bool,
}

/// What was done for one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicResult {
    /// Its name, empty if unknown.
    pub name: String,
    /// Its id, zero if unknown.
    pub id: TopicId,
    /// Number of partitions after the change.
    pub partitions: i32,
}

/// Why something was not done to a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicError {
    /// No topic of this name.
    UnknownName(String),
    /// No topic of this id.
    UnknownId(TopicId),
    /// The name is taken.
    Exists(String),
    /// The name is not legal: why.
    BadName(String),
    /// Partition count out of bounds: why.
    BadPartitions(String),
    /// More copies than brokers, or none.
    BadReplicationFactor(i16),
    /// The client's choice of brokers cannot be met: why.
    BadAssignment(String),
    /// A configuration key or value is not legal.
    BadConfig(ConfigError),
    /// The request contradicts itself: why.
    BadRequest(String),
    /// Topics may not be deleted here.
    DeletionDisabled,
}

/// A command for the catalog, with the ticket of its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogCommand {
    /// See [`CreateTopics`].
    CreateTopics(CreateTopics, Ticket<CreateTopicsReply>),
    /// See [`DeleteTopics`].
    DeleteTopics(DeleteTopics, Ticket<DeleteTopicsReply>),
    /// See [`CreatePartitions`].
    CreatePartitions(CreatePartitions, Ticket<CreatePartitionsReply>),
    /// See [`AlterConfigs`].
    AlterConfigs(AlterConfigs, Ticket<AlterConfigsReply>),
}

/// A result for each topic of [`CreateTopics`], in order.
pub type CreateTopicsReply = Vec<Result<TopicResult, TopicError>>;
/// A result for each topic of [`DeleteTopics`], in order.
pub type DeleteTopicsReply = Vec<Result<TopicResult, TopicError>>;
/// A result for each topic of [`CreatePartitions`], in order.
pub type CreatePartitionsReply = Vec<Result<TopicResult, TopicError>>;
/// A result for each change of [`AlterConfigs`], in order.
pub type AlterConfigsReply = Vec<Result<(), TopicError>>;
