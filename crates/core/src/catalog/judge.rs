//! The catalog's judgements: what may be created, changed and deleted.

use super::{
    AlterConfigs, AlterConfigsReply, Catalog, CatalogCommand, ConfigChange, ConfigOp, ConfigTarget,
    CreatePartitions, CreatePartitionsReply, CreateTopics, CreateTopicsReply, DeleteTopics,
    DeleteTopicsReply, NewTopic, TopicError, TopicRef, TopicResult, is_internal, metric_name, pairs,
};
use crate::config::{self, ConfigError, TopicSettings};
use crate::effect::Effects;
use ottla_types::Millis;
use ottla_types::record::{
    BrokerConfigured, CatalogRecord, LogRecord, PartitionsAdded, TopicConfigured, TopicCreated, TopicDeleted,
};
use std::collections::{BTreeMap, BTreeSet};

/// Kafka's bound on the length of a topic name.
const MAX_NAME: usize = 249;
/// More partitions than this in one topic is taken for a slip.
const MAX_PARTITIONS: i32 = 100_000;

impl Catalog {
    /// Judges a command and replies to it.
    pub(crate) fn step(&mut self, now: Millis, command: CatalogCommand, out: &mut Effects) {
        match command {
            CatalogCommand::CreateTopics(command, ticket) => {
                let reply = self.create_topics(now, &command, out);
                out.reply(ticket, reply);
            }
            CatalogCommand::DeleteTopics(command, ticket) => {
                let reply = self.delete_topics(now, &command, out);
                out.reply(ticket, reply);
            }
            CatalogCommand::CreatePartitions(command, ticket) => {
                let reply = self.create_partitions(&command, out);
                out.reply(ticket, reply);
            }
            CatalogCommand::AlterConfigs(command, ticket) => {
                let reply = self.alter_configs(&command, out);
                out.reply(ticket, reply);
            }
        }
    }

    fn create_topics(&self, now: Millis, ask: &CreateTopics, out: &mut Effects) -> CreateTopicsReply {
        let twice = names_given_twice(ask.topics.iter().map(|topic| topic.name.as_str()));
        let mut results = Vec::with_capacity(ask.topics.len());
        // Of the topics of this request that can be created.
        let mut metric_names = BTreeMap::new();
        for topic in &ask.topics {
            if twice.contains(&topic.name) {
                results.push(Err(TopicError::BadRequest(format!("topic '{}' is named twice", topic.name))));
                continue;
            }
            let metric_name = metric_name(&topic.name);
            let other = metric_name.as_ref().and_then(|name| metric_names.get(name).copied());
            let judged = match other.or_else(|| self.colliding(&topic.name)) {
                Some(other) if other != topic.name => Err(collision(&topic.name, other)),
                _ => self.judge_new(now, topic),
            };
            if let (Ok(_), Some(metric_name)) = (&judged, metric_name) {
                metric_names.insert(metric_name, topic.name.as_str());
            }
            if let (Ok(created), false) = (&judged, ask.validate_only) {
                out.append(created.clone());
            }
            results.push(judged.map(|created| TopicResult {
                name: created.name,
                id: created.id,
                partitions: created.partitions,
            }));
        }
        results
    }

    fn judge_new(&self, now: Millis, topic: &NewTopic) -> Result<TopicCreated, TopicError> {
        check_name(&topic.name)?;
        if is_internal(&topic.name) || self.by_name.contains_key(&topic.name) {
            return Err(TopicError::Exists(topic.name.clone()));
        }
        let partitions = self.judge_partitions(topic)?;
        let configs = judge_configs(&topic.configs)?;
        TopicSettings::resolve(&self.settings, &configs).check()?;
        Ok(TopicCreated {
            id: topic.id,
            name: topic.name.clone(),
            partitions,
            configs: pairs(&configs),
            at: now,
        })
    }

    fn judge_partitions(&self, topic: &NewTopic) -> Result<i32, TopicError> {
        if !topic.assignments.is_empty() {
            return self.judge_assignments(topic);
        }
        let replicas = match topic.replication_factor {
            -1 => self.settings.default_replication_factor,
            given => given,
        };
        if replicas < 1 || (replicas > 1 && !self.settings.clamp_replication_factor) {
            return Err(TopicError::BadReplicationFactor(replicas));
        }
        match topic.partitions {
            -1 => Ok(self.settings.num_partitions),
            n if (1..=MAX_PARTITIONS).contains(&n) => Ok(n),
            n => Err(TopicError::BadPartitions(format!(
                "number of partitions is {n}; it must be between 1 and {MAX_PARTITIONS}"
            ))),
        }
    }

    fn judge_assignments(&self, topic: &NewTopic) -> Result<i32, TopicError> {
        if topic.partitions != -1 || topic.replication_factor != -1 {
            let why = "give either a manual assignment or a number of partitions and replicas, not both";
            return Err(TopicError::BadRequest(why.to_owned()));
        }
        let node = self.settings.node_id;
        let mut sorted: Vec<_> = topic.assignments.iter().collect();
        sorted.sort_by_key(|(partition, _)| *partition);
        for (expected, (partition, brokers)) in (0..).zip(sorted) {
            if *partition != expected {
                let why = format!("partitions must be numbered from 0 without gaps; {expected} is missing");
                return Err(TopicError::BadAssignment(why));
            }
            if brokers.as_slice() != [node] {
                let why = format!(
                    "partition {partition} must be assigned to broker {node} alone, the only one here"
                );
                return Err(TopicError::BadAssignment(why));
            }
        }
        i32::try_from(topic.assignments.len())
            .map_err(|_| TopicError::BadPartitions("too many partitions".to_owned()))
    }

    fn delete_topics(&self, now: Millis, ask: &DeleteTopics, out: &mut Effects) -> DeleteTopicsReply {
        let mut gone = BTreeSet::new();
        let mut results = Vec::with_capacity(ask.topics.len());
        for topic in &ask.topics {
            let judged = self.judge_deletion(topic);
            if let Ok(result) = &judged
                && gone.insert(result.id)
            {
                out.append(TopicDeleted { id: result.id, at: now });
            }
            results.push(judged);
        }
        results
    }

    fn judge_deletion(&self, topic: &TopicRef) -> Result<TopicResult, TopicError> {
        if !self.settings.delete_topic_enable {
            return Err(TopicError::DeletionDisabled);
        }
        let found = match topic {
            TopicRef::Name(name) => {
                self.topic_named(name).ok_or_else(|| TopicError::UnknownName(name.clone()))?
            }
            TopicRef::Id(id) => self.topic(*id).ok_or(TopicError::UnknownId(*id))?,
        };
        Ok(TopicResult { name: found.name.clone(), id: found.id, partitions: found.partitions })
    }

    fn create_partitions(&self, ask: &CreatePartitions, out: &mut Effects) -> CreatePartitionsReply {
        let twice = names_given_twice(ask.topics.iter().map(|(name, _)| name.as_str()));
        let mut results = Vec::with_capacity(ask.topics.len());
        for (name, count) in &ask.topics {
            let judged = if twice.contains(name) {
                Err(TopicError::BadRequest(format!("topic '{name}' is named twice")))
            } else {
                self.judge_growth(name, *count)
            };
            if let (Ok(result), false) = (&judged, ask.validate_only) {
                let added = PartitionsAdded { id: result.id, partitions: *count };
                out.append(added);
            }
            results.push(judged);
        }
        results
    }

    fn judge_growth(&self, name: &str, count: i32) -> Result<TopicResult, TopicError> {
        let topic = self.topic_named(name).ok_or_else(|| TopicError::UnknownName(name.to_owned()))?;
        if count <= topic.partitions || count > MAX_PARTITIONS {
            let have = topic.partitions;
            return Err(TopicError::BadPartitions(format!(
                "topic '{name}' has {have} partitions; the new number must be above that and at most {MAX_PARTITIONS}, not {count}"
            )));
        }
        Ok(TopicResult { name: name.to_owned(), id: topic.id, partitions: count })
    }

    fn alter_configs(&self, ask: &AlterConfigs, out: &mut Effects) -> AlterConfigsReply {
        let mut results = Vec::with_capacity(ask.changes.len());
        for change in &ask.changes {
            let judged = self.judge_change(change);
            let result = match judged {
                Ok(record) => {
                    if !ask.validate_only {
                        out.append(record);
                    }
                    Ok(())
                }
                Err(error) => Err(error),
            };
            results.push(result);
        }
        results
    }

    fn judge_change(&self, change: &ConfigChange) -> Result<LogRecord, TopicError> {
        match &change.target {
            ConfigTarget::Topic(name) => {
                let topic = self.topic_named(name).ok_or_else(|| TopicError::UnknownName(name.clone()))?;
                let configs = changed(&topic.configs, change, config::check_topic_config)?;
                TopicSettings::resolve(&self.settings, &configs).check()?;
                Ok(LogRecord::Catalog(CatalogRecord::TopicConfigured(TopicConfigured {
                    id: topic.id,
                    configs: pairs(&configs),
                })))
            }
            ConfigTarget::Broker => {
                let configs = changed(&self.broker_configs, change, config::check_dynamic_broker_config)?;
                self.given.overlaid(&configs).check()?;
                Ok(LogRecord::Catalog(CatalogRecord::BrokerConfigured(BrokerConfigured {
                    configs: pairs(&configs),
                })))
            }
        }
    }
}

fn changed(
    current: &BTreeMap<String, String>,
    change: &ConfigChange,
    check: fn(&str, &str) -> Result<(), ConfigError>,
) -> Result<BTreeMap<String, String>, TopicError> {
    let mut configs = if change.replace { BTreeMap::new() } else { current.clone() };
    for (name, op) in &change.ops {
        let value = match op {
            ConfigOp::Set(value) => Some(value.clone()),
            ConfigOp::Delete => None,
            ConfigOp::Append(items) => Some(config::list_append(name, configs.get(name), items)?),
            ConfigOp::Subtract(items) => Some(config::list_subtract(name, configs.get(name), items)?),
        };
        match value {
            Some(value) => {
                check(name, &value)?;
                configs.insert(name.clone(), value);
            }
            // Kafka does not mind if there is no such key.
            None => {
                configs.remove(name);
            }
        }
    }
    Ok(configs)
}

fn judge_configs(given: &BTreeMap<String, Option<String>>) -> Result<BTreeMap<String, String>, TopicError> {
    let mut configs = BTreeMap::new();
    for (name, value) in given {
        let Some(value) = value else {
            return Err(TopicError::BadConfig(ConfigError::NullValue(name.clone())));
        };
        config::check_topic_config(name, value)?;
        configs.insert(name.clone(), value.clone());
    }
    Ok(configs)
}

impl From<ConfigError> for TopicError {
    fn from(error: ConfigError) -> TopicError {
        TopicError::BadConfig(error)
    }
}

/// Kafka's metrics show both names alike, so it does not allow both.
fn collision(name: &str, other: &str) -> TopicError {
    TopicError::BadName(format!("topic '{name}' differs from topic '{other}' in '.' and '_' only"))
}

fn names_given_twice<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| !seen.insert(*name)).map(str::to_owned).collect()
}

/// Checks that a topic may have this name.
///
/// # Errors
/// It is empty, too long, a path of dots, or has other characters than letters, digits, '.', '_' and '-'.
pub fn check_name(name: &str) -> Result<(), TopicError> {
    let why = if name.is_empty() {
        "a topic name must not be empty".to_owned()
    } else if name == "." || name == ".." {
        format!("a topic cannot be named '{name}'")
    } else if name.len() > MAX_NAME {
        format!("a topic name has at most {MAX_NAME} characters, this one has {}", name.len())
    } else if let Some(bad) = name.chars().find(|c| !c.is_ascii_alphanumeric() && !"._-".contains(*c)) {
        format!("topic name '{name}' has {bad:?}; letters, digits, '.', '_' and '-' are allowed")
    } else {
        return Ok(());
    };
    Err(TopicError::BadName(why))
}
