//! The names of topics, as the folder itself tells them.

use std::collections::BTreeMap;

use ottla_types::record::{CatalogRecord, LogRecord};
use ottla_types::{TopicId, TopicPartition};
use ottla_wire::Uuid;

/// Topics that were met so far, deleted ones too.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<TopicId, String>);

impl Names {
    /// Takes in a record or a row, which may tell of a topic.
    pub fn learn(&mut self, record: &LogRecord) {
        if let LogRecord::Catalog(CatalogRecord::TopicCreated(created)) = record {
            self.0.insert(created.id, created.name.clone());
        }
    }

    /// The name of a topic; its id if that is not known.
    pub fn topic(&self, id: TopicId) -> String {
        self.0.get(&id).cloned().unwrap_or_else(|| Uuid(id.0).to_string())
    }

    /// Topic and number.
    pub fn partition(&self, at: TopicPartition) -> String {
        format!("{}-{}", self.topic(at.topic), at.partition)
    }

    /// True if this is what the topic is called, by name or by id.
    pub fn is(&self, id: TopicId, name: &str) -> bool {
        self.0.get(&id).is_some_and(|known| known == name) || Uuid(id.0).to_string() == name
    }
}
