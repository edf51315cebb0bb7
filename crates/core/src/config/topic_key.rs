//! The configuration keys of topics: every key Kafka 4.4 knows.

use super::Kind;

/// A configuration key of topics.
#[derive(Clone, Copy, Debug)]
pub struct TopicKey {
    /// Kafka's name.
    pub name: &'static str,
    /// The values it takes.
    pub kind: Kind,
    /// Its default where the broker sets none.
    pub default: &'static str,
    /// The broker's key that gives the default, if there is one.
    pub broker_key: Option<&'static str>,
    /// False if the key is accepted and shown, but changes nothing in this broker.
    pub has_effect: bool,
    /// What it does here.
    pub doc: &'static str,
}

const fn key(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    broker_key: Option<&'static str>,
    doc: &'static str,
) -> TopicKey {
    TopicKey { name, kind, default, broker_key, has_effect: true, doc }
}

/// A key that changes nothing in this broker.
const fn ignored(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    broker_key: Option<&'static str>,
) -> TopicKey {
    TopicKey { name, kind, default, broker_key, has_effect: false, doc: NO_EFFECT }
}

/// The description of every key that changes nothing in this broker.
pub(super) const NO_EFFECT: &str = "accepted for compatibility with Kafka, has no effect";
const ANY_LONG: Kind = Kind::Long(0, i64::MAX);
const CODECS: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];

/// All topic configuration keys, by name.
pub const TOPIC_KEYS: &[TopicKey] = &[
    key(
        "cleanup.policy",
        Kind::List(&["compact", "delete"]),
        "delete",
        Some("log.cleanup.policy"),
        "delete: old records go by time and size; compact: the last record of each key stays; both: compacted, and old records go",
    ),
    key(
        "compression.gzip.level",
        Kind::NonZero(-1, 9),
        "-1",
        Some("compression.gzip.level"),
        "level of gzip where compression.type is gzip and a batch has another codec; -1 is the codec's default",
    ),
    ignored("compression.lz4.level", Kind::Int(1, 17), "9", Some("compression.lz4.level")),
    key(
        "compression.type",
        Kind::OneOf(CODECS),
        "producer",
        Some("compression.type"),
        "the codec batches are stored with; producer keeps the codec each batch arrives with",
    ),
    key(
        "compression.zstd.level",
        Kind::Int(-131_072, 22),
        "3",
        Some("compression.zstd.level"),
        "level of zstd where compression.type is zstd and a batch has another codec",
    ),
    key(
        "delete.retention.ms",
        ANY_LONG,
        "86400000",
        Some("log.cleaner.delete.retention.ms"),
        "how long compaction keeps tombstones and the marks of ended transactions, from when it first sees them, in milliseconds",
    ),
    ignored("errors.deadletterqueue.group.enable", Kind::Boolean, "false", None),
    ignored("file.delete.delay.ms", ANY_LONG, "60000", Some("log.segment.delete.delay.ms")),
    ignored(
        "flush.messages",
        Kind::Long(1, i64::MAX),
        "9223372036854775807",
        Some("log.flush.interval.messages"),
    ),
    ignored("flush.ms", ANY_LONG, "9223372036854775807", Some("log.flush.interval.ms")),
    ignored("follower.replication.throttled.replicas", Kind::Replicas, "", None),
    ignored("index.interval.bytes", Kind::Int(0, i32::MAX), "4096", Some("log.index.interval.bytes")),
    ignored("leader.replication.throttled.replicas", Kind::Replicas, "", None),
    ignored("local.retention.bytes", Kind::Long(-2, i64::MAX), "-2", Some("log.local.retention.bytes")),
    ignored("local.retention.ms", Kind::Long(-2, i64::MAX), "-2", Some("log.local.retention.ms")),
    key(
        "max.compaction.lag.ms",
        Kind::Long(1, i64::MAX),
        "9223372036854775807",
        Some("log.cleaner.max.compaction.lag.ms"),
        "a record this old is compacted whatever the dirty ratio, in milliseconds",
    ),
    key(
        "max.decompressed.message.bytes",
        Kind::Int(1, 2_147_483_639),
        "2147483639",
        Some("max.decompressed.message.bytes"),
        "the most bytes that the records of a compressed batch may have when decompressed; never more than 128 MiB here",
    ),
    key(
        "max.message.bytes",
        Kind::Int(0, i32::MAX),
        "1048588",
        Some("message.max.bytes"),
        "the largest record batch that is accepted, in bytes",
    ),
    key(
        "message.timestamp.after.max.ms",
        ANY_LONG,
        "3600000",
        Some("log.message.timestamp.after.max.ms"),
        "how far ahead of the broker's clock a record's timestamp may be, in milliseconds",
    ),
    key(
        "message.timestamp.before.max.ms",
        ANY_LONG,
        "9223372036854775807",
        Some("log.message.timestamp.before.max.ms"),
        "how far behind the broker's clock a record's timestamp may be, in milliseconds",
    ),
    key(
        "message.timestamp.type",
        Kind::OneOf(&["CreateTime", "LogAppendTime"]),
        "CreateTime",
        Some("log.message.timestamp.type"),
        "whose time records carry: the producer's or the broker's",
    ),
    key(
        "min.cleanable.dirty.ratio",
        Kind::Double(0.0, 1.0),
        "0.5",
        Some("log.cleaner.min.cleanable.ratio"),
        "a partition is compacted when more than this share of its bytes is new since the last time",
    ),
    key(
        "min.compaction.lag.ms",
        ANY_LONG,
        "0",
        Some("log.cleaner.min.compaction.lag.ms"),
        "the shortest a record stays out of compaction, in milliseconds",
    ),
    ignored("min.insync.replicas", Kind::Int(1, i32::MAX), "1", Some("min.insync.replicas")),
    ignored("preallocate", Kind::Boolean, "false", Some("log.preallocate")),
    ignored("remote.copy.lag.bytes", Kind::Long(-1, i64::MAX), "-1", Some("log.remote.copy.lag.bytes")),
    ignored("remote.copy.lag.ms", Kind::Long(-1, i64::MAX), "0", Some("log.remote.copy.lag.ms")),
    ignored("remote.log.copy.disable", Kind::Boolean, "false", None),
    ignored("remote.log.delete.on.disable", Kind::Boolean, "false", None),
    key(
        "remote.storage.enable",
        Kind::Boolean,
        "false",
        None,
        "only false is accepted, as there is no tiered storage",
    ),
    key(
        "retention.bytes",
        Kind::Long(i64::MIN, i64::MAX),
        "-1",
        Some("log.retention.bytes"),
        "how many bytes of a partition are kept, -1 for all",
    ),
    key(
        "retention.ms",
        Kind::Long(-1, i64::MAX),
        "604800000",
        Some("log.retention.ms"),
        "how long records are kept, in milliseconds, -1 for no limit",
    ),
    key(
        "segment.bytes",
        Kind::Int(1_048_576, i32::MAX),
        "1073741824",
        Some("log.segment.bytes"),
        "records go in parts of this size at most, in bytes; compaction leaves the last part of a partition alone",
    ),
    ignored("segment.index.bytes", Kind::Int(4, i32::MAX), "10485760", Some("log.index.size.max.bytes")),
    ignored("segment.jitter.ms", ANY_LONG, "0", Some("log.roll.jitter.ms")),
    key(
        "segment.ms",
        Kind::Long(1, i64::MAX),
        "604800000",
        Some("log.roll.ms"),
        "a part spans this much time at most, in milliseconds; what is older is no longer the last part",
    ),
    ignored("unclean.leader.election.enable", Kind::Boolean, "false", Some("unclean.leader.election.enable")),
];

/// The topic key of this name.
pub(super) fn find(name: &str) -> Option<&'static TopicKey> {
    TOPIC_KEYS.iter().find(|key| key.name == name)
}
