//! Builds data folders record by record, and lists what is in them.

use bytes::Bytes;
use ottla_core::{RecordPosition, Shard};
use ottla_store::inspect::{Folder, LogItem};
use ottla_store::{Callbacks, DiskMedium, EntryRange, Log, OpenError, Options, PartEnd, ReplayItem};
use ottla_types::record::*;
use ottla_types::{
    BatchSummary, Millis, Offset, ProducerEpoch, ProducerId, TimestampType, TopicId, TopicPartition,
};
use ottla_wire::batch::{BatchBuilder, BatchHeader, EndMarker, NewRecord, control_batch};
use ottla_wire::codec::Compression;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Noon of a day.
const NOON: i64 = 1_700_000_000_000;

pub(crate) const LETTERS: TopicId = TopicId([0x11; 16]);
pub(crate) const ORDERS: TopicId = TopicId([0x22; 16]);

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs `ottla log` on a folder. A process that another test forks holds the locks of this process until it calls exec,
/// so the command is repeated while it reports that the folder is in use.
pub(crate) fn ottla_log(flags: &[&str], folder: &Path) -> CommandResult {
    loop {
        let ended = ottla_log_once(flags, folder);
        if !ended.err.contains("is in use by") {
            return ended;
        }
        std::thread::yield_now();
    }
}

/// Runs `ottla log` on a folder.
pub(crate) fn ottla_log_once(flags: &[&str], folder: &Path) -> CommandResult {
    let (command, flags) = flags.split_first().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ottla"))
        .args(["log", command])
        .arg(folder)
        .args(flags)
        .output()
        .unwrap();
    CommandResult {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Locks a folder, and retries while another process has the lock; see [`ottla_log`].
fn until_free(open: impl Fn() -> Result<DiskMedium, OpenError>) -> DiskMedium {
    loop {
        match open() {
            Err(OpenError::Locked { .. }) => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

/// A log with the smallest segments, and the state that its records make.
struct FolderBuilder {
    log: Log,
    shard: Shard,
    next: BTreeMap<TopicPartition, i64>,
    time: i64,
}

fn applied(at: EntryRange) -> RecordPosition {
    RecordPosition { position: at.position, payload: at.payload.unwrap_or(at.position) }
}

impl FolderBuilder {
    fn open(folder: &Path) -> FolderBuilder {
        let options =
            Options { segment_size: 64 << 10, threads: false, log_id: Some(0x1234), ..Options::disk() };
        let medium = Arc::new(until_free(|| DiskMedium::open(folder)));
        let mut shard = Shard::new(Default::default());
        let opened = Log::open(medium, options, Callbacks::none(), &mut |one| match one {
            ReplayItem::Snapshot(row) => shard.restore(&row),
            ReplayItem::Entry(at, record) => shard.apply(applied(at), &record),
        });
        let next = shard.partitions().iter().map(|(at, partition)| (at, partition.next_offset().0)).collect();
        FolderBuilder { log: opened.unwrap().log, shard, next, time: NOON }
    }

    fn append(&mut self, record: LogRecord) {
        let at = self.log.append(&record).unwrap();
        self.shard.apply(applied(at), &record);
    }

    fn flush(&mut self) {
        self.log.flush().unwrap();
    }

    /// Appends a batch of records whose values are their partition and offset.
    fn batch(&mut self, at: TopicPartition, records: i64, codec: Compression, producer: Option<i64>) {
        let base = *self.next.get(&at).unwrap_or(&0);
        self.time += 1000;
        let sequence = producer.map_or(-1, |_| base as i32);
        let mut builder = BatchBuilder::new(codec)
            .producer(producer.unwrap_or(-1), if producer.is_some() { 0 } else { -1 }, sequence)
            .transactional(producer.is_some())
            .base_offset(base);
        for offset in base..base + records {
            let value = value(at, offset);
            let key = format!("k{offset}");
            builder.push(&NewRecord {
                timestamp: self.time,
                key: Some(key.as_bytes()),
                value: Some(value.as_bytes()),
                headers: &[],
            });
        }
        let payload = builder.build().unwrap();
        let header = BatchHeader::parse(&payload).unwrap();
        self.append(LogRecord::Partitions(PartitionRecord::BatchAppended(BatchAppended {
            partition: at,
            base_offset: Offset(base),
            leader_epoch: 0,
            at: Millis(self.time),
            summary: BatchSummary {
                size: payload.len() as u32,
                last_offset_delta: header.last_offset_delta,
                record_count: header.record_count,
                base_timestamp: Millis(header.base_timestamp),
                max_timestamp: Millis(header.max_timestamp),
                timestamp_type: TimestampType::CreateTime,
                producer_id: ProducerId(header.producer_id),
                producer_epoch: ProducerEpoch(header.producer_epoch),
                base_sequence: header.base_sequence,
                transactional: header.is_transactional(),
                control: false,
            },
            payload: Bytes::from(payload.to_vec()),
        })));
        self.next.insert(at, base + records);
    }

    fn topic(&mut self, id: TopicId, name: &str, partitions: i32) {
        // The records are old, and retention must not delete them.
        let configs = vec![("retention.ms".to_owned(), "-1".to_owned())];
        let (name, at) = (name.to_owned(), Millis(self.time));
        self.append(LogRecord::Catalog(CatalogRecord::TopicCreated(TopicCreated {
            id,
            name,
            partitions,
            configs,
            at,
        })));
    }

    /// Appends a committed transaction of one record on orders-0.
    fn transaction(&mut self) {
        let at = partition(ORDERS, 0);
        let mut state = TransactionState {
            transactional_id: "pipeline".to_owned(),
            producer_id: ProducerId(7),
            previous_producer_id: ProducerId::NONE,
            epoch: ProducerEpoch(0),
            last_epoch: ProducerEpoch::NONE,
            timeout: Millis(60_000),
            status: TransactionStatus::Ongoing,
            started: Millis(self.time),
            updated: Millis(self.time),
        };
        self.append(LogRecord::Transactions(TransactionRecord::TransactionUpdated(TransactionUpdated {
            state: state.clone(),
            partitions: vec![at],
            offset_partitions: Vec::new(),
        })));
        self.batch(at, 1, Compression::None, Some(7));
        state.status = TransactionStatus::CompleteCommit;
        let offset = self.next[&at];
        self.append(LogRecord::Transactions(TransactionRecord::TransactionEnded(TransactionEnded {
            marker: Marker {
                commit: true,
                producer_id: ProducerId(7),
                producer_epoch: ProducerEpoch(0),
                coordinator_epoch: 0,
                at: Millis(self.time),
            },
            state,
            partitions: vec![(at, Offset(offset))],
        })));
        self.next.insert(at, offset + 1);
    }

    fn commit(&mut self) {
        let offset = CommittedOffset {
            offset: Offset(1),
            leader_epoch: -1,
            metadata: String::new(),
            at: Millis(self.time),
        };
        let offsets = vec![(partition(LETTERS, 0), offset)];
        self.append(LogRecord::Offsets(OffsetRecord::OffsetsCommitted(OffsetsCommitted {
            group_id: "readers".to_owned(),
            offsets,
        })));
    }

    /// Writes everything in the log into a run.
    fn rewrite(&mut self) {
        self.flush();
        let (runs, reader) = (self.log.runs(), self.log.reader());
        let mut run = runs.writer(runs.next_number()).unwrap();
        let mut installed = Vec::new();
        for (at, partition) in self.shard.partitions().iter() {
            let batches: Vec<StoredBatch> = partition.tail().collect();
            let (Some(first), Some(last)) = (batches.first(), batches.last()) else { continue };
            let (from, to) = (first.base_offset, last.last_offset);
            run.begin_part(at, from).unwrap();
            for batch in &batches {
                let bytes = match batch.place {
                    BatchPlace::Log { position, size } => reader.read(position, size as usize).unwrap(),
                    BatchPlace::Marker(marker) => {
                        let end = EndMarker {
                            commit: marker.commit,
                            producer_id: marker.producer_id.0,
                            producer_epoch: marker.producer_epoch.0,
                            coordinator_epoch: marker.coordinator_epoch,
                        };
                        control_batch(&end, batch.base_offset.0, marker.at.0).unwrap()
                    }
                };
                run.push(&bytes, batch.max_timestamp).unwrap();
            }
            let end = PartEnd { last_offset: to, clean: false, horizon: Millis::NONE };
            let parts = vec![run.end_part(end).unwrap().unwrap()];
            installed.push(PartsInstalled { partition: at, from, to, parts });
        }
        run.finish().unwrap();
        installed
            .into_iter()
            .for_each(|one| self.append(LogRecord::Partitions(PartitionRecord::PartsInstalled(one))));
        self.flush();
    }

    fn snapshot(&mut self) {
        self.flush();
        let rows = self.shard.snapshot();
        self.log.snapshotter().write(self.log.end(), &mut rows.into_iter()).unwrap();
    }
}

pub(crate) fn partition(topic: TopicId, partition: i32) -> TopicPartition {
    TopicPartition { topic, partition }
}

/// The value of the record at an offset.
pub(crate) fn value(at: TopicPartition, offset: i64) -> String {
    let name = if at.topic == LETTERS { "letters" } else { "orders" };
    format!("{name}-{}@{offset}", at.partition)
}

/// Builds a folder: two topics, and in each round batches, a transaction and an offset commit. There are two snapshots,
/// and a run with everything so far after the third round and every fourth round after it.
pub(crate) fn make(folder: &Path, rounds: u32) {
    make_as(folder, rounds, true);
}

/// As [`make`], without runs.
pub(crate) fn make_without_runs(folder: &Path, rounds: u32) {
    make_as(folder, rounds, false);
}

fn make_as(folder: &Path, rounds: u32, runs: bool) {
    let mut world = FolderBuilder::open(folder);
    let cluster_id = "AAAAAAAAAAAAAAAAAAAAAA".to_owned();
    world.append(LogRecord::Catalog(CatalogRecord::ClusterCreated(ClusterCreated { cluster_id })));
    world.topic(LETTERS, "letters", 2);
    world.topic(ORDERS, "orders", 1);
    world.flush();
    for round in 0..rounds {
        world.batch(partition(LETTERS, 0), 3, Compression::Lz4, None);
        world.batch(partition(LETTERS, 1), 2, Compression::None, None);
        world.flush();
        world.transaction();
        world.flush();
        world.commit();
        world.flush();
        if runs && round % 4 == 2 {
            world.rewrite();
        }
        if round % 2 == 0 {
            world.snapshot();
        }
        if round % 3 == 0 {
            world.log.close().unwrap();
            world = FolderBuilder::open(folder);
        }
    }
    world.log.close().unwrap();
}

/// A group of the log in its file, padding included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) entries: u32,
}

/// The groups of an undamaged log.
pub(crate) fn extents(folder: &Path) -> Vec<Extent> {
    let folder = Folder::open(Arc::new(until_free(|| DiskMedium::open_to_read(folder)))).unwrap();
    let geometry = folder.identity().geometry;
    let mut found = Vec::new();
    let walked = folder.walk::<OpenError>(&mut |one| {
        if let LogItem::Group { bytes, group } = one {
            found.push(Extent {
                file: Folder::segment_name(geometry.segment_of(group.header.position)),
                offset: geometry.offset_of(group.header.position),
                len: bytes.len() as u64,
                entries: group.header.entries,
            });
        }
        Ok(())
    });
    walked.unwrap();
    found
}

/// Flips a bit of a file.
pub(crate) fn flip(folder: &Path, file: &str, at: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(folder.join(file)).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// The bytes of every file except the lock.
pub(crate) fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()));
    files.filter(|(name, _)| name != "lock").collect()
}

pub(crate) fn copy(from: &Path, to: &Path) {
    for (name, bytes) in contents(from) {
        fs::write(to.join(name), bytes).unwrap();
    }
}
