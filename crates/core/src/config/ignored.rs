//! Broker keys that Kafka changes at run time and that change nothing in this broker: they are accepted, so that tools
//! and provisioning scripts work, and are shown with that description.

use super::check::Kind;
use super::key::BrokerKey;
use super::topic_key::NO_EFFECT;

const fn ignored(name: &'static str, kind: Kind, default: &'static str) -> BrokerKey {
    BrokerKey { name, kind, default, dynamic: true, has_effect: false, doc: NO_EFFECT }
}

const COUNT: Kind = Kind::Int(1, i32::MAX);
const RATE: Kind = Kind::Long(1, i64::MAX);
const ANY_NUMBER: Kind = Kind::Double(f64::NEG_INFINITY, f64::INFINITY);
/// Kafka's bounds on the interval between two assignments of a group, in milliseconds.
const ASSIGNMENT_INTERVAL: Kind = Kind::Int(0, 15_000);
/// Kafka's lower bound on the cached buffers of its coordinators, in bytes.
const CACHED_BUFFER: Kind = Kind::Int(524_288, i32::MAX);
const MAX_RATE: &str = "9223372036854775807";
const MAX_COUNT: &str = "2147483647";

/// The keys, by name.
pub const IGNORED_BROKER_KEYS: &[BrokerKey] = &[
    ignored("background.threads", COUNT, "10"),
    ignored("errors.deadletterqueue.auto.create.topics.enable", Kind::Boolean, "false"),
    ignored("errors.deadletterqueue.topic.name.prefix", Kind::Text, "dlq."),
    ignored("follower.fetch.last.tiered.offset.enable", Kind::Boolean, "false"),
    ignored("group.consumer.assignment.interval.ms", ASSIGNMENT_INTERVAL, "1000"),
    ignored("group.coordinator.cached.buffer.max.bytes", CACHED_BUFFER, "1048588"),
    ignored("group.share.assignment.interval.ms", ASSIGNMENT_INTERVAL, "1000"),
    ignored("group.streams.assignment.interval.ms", ASSIGNMENT_INTERVAL, "1000"),
    ignored("log.cleaner.io.buffer.load.factor", ANY_NUMBER, "0.9"),
    ignored("log.cleaner.io.buffer.size", Kind::Int(0, i32::MAX), "524288"),
    ignored("log.cleaner.io.max.bytes.per.second", ANY_NUMBER, "1.7976931348623157E308"),
    ignored("log.cleaner.threads", COUNT, "1"),
    ignored("max.connection.creation.rate", COUNT, MAX_COUNT),
    ignored("max.connections.per.ip", COUNT, MAX_COUNT),
    ignored("max.connections.per.ip.overrides", Kind::Text, ""),
    ignored("num.io.threads", COUNT, "8"),
    ignored("num.network.threads", COUNT, "3"),
    ignored("num.recovery.threads.per.data.dir", COUNT, "2"),
    ignored("num.replica.fetchers", COUNT, "1"),
    ignored("remote.fetch.max.wait.ms", COUNT, "500"),
    ignored("remote.list.offsets.request.timeout.ms", RATE, "30000"),
    ignored("remote.log.index.file.cache.total.size.bytes", RATE, "1073741824"),
    ignored("remote.log.manager.copier.thread.pool.size", COUNT, "10"),
    ignored("remote.log.manager.copy.max.bytes.per.second", RATE, MAX_RATE),
    ignored("remote.log.manager.expiration.thread.pool.size", COUNT, "10"),
    ignored("remote.log.manager.fetch.max.bytes.per.second", RATE, MAX_RATE),
    ignored("remote.log.manager.follower.thread.pool.size", COUNT, "2"),
    ignored("remote.log.reader.threads", COUNT, "10"),
    ignored("share.coordinator.cached.buffer.max.bytes", CACHED_BUFFER, "1048588"),
    ignored("transaction.partition.verification.enable", Kind::Boolean, "true"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_legal_and_keys_are_sorted() {
        for key in IGNORED_BROKER_KEYS.iter().filter(|key| !key.default.is_empty()) {
            key.kind.check(key.name, key.default).unwrap();
        }
        assert!(IGNORED_BROKER_KEYS.is_sorted_by_key(|key| key.name));
    }
}
