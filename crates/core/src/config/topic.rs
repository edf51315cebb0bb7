//! The effective configuration of a topic: its own keys, then the broker's, then the defaults.

use super::topic_key::find;
use super::{ConfigError, Settings};
use ottla_types::{Millis, TimestampType};
use std::collections::BTreeMap;

/// The settings of a topic that decide when it is compacted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompactionLimits {
    /// `min.compaction.lag.ms`.
    pub min_lag: Millis,
    /// `max.compaction.lag.ms`.
    pub max_lag: Millis,
    /// `min.cleanable.dirty.ratio`: the share of bytes that no pass has seen yet must be larger.
    pub dirty_ratio: f64,
    /// `segment.ms`.
    pub segment_ms: Millis,
    /// `segment.bytes`.
    pub segment_bytes: u64,
}

/// The effective configuration of a topic, as far as it decides something.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicSettings {
    /// The largest batch accepted, in bytes.
    pub max_message_bytes: i64,
    /// How long records are kept; none for no limit.
    pub retention: Option<Millis>,
    /// How many bytes of a partition are kept; none for all.
    pub retention_bytes: Option<i64>,
    /// Old records go by time and size.
    pub delete: bool,
    /// The last record of each key stays; records need keys.
    pub compact: bool,
    /// When compaction is due, and what it leaves alone; part of it are `segment.ms` and `segment.bytes`.
    pub compaction: CompactionLimits,
    /// How long compaction keeps tombstones and markers.
    pub delete_retention: Millis,
    /// Whose time records carry.
    pub timestamp_type: TimestampType,
    /// How far behind the broker's clock a timestamp may be.
    pub timestamp_before_max: Millis,
    /// How far ahead of the broker's clock a timestamp may be.
    pub timestamp_after_max: Millis,
    /// The codec that batches are stored with.
    pub compression: TopicCompression,
    /// The most bytes of a compressed batch's records when decompressed.
    pub max_decompressed_bytes: i64,
}

/// `compression.type`, with the level that belongs to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopicCompression {
    /// Each batch keeps the codec it arrives with.
    #[default]
    Producer,
    /// Batches are stored without compression.
    Uncompressed,
    /// Gzip; none for the codec's default level.
    Gzip(Option<u32>),
    /// Snappy.
    Snappy,
    /// Lz4.
    Lz4,
    /// Zstandard of a level.
    Zstd(i32),
}

impl TopicSettings {
    /// Checks what keys say about each other.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let CompactionLimits { min_lag, max_lag, .. } = self.compaction;
        if min_lag <= max_lag {
            return Ok(());
        }
        let (name, value) = ("min.compaction.lag.ms".to_owned(), min_lag.0.to_string());
        let why = format!("max.compaction.lag.ms is {}, and must be at least as large", max_lag.0);
        Err(ConfigError::Contradiction { name, value, why })
    }

    /// The settings of a topic that has no configuration of its own.
    pub fn of_broker(broker: &Settings) -> TopicSettings {
        TopicSettings::resolve(broker, &BTreeMap::new())
    }

    pub(crate) fn resolve(broker: &Settings, configs: &BTreeMap<String, String>) -> TopicSettings {
        let number = |name: &str| value(broker, configs, name).trim().parse::<i64>().unwrap_or(-1);
        let policy = value(broker, configs, "cleanup.policy");
        let int = |name: &str| i32::try_from(number(name)).unwrap_or(i32::MAX);
        TopicSettings {
            max_message_bytes: number("max.message.bytes"),
            retention: Some(number("retention.ms")).filter(|ms| *ms >= 0).map(Millis),
            retention_bytes: Some(number("retention.bytes")).filter(|bytes| *bytes >= 0),
            delete: policy.contains("delete"),
            compact: policy.contains("compact"),
            compaction: CompactionLimits {
                min_lag: Millis(number("min.compaction.lag.ms")),
                max_lag: Millis(number("max.compaction.lag.ms")),
                dirty_ratio: value(broker, configs, "min.cleanable.dirty.ratio")
                    .trim()
                    .parse()
                    .unwrap_or(0.5),
                segment_ms: Millis(number("segment.ms")),
                segment_bytes: u64::try_from(number("segment.bytes")).unwrap_or(u64::MAX),
            },
            delete_retention: Millis(number("delete.retention.ms")),
            timestamp_type: match value(broker, configs, "message.timestamp.type").trim() {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            timestamp_before_max: Millis(number("message.timestamp.before.max.ms")),
            timestamp_after_max: Millis(number("message.timestamp.after.max.ms")),
            compression: match value(broker, configs, "compression.type").trim() {
                "uncompressed" => TopicCompression::Uncompressed,
                "gzip" => TopicCompression::Gzip(u32::try_from(int("compression.gzip.level")).ok()),
                "snappy" => TopicCompression::Snappy,
                "lz4" => TopicCompression::Lz4,
                "zstd" => TopicCompression::Zstd(int("compression.zstd.level")),
                _ => TopicCompression::Producer,
            },
            max_decompressed_bytes: number("max.decompressed.message.bytes"),
        }
    }
}

/// A topic key's value: the topic's own, else the broker's, else the default.
fn value(broker: &Settings, configs: &BTreeMap<String, String>, name: &str) -> String {
    if let Some(own) = configs.get(name) {
        return own.clone();
    }
    let Some(key) = find(name) else { return String::new() };
    let inherited = key.broker_key.and_then(|broker_key| broker.value(broker_key));
    inherited.unwrap_or_else(|| key.default.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::TOPIC_KEYS;
    use super::*;

    #[test]
    fn every_default_is_legal_and_keys_are_sorted() {
        for key in TOPIC_KEYS {
            key.kind.check(key.name, key.default).unwrap();
        }
        assert!(TOPIC_KEYS.is_sorted_by_key(|key| key.name));
    }

    #[test]
    fn a_topic_inherits_from_the_broker() {
        let given = BTreeMap::from([("log.retention.hours".to_owned(), "1".to_owned())]);
        let broker = Settings::from_configs(&given).unwrap();
        let settings = TopicSettings::resolve(&broker, &BTreeMap::new());
        assert_eq!(settings.retention, Some(Millis(3_600_000)));
        let own = BTreeMap::from([("retention.ms".to_owned(), "-1".to_owned())]);
        assert_eq!(TopicSettings::resolve(&broker, &own).retention, None);
    }

    #[test]
    fn hours_give_the_time_of_a_part() {
        let given = BTreeMap::from([("log.roll.hours".to_owned(), "2".to_owned())]);
        let settings = Settings::from_configs(&given).unwrap();
        let topic = TopicSettings::resolve(&settings, &BTreeMap::new());
        assert_eq!(topic.compaction.segment_ms, Millis(7_200_000));
    }
}
