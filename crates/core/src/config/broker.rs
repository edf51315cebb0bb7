//! Broker configuration: the keys that decide something here, and what they come to.

use super::Kind;
use super::ignored::IGNORED_BROKER_KEYS;
use super::key::BrokerKey;
use super::security::{SECURITY_KEYS, without_listener};
use super::topic_key::TOPIC_KEYS;
use ottla_types::Millis;
use std::collections::BTreeMap;

const fn fixed(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> BrokerKey {
    BrokerKey { name, kind, default, dynamic: false, has_effect: true, doc }
}

const fn dynamic(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> BrokerKey {
    BrokerKey { name, kind, default, dynamic: true, has_effect: true, doc }
}

const MILLIS: Kind = Kind::Long(0, i64::MAX);
const POSITIVE: Kind = Kind::Int(1, i32::MAX);

/// All broker configuration keys that decide something here. Keys that only give a topic key its default
/// (`log.cleanup.policy` …) are found through [`super::TOPIC_KEYS`].
pub const BROKER_KEYS: &[BrokerKey] = &[
    fixed(
        "auto.create.topics.enable",
        Kind::Boolean,
        "true",
        "create a topic when a client first asks for it",
    ),
    fixed(
        "connections.max.idle.ms",
        Kind::Long(1, i64::MAX),
        "600000",
        "how long a connection may be silent with no answer due, in milliseconds",
    ),
    fixed(
        "default.replication.factor",
        Kind::Int(1, 32767),
        "1",
        "copies of each partition where a client leaves it open",
    ),
    fixed("delete.topic.enable", Kind::Boolean, "true", "allow topics to be deleted"),
    fixed(
        "group.initial.rebalance.delay.ms",
        Kind::Int(0, i32::MAX),
        "0",
        "how long an empty group waits for more members, in milliseconds",
    ),
    fixed(
        "group.max.session.timeout.ms",
        Kind::Int(0, i32::MAX),
        "1800000",
        "longest session timeout of a member, in milliseconds",
    ),
    fixed("group.max.size", POSITIVE, "2147483647", "most members of a group"),
    fixed(
        "group.min.session.timeout.ms",
        Kind::Int(0, i32::MAX),
        "6000",
        "shortest session timeout of a member, in milliseconds",
    ),
    dynamic(
        "log.cleaner.backoff.ms",
        MILLIS,
        "15000",
        "how long compaction sleeps when there was nothing to do, in milliseconds",
    ),
    dynamic(
        "log.cleaner.dedupe.buffer.size",
        Kind::Long(1, i64::MAX),
        "67108864",
        "memory for the keys of one pass of compaction, in bytes: a pass that meets more keys ends early, and another follows",
    ),
    dynamic("log.cleanup.policy", Kind::List(&["compact", "delete"]), "delete", "default of cleanup.policy"),
    dynamic(
        "log.message.timestamp.type",
        Kind::OneOf(&["CreateTime", "LogAppendTime"]),
        "CreateTime",
        "default of message.timestamp.type",
    ),
    dynamic("log.retention.bytes", Kind::Long(i64::MIN, i64::MAX), "-1", "default of retention.bytes"),
    fixed(
        "log.retention.check.interval.ms",
        Kind::Long(1, i64::MAX),
        "300000",
        "how often retention looks for old records, in milliseconds",
    ),
    fixed(
        "log.retention.hours",
        Kind::Int(-1, i32::MAX),
        "168",
        "how long records are kept, in hours; see log.retention.ms",
    ),
    fixed(
        "log.retention.minutes",
        Kind::Int(-1, i32::MAX),
        "",
        "how long records are kept, in minutes; see log.retention.ms",
    ),
    dynamic(
        "log.retention.ms",
        Kind::Long(i64::MIN, i64::MAX),
        "",
        "default of retention.ms; wins over minutes and hours",
    ),
    fixed(
        "log.roll.hours",
        POSITIVE,
        "168",
        "how much time a part of a partition spans at most, in hours; see log.roll.ms",
    ),
    dynamic("log.roll.ms", Kind::Long(1, i64::MAX), "", "default of segment.ms; wins over hours"),
    dynamic("max.connections", POSITIVE, "10000", "open connections; one more is closed at once"),
    dynamic("message.max.bytes", Kind::Int(0, i32::MAX), "1048588", "default of max.message.bytes"),
    fixed("node.id", Kind::Int(0, i32::MAX), "1", "the id clients know this broker by"),
    fixed("num.partitions", POSITIVE, "1", "partitions of a topic where a client leaves it open"),
    fixed(
        "offset.metadata.max.bytes",
        Kind::Int(0, i32::MAX),
        "4096",
        "longest note with a committed offset, in UTF-16 units",
    ),
    fixed(
        "offsets.retention.check.interval.ms",
        Kind::Long(1, i64::MAX),
        "600000",
        "how often old offsets are looked for, in milliseconds",
    ),
    fixed(
        "offsets.retention.minutes",
        POSITIVE,
        "10080",
        "how long an empty group's offsets are kept, in minutes",
    ),
    fixed(
        "offsets.topic.num.partitions",
        POSITIVE,
        "50",
        "partitions that groups are spread over, as transactions list them",
    ),
    fixed(
        "ottla.clamp.replication.factor",
        Kind::Boolean,
        "false",
        "take a replication factor above the number of brokers for the number of brokers",
    ),
    fixed(
        "ottla.group.bytes",
        Kind::Long(0, i64::MAX),
        "16777216",
        "what the members of all groups say of themselves and are assigned, in bytes",
    ),
    fixed(
        "ottla.producers.max",
        POSITIVE,
        "100000",
        "producers without transactions that are remembered, counted for each partition they write to; the least recently \
         used are forgotten when there are more",
    ),
    fixed(
        "ottla.queued.max.response.bytes",
        Kind::Long(1, i64::MAX),
        "25165824",
        "answers that their peers have not taken yet, of all connections together, in bytes",
    ),
    fixed(
        "ottla.recent.bytes",
        Kind::Long(0, i64::MAX),
        "50331648",
        "the end of the log that is kept in memory for readers, in bytes",
    ),
    fixed(
        "ottla.rewrite.buffer.bytes",
        Kind::Long(65_536, 1 << 40),
        "33554432",
        "memory in which batches are sorted on their way from the log into runs, in bytes",
    ),
    fixed("ottla.runs.max", Kind::Int(2, i32::MAX), "128", "runs; small ones are merged when there are more"),
    fixed(
        "ottla.snapshot.bytes",
        Kind::Long(1 << 20, i64::MAX),
        "268435456",
        "bytes of log after which a snapshot is written; with fewer a start has less to read",
    ),
    fixed(
        "ottla.tail.max.batches",
        Kind::Int(1, i32::MAX),
        "1000000",
        "batches that are not in runs yet; Produce waits when there are more",
    ),
    fixed(
        "ottla.tail.max.bytes",
        Kind::Long(1, i64::MAX),
        "536870912",
        "bytes of log that are not in runs yet, but at least three log segments; Produce waits when there are more",
    ),
    fixed(
        "ottla.trace.bytes",
        Kind::Long(0, i64::MAX),
        "8388608",
        "what is recorded of exchanges while that is on, in bytes",
    ),
    dynamic(
        "producer.id.expiration.ms",
        Kind::Int(1, i32::MAX),
        "86400000",
        "how long an idle producer is remembered, in milliseconds",
    ),
    fixed(
        "queued.max.request.bytes",
        Kind::Long(1, i64::MAX),
        "92274688",
        "requests received or being answered, of all connections together, in bytes; one of the largest is counted apart",
    ),
    fixed("socket.request.max.bytes", POSITIVE, "67108864", "the largest request, in bytes"),
    BrokerKey {
        name: "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        kind: Kind::Int(1, i32::MAX),
        default: "10000",
        dynamic: false,
        has_effect: false,
        doc: "accepted for compatibility with Kafka, has no effect: overdue transactions are aborted when they are due",
    },
    fixed(
        "transaction.max.timeout.ms",
        Kind::Int(1, i32::MAX),
        "900000",
        "longest transaction timeout a client may ask for, in milliseconds",
    ),
    fixed(
        "transactional.id.expiration.ms",
        Kind::Int(1, i32::MAX),
        "604800000",
        "how long an idle transactional id is remembered, in milliseconds",
    ),
];

/// All configuration keys of the broker, by name: its own, and those that only give a topic key its default, which can
/// all be changed while the broker runs.
pub fn broker_keys() -> Vec<BrokerKey> {
    let mut keys: Vec<BrokerKey> =
        BROKER_KEYS.iter().chain(SECURITY_KEYS).chain(IGNORED_BROKER_KEYS).copied().collect();
    let own = keys.len();
    for key in TOPIC_KEYS.iter().filter_map(of_topic_key) {
        if keys.iter().take(own).all(|known| known.name != key.name) {
            keys.push(key);
        }
    }
    keys.sort_by_key(|key| key.name);
    keys
}

/// The broker key that gives a topic key its default.
fn of_topic_key(key: &super::TopicKey) -> Option<BrokerKey> {
    let super::TopicKey { kind, default, has_effect, doc, .. } = *key;
    key.broker_key.map(|name| BrokerKey { name, kind, default, dynamic: true, has_effect, doc })
}

/// The broker key of this name.
pub(super) fn find(name: &str) -> Option<BrokerKey> {
    let name = without_listener(name).unwrap_or(name);
    let own = BROKER_KEYS.iter().chain(SECURITY_KEYS).chain(IGNORED_BROKER_KEYS);
    let own = own.clone().find(|key| key.name == name).copied();
    own.or_else(|| TOPIC_KEYS.iter().filter(|key| key.broker_key == Some(name)).find_map(of_topic_key))
}

/// The broker's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    given: BTreeMap<String, String>,
    /// `node.id`.
    pub node_id: i32,
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `default.replication.factor`.
    pub default_replication_factor: i16,
    /// `ottla.clamp.replication.factor`.
    pub clamp_replication_factor: bool,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `delete.topic.enable`.
    pub delete_topic_enable: bool,
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval: Millis,
    /// `log.cleaner.backoff.ms`.
    pub cleaner_backoff: Millis,
    /// `log.cleaner.dedupe.buffer.size`.
    pub cleaner_buffer: usize,
    /// `transaction.max.timeout.ms`.
    pub transaction_max_timeout: Millis,
    /// `transactional.id.expiration.ms`.
    pub transactional_id_expiration: Millis,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration: Millis,
    /// `ottla.producers.max`.
    pub producers_max: usize,
    /// `offsets.retention.minutes`, in milliseconds.
    pub offsets_retention: Millis,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval: Millis,
    /// `offset.metadata.max.bytes`, counted in UTF-16 units as Kafka does (T-166).
    pub offset_metadata_max: usize,
    /// `offsets.topic.num.partitions`.
    pub offsets_partitions: i32,
    /// `group.initial.rebalance.delay.ms`.
    pub group_initial_rebalance_delay: Millis,
    /// `group.min.session.timeout.ms`.
    pub group_min_session_timeout: Millis,
    /// `group.max.session.timeout.ms`.
    pub group_max_session_timeout: Millis,
    /// `group.max.size`.
    pub group_max_size: usize,
    /// `ottla.tail.max.bytes`.
    pub tail_max_bytes: u64,
    /// `ottla.tail.max.batches`.
    pub tail_max_batches: usize,
    /// `ottla.rewrite.buffer.bytes`.
    pub rewrite_buffer: u64,
    /// `ottla.runs.max`.
    pub runs_max: usize,
    /// `ottla.group.bytes`.
    pub group_bytes: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::resolve(BTreeMap::new())
    }
}

impl Settings {
    /// These settings with some keys replaced.
    pub(crate) fn overlaid(&self, more: &BTreeMap<String, String>) -> Settings {
        let mut given = self.given.clone();
        given.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
        Settings::resolve(given)
    }

    /// All that was given, by key.
    pub fn all_given(&self) -> &BTreeMap<String, String> {
        &self.given
    }

    /// What was given for a key.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(String::as_str)
    }

    /// The value in force of a broker key: as given, by itself or in another unit, else its default; none if it has
    /// neither.
    pub fn value(&self, name: &str) -> Option<String> {
        match name {
            "log.retention.ms" => return Some(self.retention_ms().to_string()),
            "log.roll.ms" => return Some(self.roll_ms().to_string()),
            _ => {}
        }
        let default = || find(name).map(|key| key.default).filter(|text| !text.is_empty());
        self.given(name).or_else(default).map(str::to_owned)
    }

    /// The value of a key for one listener: given for the listener and the mechanism, for the listener, or for all,
    /// else its default (S-14).
    pub fn value_for(&self, listener: &str, mechanism: Option<&str>, name: &str) -> Option<String> {
        let listener = listener.to_lowercase();
        let of_mechanism = mechanism
            .and_then(|of| self.given(&format!("listener.name.{listener}.{}.{name}", of.to_lowercase())));
        let of_listener = of_mechanism.or_else(|| self.given_for(&listener, name));
        of_listener.map(str::to_owned).or_else(|| self.value(name))
    }

    /// What was given for a key for this listener alone.
    pub fn given_for(&self, listener: &str, name: &str) -> Option<&str> {
        self.given(&format!("listener.name.{}.{name}", listener.to_lowercase()))
    }

    /// Retention by the finest unit given: milliseconds, minutes, hours; -1 means no limit.
    pub(super) fn retention_ms(&self) -> i64 {
        let given = |name: &str| self.given(name).and_then(|text| text.trim().parse::<i64>().ok());
        let (count, unit) = match (given("log.retention.ms"), given("log.retention.minutes")) {
            (Some(ms), _) => (ms, 1),
            (None, Some(minutes)) => (minutes, 60_000),
            (None, None) => (given("log.retention.hours").unwrap_or(168), 3_600_000),
        };
        if count < 0 { -1 } else { count.saturating_mul(unit) }
    }

    /// The time that a part of a partition spans at most, by the finest unit given.
    fn roll_ms(&self) -> i64 {
        let given = |name: &str| self.given(name).and_then(|text| text.trim().parse::<i64>().ok());
        given("log.roll.ms")
            .unwrap_or_else(|| given("log.roll.hours").unwrap_or(168).saturating_mul(3_600_000))
    }

    pub(super) fn resolve(given: BTreeMap<String, String>) -> Settings {
        let text = |name: &str| -> String {
            let default = || find(name).map_or("", |key| key.default).to_owned();
            given.get(name).map(|value| value.trim().to_owned()).unwrap_or_else(default)
        };
        let number = |name: &str| text(name).parse::<i64>().unwrap_or_default();
        let int = |name: &str| i32::try_from(number(name)).unwrap_or(i32::MAX);
        let millis = |name: &str| Millis(number(name));
        let size = |name: &str| u64::try_from(number(name)).unwrap_or_default();
        let count = |name: &str| usize::try_from(number(name)).unwrap_or(usize::MAX);
        let flag = |name: &str| text(name).eq_ignore_ascii_case("true");
        Settings {
            node_id: int("node.id"),
            num_partitions: int("num.partitions"),
            default_replication_factor: i16::try_from(number("default.replication.factor")).unwrap_or(1),
            clamp_replication_factor: flag("ottla.clamp.replication.factor"),
            auto_create_topics: flag("auto.create.topics.enable"),
            delete_topic_enable: flag("delete.topic.enable"),
            retention_check_interval: millis("log.retention.check.interval.ms"),
            cleaner_backoff: millis("log.cleaner.backoff.ms"),
            cleaner_buffer: usize::try_from(number("log.cleaner.dedupe.buffer.size")).unwrap_or(usize::MAX),
            transaction_max_timeout: millis("transaction.max.timeout.ms"),
            transactional_id_expiration: millis("transactional.id.expiration.ms"),
            producer_id_expiration: millis("producer.id.expiration.ms"),
            producers_max: count("ottla.producers.max"),
            offsets_retention: Millis(number("offsets.retention.minutes") * 60_000),
            offsets_retention_check_interval: millis("offsets.retention.check.interval.ms"),
            offset_metadata_max: count("offset.metadata.max.bytes"),
            offsets_partitions: int("offsets.topic.num.partitions"),
            group_initial_rebalance_delay: millis("group.initial.rebalance.delay.ms"),
            group_min_session_timeout: millis("group.min.session.timeout.ms"),
            group_max_session_timeout: millis("group.max.session.timeout.ms"),
            group_max_size: count("group.max.size"),
            tail_max_bytes: size("ottla.tail.max.bytes"),
            tail_max_batches: count("ottla.tail.max.batches"),
            rewrite_buffer: size("ottla.rewrite.buffer.bytes"),
            runs_max: count("ottla.runs.max"),
            group_bytes: count("ottla.group.bytes"),
            given,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ConfigError;
    use super::*;

    #[test]
    fn every_default_is_legal_and_keys_are_sorted() {
        for key in BROKER_KEYS.iter().filter(|key| !key.default.is_empty()) {
            key.kind.check(key.name, key.default).unwrap();
        }
        assert!(BROKER_KEYS.is_sorted_by_key(|key| key.name));
    }

    #[test]
    fn an_unknown_key_is_named() {
        let given = BTreeMap::from([("num.partition".to_owned(), "3".to_owned())]);
        let error = Settings::from_configs(&given).unwrap_err();
        assert_eq!(error, ConfigError::UnknownKey("num.partition".to_owned()));
    }

    #[test]
    fn keys_that_contradict_each_other_are_refused() {
        let judge = |given: &[(&str, &str)]| {
            let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Settings::from_configs(&given)
        };
        let cases: [&[(&str, &str)]; 3] = [
            &[("group.min.session.timeout.ms", "5000000")],
            &[("default.replication.factor", "3")],
            &[("log.cleaner.min.compaction.lag.ms", "9"), ("log.cleaner.max.compaction.lag.ms", "8")],
        ];
        for case in cases {
            assert!(matches!(judge(case), Err(ConfigError::Contradiction { .. })), "{case:?}");
        }
        let joined =
            [("group.min.session.timeout.ms", "5000000"), ("group.max.session.timeout.ms", "6000000")];
        judge(&joined).unwrap();
        judge(&[("default.replication.factor", "3"), ("ottla.clamp.replication.factor", "true")]).unwrap();
    }

    #[test]
    fn keys_of_topics_can_be_set_for_the_broker_while_it_runs() {
        for key in TOPIC_KEYS.iter().filter_map(|key| key.broker_key) {
            assert!(find(key).is_some_and(|key| key.dynamic), "{key}");
        }
        let keys = broker_keys();
        assert!(keys.windows(2).all(|two| two[0].name < two[1].name), "sorted, none twice");
    }
}
