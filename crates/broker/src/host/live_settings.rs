//! Settings that connections read without a command to the state machine: the requirements of a topic on a batch,
//! checked before it is submitted, and the limit of open connections. The machine writes them when it applies a record,
//! before the change is answered.

use super::live_access::LiveAccess;
use ottla_core::Shard;
use ottla_core::catalog::TopicRef;
use ottla_core::config::{TopicCompression, TopicSettings, keys_without_effect};
use ottla_types::record::{CatalogRecord, LogRecord};
use ottla_types::{Millis, TimestampType, TopicId};
use ottla_wire::codec::{Compression, Level};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The requirements of a topic on the bytes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchRule {
    /// The largest batch, in bytes.
    pub(crate) max_bytes: i64,
    /// The most bytes of a compressed batch's records when decompressed.
    pub(crate) max_decompressed: usize,
    /// The codec that batches are stored with; none to keep that of the producer.
    pub(crate) compression: Option<(Compression, Level)>,
    /// Every record needs a key.
    pub(crate) needs_keys: bool,
    /// How far before and after the broker's clock a timestamp may be; none where the broker sets it.
    pub(crate) time_bounds: Option<(Millis, Millis)>,
}

impl BatchRule {
    fn of(settings: &TopicSettings) -> BatchRule {
        let level = |level: Option<u32>| Level(level.and_then(|level| i32::try_from(level).ok()));
        BatchRule {
            max_bytes: settings.max_message_bytes,
            max_decompressed: usize::try_from(settings.max_decompressed_bytes).unwrap_or(0),
            compression: match settings.compression {
                TopicCompression::Producer => None,
                TopicCompression::Uncompressed => Some((Compression::None, Level::default())),
                TopicCompression::Gzip(of) => Some((Compression::Gzip, level(of))),
                TopicCompression::Snappy => Some((Compression::Snappy, Level::default())),
                TopicCompression::Lz4 => Some((Compression::Lz4, Level::default())),
                TopicCompression::Zstd(of) => Some((Compression::Zstd, Level(Some(of)))),
            },
            needs_keys: settings.compact,
            time_bounds: (settings.timestamp_type == TimestampType::CreateTime)
                .then_some((settings.timestamp_before_max, settings.timestamp_after_max)),
        }
    }
}

/// Settings that connections read without a command.
#[derive(Debug)]
pub(crate) struct LiveSettings {
    rules: RwLock<Rules>,
    /// `max.connections` as set while the broker runs; 0 if it is not.
    max_connections: AtomicUsize,
    /// Wall time when the machine last ran.
    now: AtomicI64,
    /// Keys without effect that were logged.
    named: Mutex<BTreeSet<&'static str>>,
    /// Producers were forgotten before they expired, which was logged.
    forgot_producers: AtomicBool,
    access: LiveAccess,
}

/// The rule of topics without a configuration of their own, and the topics that differ.
#[derive(Debug)]
struct Rules {
    default: BatchRule,
    by_name: BTreeMap<String, BatchRule>,
    names: BTreeMap<TopicId, String>,
}

impl LiveSettings {
    /// The settings of a shard that was replayed.
    pub(super) fn new(shard: &Shard) -> LiveSettings {
        let settings = LiveSettings {
            rules: RwLock::new(Rules::of(shard)),
            max_connections: AtomicUsize::new(0),
            now: AtomicI64::new(0),
            named: Mutex::default(),
            forgot_producers: AtomicBool::new(false),
            access: LiveAccess::of_shard(shard),
        };
        settings.read_broker(shard);
        let given = shard.catalog().given_settings().all_given().keys();
        settings.name_keys(given.map(String::as_str));
        for topic in shard.catalog().topics() {
            settings.name_keys(topic.configs.keys().map(String::as_str));
        }
        settings
    }

    /// Takes note of a record that was applied.
    pub(super) fn applied(&self, shard: &Shard, record: &LogRecord) {
        self.access.applied(record);
        let LogRecord::Catalog(record) = record else { return };
        match record {
            CatalogRecord::TopicCreated(created) => {
                self.write().put(shard, created.id);
                self.name_keys(created.configs.iter().map(|(name, _)| name.as_str()));
            }
            CatalogRecord::TopicConfigured(configured) => {
                self.write().put(shard, configured.id);
                self.name_keys(configured.configs.iter().map(|(name, _)| name.as_str()));
            }
            CatalogRecord::TopicDeleted(deleted) => self.write().remove(deleted.id),
            CatalogRecord::BrokerConfigured(_) => {
                *self.write() = Rules::of(shard);
                self.read_broker(shard);
            }
            CatalogRecord::ClusterCreated(_) | CatalogRecord::PartitionsAdded(_) => {}
        }
    }

    /// The requirements of a topic on a batch; the broker's defaults for a topic that does not exist.
    pub(crate) fn batch_rule(&self, topic: &TopicRef) -> BatchRule {
        let rules = self.read();
        if rules.by_name.is_empty() {
            return rules.default;
        }
        let own = match topic {
            TopicRef::Name(name) => rules.by_name.get(name),
            TopicRef::Id(id) => rules.names.get(id).and_then(|name| rules.by_name.get(name)),
        };
        own.copied().unwrap_or(rules.default)
    }

    /// ACLs, users, and the names of topics.
    pub(crate) fn access(&self) -> &LiveAccess {
        &self.access
    }

    /// How many connections may be open, if that was set while the broker runs.
    pub(crate) fn max_connections(&self) -> Option<usize> {
        Some(self.max_connections.load(Ordering::Relaxed)).filter(|most| *most > 0)
    }

    /// Wall time when the machine last ran: at most a minute ago.
    pub(crate) fn now(&self) -> Millis {
        Millis(self.now.load(Ordering::Relaxed))
    }

    pub(super) fn ran_at(&self, now: Millis) {
        self.now.store(now.0, Ordering::Relaxed);
    }

    /// Logs once that producers are forgotten because there are too many.
    pub(super) fn warn_of_forgotten_producers(&self) {
        if !self.forgot_producers.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "there are more producers than ottla.producers.max: the least recently used are forgotten, and a batch that one \
                 of them sends again is appended a second time"
            );
        }
    }

    fn read_broker(&self, shard: &Shard) {
        let configs = shard.catalog().broker_configs();
        let most = configs.get("max.connections").and_then(|text| text.trim().parse().ok());
        self.max_connections.store(most.unwrap_or(0), Ordering::Relaxed);
        self.name_keys(configs.keys().map(String::as_str));
    }

    /// Logs keys without effect, each once.
    fn name_keys<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut keys = keys_without_effect(names).peekable();
        if keys.peek().is_none() {
            return;
        }
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys.filter(|key| named.insert(key)) {
            tracing::warn!(key, "this setting is accepted for compatibility with Kafka and has no effect");
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rules> {
        self.rules.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rules {
    fn of(shard: &Shard) -> Rules {
        let default = TopicSettings::of_broker(shard.catalog().settings());
        let (by_name, names) = (BTreeMap::new(), BTreeMap::new());
        let mut rules = Rules { default: BatchRule::of(&default), by_name, names };
        for topic in shard.catalog().topics() {
            rules.put(shard, topic.id);
        }
        rules
    }

    fn put(&mut self, shard: &Shard, id: TopicId) {
        self.remove(id);
        let Some(topic) = shard.catalog().topic(id) else { return };
        let rule = BatchRule::of(&topic.settings);
        if rule != self.default {
            self.names.insert(id, topic.name.clone());
            self.by_name.insert(topic.name.clone(), rule);
        }
    }

    fn remove(&mut self, id: TopicId) {
        if let Some(name) = self.names.remove(&id) {
            self.by_name.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_core::config::Settings;
    use ottla_types::record::BrokerConfigured;

    #[test]
    fn a_key_without_effect_is_logged_once() {
        let given = [("num.io.threads", "4"), ("num.partitions", "3"), ("log.preallocate", "true")];
        let given = given.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let mut shard = Shard::new(Settings::from_configs(&given).unwrap());
        let live = LiveSettings::new(&shard);
        let named = || live.named.lock().unwrap().iter().copied().collect::<Vec<_>>();
        assert_eq!(named(), ["log.preallocate", "num.io.threads"]);
        let configs = vec![
            ("background.threads".to_owned(), "7".to_owned()),
            ("max.connections".to_owned(), "9".to_owned()),
        ];
        let record = LogRecord::Catalog(CatalogRecord::BrokerConfigured(BrokerConfigured { configs }));
        let at = ottla_types::LogPosition(4096);
        shard.apply(ottla_core::RecordPosition { position: at, payload: at }, &record);
        live.applied(&shard, &record);
        assert_eq!(named(), ["background.threads", "log.preallocate", "num.io.threads"]);
        assert_eq!(live.max_connections(), Some(9));
    }
}
