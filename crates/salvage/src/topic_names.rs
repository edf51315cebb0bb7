//! Names of topics, from the records and snapshot rows of a data folder.

use ottla_types::record::{CatalogRecord, LogRecord};
use ottla_types::{TopicId, TopicPartition};
use ottla_wire::Uuid;
use std::collections::BTreeMap;

/// The names of the topics in the records so far, deleted topics included.
#[derive(Debug, Default)]
pub struct TopicNames(BTreeMap<TopicId, String>);

impl TopicNames {
    /// Adds the topic of a record of the log or of a row of a snapshot.
    pub fn learn(&mut self, record: &LogRecord) {
        if let LogRecord::Catalog(CatalogRecord::TopicCreated(created)) = record {
            self.0.insert(created.id, created.name.clone());
        }
    }

    /// The name of a topic; its id if the name is not known.
    pub fn topic(&self, id: TopicId) -> String {
        self.0.get(&id).cloned().unwrap_or_else(|| Uuid(id.0).to_string())
    }

    /// A partition as `topic-number`.
    pub fn partition(&self, at: TopicPartition) -> String {
        format!("{}-{}", self.topic(at.topic), at.partition)
    }

    /// True if this is the name or the id of the topic.
    pub fn is(&self, id: TopicId, name: &str) -> bool {
        self.0.get(&id).is_some_and(|known| known == name) || Uuid(id.0).to_string() == name
    }
}
