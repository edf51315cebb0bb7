//! Topics: their ids, partition counts and configurations, and the broker's own configuration.
//!
//! A topic has two states: it exists from `TopicCreated` to `TopicDeleted`. Its id is never used again, its name may
//! be.

mod command;
mod judge;

pub use command::{
    AlterConfigs, AlterConfigsReply, CatalogCommand, ConfigChange, ConfigOp, ConfigTarget, CreatePartitions,
    CreatePartitionsReply, CreateTopics, CreateTopicsReply, DeleteTopics, DeleteTopicsReply, NewTopic,
    TopicError, TopicRef, TopicResult,
};
pub use judge::check_name;

use crate::config::{Settings, TopicSettings};
use crate::reach::Reach;
use ottla_types::record::{
    BrokerConfigured, CatalogRecord, ClusterCreated, LogRecord, PartitionsAdded, SnapshotUnit,
    TopicConfigured, TopicCreated, TopicDeleted,
};
use ottla_types::{Millis, TopicId, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A topic that exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Topic {
    /// Its id.
    pub id: TopicId,
    /// Its name.
    pub name: String,
    /// Number of partitions.
    pub partitions: i32,
    /// Configuration given for this topic, by Kafka's names.
    pub configs: BTreeMap<String, String>,
    /// The effective configuration, with the broker's defaults.
    pub settings: TopicSettings,
    created: Millis,
}

impl Topic {
    /// True if the topic has a partition of this index.
    pub fn has(&self, partition: i32) -> bool {
        (0..self.partitions).contains(&partition)
    }
}

/// Leader epoch of a partition whose leader has never changed.
pub const LEADER_EPOCH: i32 = 0;

/// All topics, and the settings they inherit.
#[derive(Debug)]
pub struct Catalog {
    given: Settings,
    settings: Settings,
    broker_configs: BTreeMap<String, String>,
    topics: BTreeMap<TopicId, Topic>,
    by_name: BTreeMap<String, TopicId>,
    /// Topics whose names have a '.' or '_', by [`metric_name`] and name.
    by_metric_name: BTreeSet<(String, String)>,
    cluster_id: Option<String>,
    /// Leader epoch of every partition. It is 0 as long as one node leads all partitions.
    leader_epoch: i32,
}

impl Catalog {
    pub(crate) fn new(settings: Settings) -> Catalog {
        Catalog {
            given: settings.clone(),
            settings,
            broker_configs: BTreeMap::new(),
            topics: BTreeMap::new(),
            by_name: BTreeMap::new(),
            by_metric_name: BTreeSet::new(),
            cluster_id: None,
            leader_epoch: LEADER_EPOCH,
        }
    }

    /// The broker's settings in force: given at start, then changed while running.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The broker's settings as given at start.
    pub fn given_settings(&self) -> &Settings {
        &self.given
    }

    /// Configuration of the broker that was set while running, by Kafka's names.
    pub fn broker_configs(&self) -> &BTreeMap<String, String> {
        &self.broker_configs
    }

    /// All topics, by id.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.topics.values()
    }

    /// All topics, by name.
    pub fn topics_by_name(&self) -> impl Iterator<Item = &Topic> {
        self.by_name.values().filter_map(|id| self.topics.get(id))
    }

    /// The topic of this id.
    pub fn topic(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(&id)
    }

    /// The topic of this name.
    pub fn topic_named(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name).and_then(|id| self.topics.get(id))
    }

    /// The topic of this name or id.
    pub fn topic_by(&self, topic: &TopicRef) -> Option<&Topic> {
        match topic {
            TopicRef::Name(name) => self.topic_named(name),
            TopicRef::Id(id) => self.topic(*id),
        }
    }

    /// The partition of this topic name and index, if it exists.
    pub fn partition_named(&self, name: &str, partition: i32) -> Option<TopicPartition> {
        let topic = self.topic_named(name)?;
        topic.has(partition).then_some(TopicPartition { topic: topic.id, partition })
    }

    /// The leader epoch of a partition, which is written into its batches.
    pub fn leader_epoch(&self, _at: TopicPartition) -> i32 {
        self.leader_epoch
    }

    /// The cluster id, once the log has one.
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    pub(crate) fn apply(&mut self, record: &CatalogRecord, reach: &Reach) {
        match record {
            CatalogRecord::ClusterCreated(created) => self.cluster_id = Some(created.cluster_id.clone()),
            CatalogRecord::TopicCreated(created) => {
                if reach.covers(|| SnapshotUnit::Topic(created.id)) {
                    self.apply_created(created);
                }
            }
            CatalogRecord::TopicDeleted(deleted) => self.apply_deleted(deleted),
            CatalogRecord::PartitionsAdded(added) => self.apply_partitions(added),
            CatalogRecord::TopicConfigured(configured) => self.apply_topic_configs(configured),
            CatalogRecord::BrokerConfigured(configured) => self.apply_broker_configs(configured),
        }
    }

    /// A topic whose name is the same as this one but for '.' and '_'.
    fn colliding(&self, name: &str) -> Option<&str> {
        let metric_name = metric_name(name)?;
        let from = (metric_name.clone(), String::new());
        self.by_metric_name
            .range(from..)
            .next()
            .filter(|(of, _)| *of == metric_name)
            .map(|(_, other)| &other[..])
    }

    fn apply_created(&mut self, created: &TopicCreated) {
        let configs: BTreeMap<_, _> = created.configs.iter().cloned().collect();
        let settings = TopicSettings::resolve(&self.settings, &configs);
        self.by_name.insert(created.name.clone(), created.id);
        if let Some(metric_name) = metric_name(&created.name) {
            self.by_metric_name.insert((metric_name, created.name.clone()));
        }
        self.topics.insert(
            created.id,
            Topic {
                id: created.id,
                name: created.name.clone(),
                partitions: created.partitions,
                configs,
                settings,
                created: created.at,
            },
        );
    }

    fn apply_deleted(&mut self, deleted: &TopicDeleted) {
        if let Some(topic) = self.topics.remove(&deleted.id) {
            self.by_name.remove(&topic.name);
            if let Some(metric_name) = metric_name(&topic.name) {
                self.by_metric_name.remove(&(metric_name, topic.name));
            }
        }
    }

    fn apply_partitions(&mut self, added: &PartitionsAdded) {
        if let Some(topic) = self.topics.get_mut(&added.id) {
            topic.partitions = added.partitions;
        }
    }

    fn apply_topic_configs(&mut self, configured: &TopicConfigured) {
        if let Some(topic) = self.topics.get_mut(&configured.id) {
            topic.configs = configured.configs.iter().cloned().collect();
            topic.settings = TopicSettings::resolve(&self.settings, &topic.configs);
        }
    }

    fn apply_broker_configs(&mut self, configured: &BrokerConfigured) {
        self.broker_configs = configured.configs.iter().cloned().collect();
        self.settings = self.given.overlaid(&self.broker_configs);
        for topic in self.topics.values_mut() {
            topic.settings = TopicSettings::resolve(&self.settings, &topic.configs);
        }
    }

    /// The topic that follows this one, or the first.
    pub(crate) fn topic_after(&self, after: Option<TopicId>) -> Option<TopicId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.topics.range((from, Bound::Unbounded)).next().map(|(id, _)| *id)
    }

    pub(crate) fn snapshot_broker(&self, rows: &mut Vec<LogRecord>) {
        let cluster_id = self.cluster_id.clone();
        rows.extend(cluster_id.map(|cluster_id| LogRecord::from(ClusterCreated { cluster_id })));
        if !self.broker_configs.is_empty() {
            let configs = pairs(&self.broker_configs);
            rows.push(LogRecord::Catalog(CatalogRecord::BrokerConfigured(BrokerConfigured { configs })));
        }
    }

    pub(crate) fn snapshot_topic(&self, id: TopicId, rows: &mut Vec<LogRecord>) {
        if let Some(topic) = self.topics.get(&id) {
            rows.push(LogRecord::Catalog(CatalogRecord::TopicCreated(TopicCreated {
                id: topic.id,
                name: topic.name.clone(),
                partitions: topic.partitions,
                configs: pairs(&topic.configs),
                at: topic.created,
            })));
        }
    }
}

/// The name of the offsets topic, and of the topic of transactions' states: Kafka keeps them for itself.
const INTERNAL_TOPICS: [&str; 2] = ["__consumer_offsets", "__transaction_state"];

/// Whether a topic of this name belongs to the broker: no client may create it or write to it.
pub fn is_internal(name: &str) -> bool {
    INTERNAL_TOPICS.contains(&name)
}

/// The name under which Kafka's metrics would show a topic, in which '.' becomes '_'; none if the name has neither.
fn metric_name(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}

fn pairs(configs: &BTreeMap<String, String>) -> Vec<(String, String)> {
    configs.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}
