//! The records of the catalog: the cluster's identity, topics, configuration.

use crate::{Millis, TopicId};

/// A record of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogRecord {
    /// The data folder got its identity.
    ClusterCreated(ClusterCreated),
    /// A topic exists from here on.
    TopicCreated(TopicCreated),
    /// A topic was deleted, with its data and its committed and staged offsets (T-191).
    TopicDeleted(TopicDeleted),
    /// A topic has more partitions.
    PartitionsAdded(PartitionsAdded),
    /// A topic's own configuration was replaced.
    TopicConfigured(TopicConfigured),
    /// The broker's dynamic configuration was replaced.
    BrokerConfigured(BrokerConfigured),
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
