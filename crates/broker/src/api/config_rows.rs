//! Configuration as clients see it: each key with its value, where that is from, and what would be behind it.

use ottla_core::Shard;
use ottla_core::config::{BROKER_KEYS, BrokerKey, Kind, Settings, TOPIC_KEYS, TopicKey};
use std::collections::BTreeMap;

/// Resource types of configuration, as in KIP-133.
pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
/// Resource types that are not served.
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
pub(super) const GROUP: i8 = 32;

/// Whether the configuration of this type needs a right on the cluster (S-336).
pub(super) fn needs_cluster(resource_type: i8) -> bool {
    matches!(resource_type, BROKER | BROKER_LOGGER | CLIENT_METRICS)
}

/// Where a value is from, by Kafka's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(super) enum Source {
    /// Set for the topic.
    Topic = 1,
    /// Set for the broker while it runs.
    DynamicBroker = 2,
    /// The same, asked for without naming the broker.
    DynamicDefault = 3,
    /// Given to the broker at start.
    Static = 4,
    /// Nobody set it.
    Default = 5,
}

/// A value that is, or would be, in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Synonym {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) source: Source,
}

/// A key with all that is known of it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) value: Option<String>,
    pub(super) read_only: bool,
    pub(super) kind: Kind,
    pub(super) doc: &'static str,
    /// What is in force, and after it what would be if that were not set.
    pub(super) synonyms: Vec<Synonym>,
}

impl Row {
    pub(super) fn source(&self) -> Source {
        self.synonyms.first().map_or(Source::Default, |synonym| synonym.source)
    }
}

/// The layers of the broker's configuration.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    now: Settings,
    given: Settings,
    dynamic: BTreeMap<String, String>,
}

impl Layers {
    pub(super) fn of(shard: &Shard) -> Layers {
        let catalog = shard.catalog();
        Layers {
            now: catalog.settings().clone(),
            given: catalog.given_settings().clone(),
            dynamic: catalog.broker_configs().clone(),
        }
    }

    /// All keys of a topic with this configuration of its own.
    pub(super) fn topic(&self, own: &BTreeMap<String, String>) -> Vec<Row> {
        TOPIC_KEYS.iter().map(|key| self.topic_row(key, own.get(key.name))).collect()
    }

    fn topic_row(&self, key: &'static TopicKey, own: Option<&String>) -> Row {
        let mut synonyms = Vec::new();
        if let Some(value) = own {
            synonyms.push(Synonym { name: key.name, value: value.clone(), source: Source::Topic });
        }
        if let Some(broker_key) = key.broker_key {
            synonyms.append(&mut self.broker_synonyms(broker_key, key.default));
        }
        let inherited = || key.broker_key.and_then(|broker_key| self.now.value(broker_key));
        let value = own.cloned().or_else(inherited).unwrap_or_else(|| key.default.to_owned());
        Row { name: key.name, value: Some(value), read_only: false, kind: key.kind, doc: key.doc, synonyms }
    }

    /// All keys of the broker: its own, and those that give topics their defaults.
    pub(super) fn broker(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = BROKER_KEYS.iter().map(|key| self.broker_row(key)).collect();
        for key in TOPIC_KEYS {
            let Some(name) = key.broker_key else { continue };
            if !BROKER_KEYS.iter().any(|known| known.name == name) {
                let (kind, default, doc) = (key.kind, key.default, key.doc);
                rows.push(self.broker_row(&BrokerKey { name, kind, default, dynamic: false, doc }));
            }
        }
        rows.sort_by_key(|row| row.name);
        rows
    }

    fn broker_row(&self, key: &BrokerKey) -> Row {
        let default = || Some(key.default).filter(|text| !text.is_empty()).map(str::to_owned);
        Row {
            name: key.name,
            value: self.now.value(key.name).or_else(default),
            read_only: !key.dynamic,
            kind: key.kind,
            doc: key.doc,
            synonyms: self.broker_synonyms(key.name, key.default),
        }
    }

    /// What was set for the broker while it runs, as the cluster's default (this broker is the cluster).
    pub(super) fn cluster_default(&self) -> Vec<Row> {
        let mut rows = self.broker();
        rows.retain_mut(|row| {
            row.synonyms.retain(|synonym| synonym.source == Source::DynamicBroker);
            row.synonyms.iter_mut().for_each(|synonym| synonym.source = Source::DynamicDefault);
            !row.synonyms.is_empty()
        });
        rows
    }

    fn broker_synonyms(&self, name: &'static str, default: &str) -> Vec<Synonym> {
        let mut synonyms = Vec::new();
        let mut push = |name, value: Option<&str>, source| {
            if let Some(value) = value {
                synonyms.push(Synonym { name, value: value.to_owned(), source });
            }
        };
        push(name, self.dynamic.get(name).map(String::as_str), Source::DynamicBroker);
        push(name, self.given.given(name), Source::Static);
        if name == "log.retention.ms" {
            push("log.retention.minutes", self.given.given("log.retention.minutes"), Source::Static);
            push("log.retention.hours", self.given.given("log.retention.hours"), Source::Static);
            push("log.retention.hours", Some("168"), Source::Default);
        } else {
            push(name, Some(default).filter(|text| !text.is_empty()), Source::Default);
        }
        synonyms
    }
}
