//! Configuration as clients see it: each key with its value, the source of the value, and its synonyms.

use crate::authorizer::{Resource, Rights};
use ottla_core::Shard;
use ottla_core::config::{BrokerKey, Kind, Settings, TOPIC_KEYS, TopicKey, broker_keys};
use ottla_types::acl::Operation;
use ottla_wire::ErrorCode;
use std::collections::BTreeMap;

/// Resource types of configuration, as in KIP-133.
pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
/// Resource types without configurations here.
pub(super) const BROKER_LOGGER: i8 = 8;
pub(super) const CLIENT_METRICS: i8 = 16;
pub(super) const GROUP: i8 = 32;

/// The error code if the client may not do the operation on what the configuration belongs to (S-336, S-337).
pub(super) fn denied(
    rights: &Rights<'_>,
    operation: Operation,
    (resource_type, name): (i8, &str),
) -> Option<ErrorCode> {
    let (resource, code) = match resource_type {
        TOPIC => (Resource::Topic(name), ErrorCode::TOPIC_AUTHORIZATION_FAILED),
        GROUP => (Resource::Group(name), ErrorCode::GROUP_AUTHORIZATION_FAILED),
        BROKER | BROKER_LOGGER | CLIENT_METRICS => {
            (Resource::Cluster, ErrorCode::CLUSTER_AUTHORIZATION_FAILED)
        }
        // The API refuses the type.
        _ => return None,
    };
    (!rights.allows(operation, resource)).then_some(code)
}

/// The source of a value, by Kafka's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(super) enum Source {
    /// Set for the topic.
    Topic = 1,
    /// Set for the broker while it runs.
    DynamicBroker = 2,
    /// The same, requested without naming the broker.
    DynamicDefault = 3,
    /// Given to the broker at its start.
    Static = 4,
    /// The default.
    Default = 5,
}

/// A value that is in force, or would be if those before it were not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Synonym {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) source: Source,
}

/// A key with its value and its properties.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) value: Option<String>,
    pub(super) read_only: bool,
    pub(super) kind: Kind,
    pub(super) doc: &'static str,
    /// The value in force, and after it those that would be if it were not set.
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

    /// All keys of a topic that has this configuration.
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
        broker_keys().iter().map(|key| self.broker_row(key)).collect()
    }

    fn broker_row(&self, key: &BrokerKey) -> Row {
        let default = || default(key.name, key.default).map(str::to_owned);
        Row {
            name: key.name,
            value: self.now.given(key.name).map(str::to_owned).or_else(default),
            read_only: !key.dynamic,
            kind: key.kind,
            doc: key.doc,
            synonyms: self.broker_synonyms(key.name, key.default),
        }
    }

    /// The dynamic configuration of the broker, shown as the cluster's default: this broker is the cluster.
    pub(super) fn cluster_default(&self) -> Vec<Row> {
        let mut rows = self.broker();
        rows.retain_mut(|row| {
            row.synonyms.retain(|synonym| synonym.source == Source::DynamicBroker);
            row.synonyms.iter_mut().for_each(|synonym| synonym.source = Source::DynamicDefault);
            !row.synonyms.is_empty()
        });
        rows
    }

    /// What gives a broker key its value, and what would if that were not set. A key with a coarser unit follows. As
    /// Kafka does, only what begins with the key itself is shown: a coarser key alone is not.
    fn broker_synonyms(&self, name: &'static str, key_default: &'static str) -> Vec<Synonym> {
        let coarser = COARSER.iter().find(|(fine, _)| *fine == name).map_or(&[][..], |(_, coarser)| *coarser);
        let names: Vec<&'static str> =
            [name].into_iter().chain(coarser.iter().map(|(name, _)| *name)).collect();
        let mut synonyms = Vec::new();
        let mut push = |name, value: Option<&str>, source| {
            if let Some(value) = value {
                synonyms.push(Synonym { name, value: value.to_owned(), source });
            }
        };
        for name in &names {
            push(name, self.dynamic.get(*name).map(String::as_str), Source::DynamicBroker);
        }
        for name in &names {
            push(name, self.given.given(name), Source::Static);
        }
        push(name, default(name, key_default), Source::Default);
        for (name, value) in coarser {
            push(name, Some(value).copied().filter(|text| !text.is_empty()), Source::Default);
        }
        let from = synonyms.iter().position(|synonym| synonym.name == name);
        synonyms.split_off(from.unwrap_or(synonyms.len()))
    }
}

/// Broker keys without a default of their own, each with the keys of a coarser unit and their defaults.
const COARSER: [(&str, &[(&str, &str)]); 4] = [
    ("log.flush.interval.ms", &[("log.flush.scheduler.interval.ms", "9223372036854775807")]),
    ("log.retention.ms", &[("log.retention.minutes", ""), ("log.retention.hours", "168")]),
    ("log.roll.jitter.ms", &[("log.roll.jitter.hours", "0")]),
    ("log.roll.ms", &[("log.roll.hours", "168")]),
];

/// The default that a broker key shows, which may be that of a topic key.
fn default(name: &str, default: &'static str) -> Option<&'static str> {
    let unset = default.is_empty() || COARSER.iter().any(|(fine, _)| *fine == name);
    Some(default).filter(|_| !unset)
}
