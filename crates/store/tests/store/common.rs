//! Histories of records, and the check of a recovered log against them.

use bytes::Bytes;
use ottla_store::testing::FaultMedium;
use ottla_store::{Callbacks, EntryRange, Log, Medium, OpenError, OpenLog, Options, ReplayItem};
use ottla_types::record::{BatchAppended, GroupDeleted, GroupRecord, LogRecord, PartitionRecord};
use ottla_types::{
    BatchSummary, LogPosition, Millis, Offset, ProducerEpoch, ProducerId, TimestampType, TopicId,
    TopicPartition,
};
use std::sync::Arc;

/// Settings for a log without threads, with the smallest segments.
pub(crate) fn quiet() -> Options {
    Options {
        segment_size: 64 << 10,
        threads: false,
        zero_fill: true,
        recent: 64 << 10,
        log_id: Some(0x1234),
        ..Options::disk()
    }
}

/// A small record with a number in it.
pub(crate) fn small(number: u64) -> LogRecord {
    LogRecord::Groups(GroupRecord::Deleted(GroupDeleted { group_id: format!("group-{number}") }))
}

/// A batch of `size` bytes that hold its number.
pub(crate) fn batch(number: u64, size: usize) -> LogRecord {
    let mut payload = vec![number as u8; size];
    for (place, byte) in payload[43..].iter_mut().zip(number.to_le_bytes()) {
        *place = byte;
    }
    LogRecord::Partitions(PartitionRecord::BatchAppended(BatchAppended {
        partition: TopicPartition { topic: TopicId::ZERO, partition: 0 },
        base_offset: Offset(number as i64),
        leader_epoch: 3,
        at: Millis(number as i64),
        summary: BatchSummary {
            size: size as u32,
            last_offset_delta: 0,
            record_count: 1,
            base_timestamp: Millis(0),
            max_timestamp: Millis(0),
            timestamp_type: TimestampType::CreateTime,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            base_sequence: -1,
            transactional: false,
            control: false,
        },
        payload: payload.into(),
    }))
}

/// The bytes that should be stored for a batch.
pub(crate) fn stored(record: &LogRecord) -> Bytes {
    let LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) = record else {
        return Bytes::new();
    };
    let mut bytes = batch.payload.to_vec();
    ottla_layout::record::patch_batch(batch, &mut bytes);
    bytes.into()
}

/// A record as replay shows it: without batch bytes.
pub(crate) fn bare(record: &LogRecord) -> LogRecord {
    match record {
        LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) => {
            LogRecord::Partitions(PartitionRecord::BatchAppended(BatchAppended {
                payload: Bytes::new(),
                ..batch.clone()
            }))
        }
        other => other.clone(),
    }
}

/// A record as a snapshot of these tests holds it: batches have no rows of their own kind.
pub(crate) fn row(record: &LogRecord) -> LogRecord {
    match record {
        LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) => {
            LogRecord::Groups(GroupRecord::Deleted(GroupDeleted {
                group_id: format!("batch-{}", batch.base_offset.0),
            }))
        }
        other => other.clone(),
    }
}

/// The rows and records of a replay.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) snapshot: Vec<LogRecord>,
    pub(crate) entries: Vec<(EntryRange, LogRecord)>,
}

impl Replay {
    pub(crate) fn records(&self) -> Vec<LogRecord> {
        self.entries.iter().map(|(_, record)| record.clone()).collect()
    }
}

pub(crate) fn open(medium: &FaultMedium, options: Options) -> Result<(OpenLog, Replay), OpenError> {
    open_with(medium, options, Callbacks::none())
}

pub(crate) fn open_with(
    medium: &FaultMedium,
    options: Options,
    callbacks: Callbacks,
) -> Result<(OpenLog, Replay), OpenError> {
    open_on(Arc::new(medium.clone()), options, callbacks)
}

pub(crate) fn open_on(
    medium: Arc<dyn Medium>,
    options: Options,
    callbacks: Callbacks,
) -> Result<(OpenLog, Replay), OpenError> {
    let mut replay = Replay::default();
    let opened = Log::open(medium, options, callbacks, &mut |replayed| match replayed {
        ReplayItem::Snapshot(record) => replay.snapshot.push(record),
        ReplayItem::Entry(place, record) => replay.entries.push((place, record)),
    })?;
    Ok((opened, replay))
}

/// Frees every segment that lies wholly before `position`, as far as the log allows; returns those that will be freed.
pub(crate) fn free_before(log: &Log, position: LogPosition) -> Vec<u64> {
    let limit = log.segment_of(position);
    let numbers: Vec<u64> = log.segments().into_iter().filter(|number| *number < limit).collect();
    log.free_segments(&numbers)
}

/// Random numbers from a seed.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The appended records, and the position up to which they were reported durable.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) appended: Vec<(EntryRange, LogRecord)>,
    pub(crate) durable: LogPosition,
}

impl Ledger {
    /// Records that must survive: those whose end was reported durable.
    pub(crate) fn acknowledged(&self) -> usize {
        self.appended.iter().take_while(|(place, _)| place.end <= self.durable).count()
    }

    /// Checks a replay: snapshot and entries together are a prefix of what was appended, with everything acknowledged.
    /// The surviving records become the new history.
    pub(crate) fn check(&mut self, replay: &Replay, what: &str) {
        let rows = replay.snapshot.len();
        let found = rows + replay.entries.len();
        let acknowledged = self.acknowledged();
        assert!(found >= acknowledged, "{what}: {found} of {acknowledged} acknowledged records came back");
        assert!(found <= self.appended.len(), "{what}: more came back than was appended");
        for (index, found) in replay.snapshot.iter().enumerate() {
            assert_eq!(found, &row(&self.appended[index].1), "{what}: row {index}");
        }
        for (index, found) in replay.records().iter().enumerate() {
            assert_eq!(found, &bare(&self.appended[rows + index].1), "{what}: entry {index}");
        }
        for (index, (place, _)) in replay.entries.iter().enumerate() {
            assert_eq!(place, &self.appended[rows + index].0, "{what}: place of entry {index}");
        }
        self.appended.truncate(found);
    }
}
