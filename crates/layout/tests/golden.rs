//! Stored bytes, compared with those of every version so far: `golden/v0.txt` has a line for each thing that is stored,
//! name and hex. A line is never changed; a new version adds lines.

use bytes::Bytes;
use ottla_layout::record::{self, KINDS, decode, encode};
use ottla_layout::run::{BatchHead, DirectoryWriter, RunFooter, RunId, RunRow};
use ottla_layout::snapshot::{
    ChunkReader, ChunkStep, ChunkWriter, SNAPSHOT_FORMAT, SNAPSHOT_HEADER, SnapshotHeader,
};
use ottla_layout::{BLOCK, GROUP_HEADER, Geometry, GroupHeader, Identity, SegmentHeader, seal_group};
use ottla_types::acl::{Acl, Operation, PatternType, Permission, ResourceType};
use ottla_types::record::*;
use ottla_types::{
    BatchSummary, LogPosition, Millis, Offset, ProducerEpoch, ProducerId, TimestampType, TopicId,
    TopicPartition,
};
use std::collections::BTreeMap;
use std::fmt::Write;

const GOLDEN: &str = include_str!("golden/v0.txt");
/// Lines of formats that are read and no longer written.
const OLD: [&str; 1] = ["snapshot"];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).filter_map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

fn golden() -> BTreeMap<&'static str, &'static str> {
    GOLDEN.lines().filter_map(|line| line.split_once(' ')).collect()
}

fn partition(number: i32) -> TopicPartition {
    TopicPartition { topic: TopicId([0x11; 16]), partition: number }
}

fn configs() -> Vec<(String, String)> {
    vec![("cleanup.policy".to_owned(), "delete".to_owned())]
}

fn marker() -> Marker {
    Marker {
        commit: true,
        producer_id: ProducerId(1001),
        producer_epoch: ProducerEpoch(7),
        coordinator_epoch: 3,
        at: Millis(1_700_000_000_000),
    }
}

fn state() -> TransactionState {
    TransactionState {
        transactional_id: "pipeline-1".to_owned(),
        producer_id: ProducerId(1002),
        previous_producer_id: ProducerId(1001),
        epoch: ProducerEpoch(8),
        last_epoch: ProducerEpoch(7),
        timeout: Millis(60_000),
        status: TransactionStatus::CompleteCommit,
        started: Millis(1_700_000_000_001),
        updated: Millis(1_700_000_000_002),
    }
}

fn committed() -> CommittedOffset {
    CommittedOffset { offset: Offset(42), leader_epoch: 5, metadata: "note".to_owned(), at: Millis(9) }
}

fn batch() -> BatchAppended {
    BatchAppended {
        partition: partition(2),
        base_offset: Offset(300),
        leader_epoch: 4,
        at: Millis(1_700_000_000_003),
        summary: BatchSummary {
            size: 70,
            last_offset_delta: 2,
            record_count: 3,
            base_timestamp: Millis(10),
            max_timestamp: Millis(12),
            timestamp_type: TimestampType::LogAppendTime,
            producer_id: ProducerId(1001),
            producer_epoch: ProducerEpoch(7),
            base_sequence: 5,
            transactional: true,
            control: false,
        },
        payload: Bytes::from(vec![0xb0; 70]),
    }
}

fn catalog() -> Vec<LogRecord> {
    let id = TopicId([0x11; 16]);
    vec![
        LogRecord::Catalog(CatalogRecord::ClusterCreated(ClusterCreated {
            cluster_id: "AAAAAAAAAAAAAAAAAAAAAA".to_owned(),
        })),
        LogRecord::Catalog(CatalogRecord::TopicCreated(TopicCreated {
            id,
            name: "orders".to_owned(),
            partitions: 3,
            configs: configs(),
            at: Millis(8),
        })),
        LogRecord::Catalog(CatalogRecord::TopicDeleted(TopicDeleted { id, at: Millis(9) })),
        LogRecord::Catalog(CatalogRecord::PartitionsAdded(PartitionsAdded { id, partitions: 6 })),
        LogRecord::Catalog(CatalogRecord::TopicConfigured(TopicConfigured { id, configs: configs() })),
        LogRecord::Catalog(CatalogRecord::BrokerConfigured(BrokerConfigured { configs: configs() })),
        LogRecord::Transactions(TransactionRecord::ProducerIdsReserved(ProducerIdsReserved {
            next: ProducerId(2000),
        })),
    ]
}

fn partitions() -> Vec<LogRecord> {
    vec![
        LogRecord::Partitions(PartitionRecord::BatchAppended(batch())),
        LogRecord::Partitions(PartitionRecord::MarkerAppended(MarkerAppended {
            partition: partition(1),
            marker: marker(),
            offset: Offset(7),
        })),
        LogRecord::Partitions(PartitionRecord::LogStartMoved(LogStartMoved {
            partition: partition(1),
            log_start: Offset(100),
        })),
        LogRecord::Partitions(PartitionRecord::ProducersExpired(ProducersExpired {
            partition: partition(1),
            producers: vec![ProducerId(1), ProducerId(2)],
        })),
        LogRecord::Partitions(PartitionRecord::PartsInstalled(PartsInstalled {
            partition: partition(1),
            from: Offset(100),
            to: Offset(299),
            parts: vec![part()],
        })),
    ]
}

fn part() -> RunPart {
    RunPart {
        run: 3,
        base_offset: Offset(100),
        last_offset: Offset(299),
        bytes: 5000,
        max_timestamp: Millis(1_700_000_000_000),
        appended: Millis(1_700_000_000_001),
        data: 4096,
        directory: 0x3000,
        pages: 1,
        clean: true,
        horizon: Millis::NONE,
    }
}

fn transactions() -> Vec<LogRecord> {
    vec![
        LogRecord::Transactions(TransactionRecord::TransactionUpdated(TransactionUpdated {
            state: state(),
            partitions: vec![partition(0), partition(1)],
            offset_partitions: vec![17],
        })),
        LogRecord::Transactions(TransactionRecord::TransactionExtended(TransactionExtended {
            transactional_id: "pipeline-1".to_owned(),
            partitions: vec![partition(2)],
            offset_partitions: vec![],
            at: Millis(11),
        })),
        LogRecord::Transactions(TransactionRecord::TransactionEnded(TransactionEnded {
            state: state(),
            marker: marker(),
            partitions: vec![(partition(0), Offset(8)), (partition(1), Offset(9))],
        })),
        LogRecord::Transactions(TransactionRecord::TransactionForgotten(TransactionForgotten {
            transactional_id: "pipeline-1".to_owned(),
        })),
    ]
}

fn groups() -> Vec<LogRecord> {
    let member = ClassicMember {
        member_id: "member".to_owned(),
        instance_id: Some("static-1".to_owned()),
        client_id: "client".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        rebalance_timeout: Millis(30_000),
        session_timeout: Millis(10_000),
        protocols: vec![("range".to_owned(), Bytes::from_static(&[1, 2]))],
        assignment: Bytes::from_static(&[3]),
    };
    vec![
        LogRecord::Groups(GroupRecord::ClassicUpdated(ClassicGroupUpdated {
            group_id: "readers".to_owned(),
            generation: 4,
            protocol_type: Some("consumer".to_owned()),
            protocol: Some("range".to_owned()),
            leader: None,
            members: vec![member],
            at: Millis(13),
        })),
        LogRecord::Groups(GroupRecord::Deleted(GroupDeleted { group_id: "readers".to_owned() })),
    ]
}

fn offsets() -> Vec<LogRecord> {
    let group_id = || "readers".to_owned();
    vec![
        LogRecord::Offsets(OffsetRecord::OffsetsCommitted(OffsetsCommitted {
            group_id: group_id(),
            offsets: vec![(partition(0), committed())],
        })),
        LogRecord::Offsets(OffsetRecord::OffsetsStaged(OffsetsStaged {
            group_id: group_id(),
            producer_id: ProducerId(1001),
            producer_epoch: ProducerEpoch(7),
            offsets: vec![(partition(0), committed())],
        })),
        LogRecord::Offsets(OffsetRecord::OffsetsDeleted(OffsetsDeleted {
            group_id: group_id(),
            partitions: vec![partition(0)],
        })),
    ]
}

fn rows() -> Vec<LogRecord> {
    let stored = |place| StoredBatch {
        base_offset: Offset(5),
        last_offset: Offset(7),
        max_timestamp: Millis(14),
        appended: Millis(15),
        place,
    };
    let producer = ProducerState {
        producer_id: ProducerId(1001),
        epoch: ProducerEpoch(7),
        coordinator_epoch: 3,
        last_append: Millis(16),
        last_timestamp: Millis(17),
        transaction_start: Some(Offset(5)),
        batches: vec![ProducerBatch {
            first_sequence: 5,
            last_sequence: 7,
            first_offset: Offset(5),
            last_offset: Offset(7),
            timestamp: Millis(14),
        }],
    };
    let aborted = AbortedTransaction {
        producer_id: ProducerId(1001),
        first_offset: Offset(1),
        marker_offset: Offset(4),
    };
    let placed = || vec![(partition(0), committed(), LogPosition(0x1000_0040))];
    vec![
        LogRecord::Partitions(PartitionRecord::PartitionRestored(PartitionRestored {
            partition: partition(0),
            log_start: Offset(1),
            next_offset: Offset(9),
        })),
        LogRecord::Partitions(PartitionRecord::BatchesRestored(BatchesRestored {
            partition: partition(0),
            batches: vec![
                stored(BatchPlace::Log { position: LogPosition(0x1000_0080), size: 70 }),
                stored(BatchPlace::Marker(marker())),
            ],
        })),
        LogRecord::Partitions(PartitionRecord::ProducerRestored(ProducerRestored {
            partition: partition(0),
            state: producer,
        })),
        LogRecord::Partitions(PartitionRecord::AbortedRestored(AbortedRestored {
            partition: partition(0),
            aborted: vec![aborted],
        })),
        LogRecord::Offsets(OffsetRecord::OffsetsRestored(OffsetsRestored {
            group_id: "readers".to_owned(),
            offsets: placed(),
        })),
        LogRecord::Offsets(OffsetRecord::StagedRestored(StagedRestored {
            group_id: "readers".to_owned(),
            producer_id: ProducerId(1001),
            offsets: placed(),
        })),
        LogRecord::Partitions(PartitionRecord::PartsRestored(PartsRestored {
            partition: partition(0),
            parts: vec![part()],
        })),
        LogRecord::SnapshotReached(SnapshotReached { unit: SnapshotUnit::Partition(partition(4)) }),
    ]
}

fn access() -> Vec<LogRecord> {
    let acl = Acl {
        resource_type: ResourceType::Topic,
        pattern_type: PatternType::Prefixed,
        resource_name: "orders".to_owned(),
        principal: "User:alice".to_owned(),
        host: "10.0.0.0/8".to_owned(),
        operation: Operation::Write,
        permission: Permission::Allow,
    };
    let denied = Acl { permission: Permission::Deny, host: "*".to_owned(), ..acl.clone() };
    let credential = ScramCredential {
        user: "alice".to_owned(),
        mechanism: ScramMechanism::Sha512,
        salt: Bytes::from_static(&[1, 2, 3]),
        iterations: 8192,
        stored_key: Bytes::from_static(&[4; 8]),
        server_key: Bytes::from_static(&[5; 8]),
    };
    let removed = vec![("bob".to_owned(), ScramMechanism::Sha256)];
    vec![
        AclsChanged { removed: vec![denied], added: vec![acl] }.into(),
        ScramChanged { removed, stored: vec![credential] }.into(),
        QuotasChanged {
            entity: vec![("client-id".to_owned(), None), ("user".to_owned(), Some("alice".to_owned()))],
            limits: vec![("producer_byte_rate".to_owned(), 1024.5f64.to_bits())],
        }
        .into(),
    ]
}

fn records() -> Vec<LogRecord> {
    [catalog(), access(), partitions(), transactions(), groups(), offsets(), rows()].concat()
}

fn entry_of(sample: &LogRecord) -> Vec<u8> {
    let mut entry = Vec::new();
    let payload = encode(sample, &mut entry);
    let at = entry.len();
    entry.extend(payload);
    if let LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) = sample {
        record::patch_batch(batch, &mut entry[at..]);
    }
    entry
}

fn identity() -> Option<Identity> {
    Some(Identity { log_id: 0x0123_4567_89ab_cdef, shard: 0, geometry: Geometry::new(128 << 20).ok()? })
}

/// The entries of the sample of a snapshot, with their positions.
const SNAPSHOT_ENTRIES: [(u64, &[u8]); 2] = [(4096, &[1, 2, 3]), (5000, &[4, 5])];

fn snapshot_header(format: u16) -> SnapshotHeader {
    SnapshotHeader { format, log_id: 0x0123_4567_89ab_cdef, shard: 0, position: 4096 }
}

/// Every stored format, by name.
fn samples() -> Vec<(String, Vec<u8>)> {
    let mut samples = Vec::new();
    for sample in records() {
        let entry = entry_of(&sample);
        let kind = KINDS.iter().find(|(tag, _)| *tag == entry[0]).map_or("", |(_, name)| name);
        samples.push((kind.to_owned(), entry));
    }
    if let Some(identity) = identity() {
        samples.push(("identity".to_owned(), identity.encode().to_vec()));
        let mut block = vec![0; BLOCK as usize];
        SegmentHeader::of(&identity, 5, 2).encode(&mut block);
        samples.push(("segment".to_owned(), block[..48].to_vec()));
    }
    let header = GroupHeader {
        log_id: 0x0123_4567_89ab_cdef,
        shard: 0,
        epoch: 2,
        sequence: 77,
        position: (5 * (128 << 20)) + 4096,
        durable: 5 * (128 << 20),
        payload: 9,
        entries: 2,
        previous: 0xcafe_f00d,
    };
    let mut group = vec![0; GROUP_HEADER];
    group.extend([1, 0, 0, 0, 0xaa, 0, 0, 0, 0]);
    seal_group(&header, &mut group);
    samples.push(("group".to_owned(), group));
    let mut snapshot = snapshot_header(SNAPSHOT_FORMAT).encode().to_vec();
    let mut chunks = ChunkWriter::new(4096);
    for (position, entry) in SNAPSHOT_ENTRIES {
        snapshot.extend(chunks.advance(position).unwrap_or_default());
        snapshot.extend(chunks.push(entry).unwrap_or_default());
    }
    snapshot.extend(chunks.finish());
    samples.push(("snapshot-1".to_owned(), snapshot));
    samples.extend(run());
    samples
}

/// A batch with the fields that runs read.
fn run_batch(base: i64, time: i64) -> Vec<u8> {
    let mut batch = vec![0; 70];
    batch[..8].copy_from_slice(&base.to_be_bytes());
    batch[8..12].copy_from_slice(&58i32.to_be_bytes());
    batch[16] = 2;
    batch[26] = 1;
    batch[35..43].copy_from_slice(&time.to_be_bytes());
    batch
}

/// The pieces of a run, header and footer without the zeros that fill their blocks.
fn run() -> Vec<(String, Vec<u8>)> {
    let id = RunId { log_id: 0x0123_4567_89ab_cdef, shard: 0, run: 3 };
    let mut directory = DirectoryWriter::default();
    for (number, base) in [300, 302, 310].into_iter().enumerate() {
        let batch = run_batch(base, 1_700_000_000_000 - base);
        if let Ok(head) = BatchHead::read(&batch) {
            directory.push(4096 + 70 * number as u64, &head, &batch);
        }
    }
    let (directory, pages) = directory.finish(&id, 4306, true);
    let part = RunPart { bytes: 210, data: 4096, directory: 4306, pages, ..part() };
    let mut table = Vec::new();
    RunRow { partition: partition(2), part }.encode(&mut table);
    let footer = RunFooter::of(4306 + directory.len() as u64, &table);
    vec![
        ("run-header".to_owned(), id.header()[..64].to_vec()),
        ("run-directory".to_owned(), directory),
        ("run-table".to_owned(), table),
        ("run-footer".to_owned(), id.footer(&footer)[..64].to_vec()),
    ]
}

#[test]
fn everything_is_written_as_ever() {
    let golden = golden();
    for (name, bytes) in samples() {
        let expected = golden.get(name.as_str()).copied().unwrap_or("missing");
        assert_eq!(hex(&bytes), expected, "{name}: the line should read\n{name} {}", hex(&bytes));
    }
    let old = golden.keys().filter(|name| OLD.contains(name)).count();
    assert_eq!((golden.len() - old, old), (samples().len(), OLD.len()));
}

/// Reads the line of a snapshot: its header, and the entries with their positions.
#[expect(clippy::unwrap_used, reason = "a line that cannot be read fails the test")]
fn read_snapshot(line: &str) -> (SnapshotHeader, Vec<(u64, Vec<u8>)>) {
    let bytes = unhex(golden()[line]);
    let header = SnapshotHeader::check(bytes.first_chunk().unwrap(), &identity().unwrap()).unwrap();
    let mut reader = ChunkReader::new(&header);
    let (mut rest, mut found) = (&bytes[SNAPSHOT_HEADER..], Vec::new());
    while let ChunkStep::Payload(len) = reader.step(&rest[..reader.header_len()]).unwrap() {
        let (chunk, after) = rest.split_at(reader.header_len() + len);
        let entries = reader.entries(chunk).unwrap();
        found.extend(entries.into_iter().map(|entry| (reader.position(), entry.to_vec())));
        rest = after;
    }
    assert_eq!(rest.len(), reader.header_len());
    (header, found)
}

#[test]
fn snapshots_of_every_format_are_read_as_ever() {
    let entries = SNAPSHOT_ENTRIES.map(|(position, entry)| (position, entry.to_vec()));
    assert_eq!(read_snapshot("snapshot-1"), (snapshot_header(1), entries.to_vec()));
    assert_eq!(read_snapshot("snapshot"), (snapshot_header(0), entries[..1].to_vec()));
}

#[test]
fn every_kind_of_record_has_a_line_and_is_read_as_ever() {
    let golden = golden();
    for ((tag, name), sample) in KINDS.iter().zip(records()) {
        let bytes = unhex(golden[name]);
        assert_eq!(bytes[0], *tag);
        let bare = match sample {
            LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) => {
                LogRecord::Partitions(PartitionRecord::BatchAppended(BatchAppended {
                    payload: Bytes::new(),
                    ..batch
                }))
            }
            other => other,
        };
        assert_eq!(decode(&bytes).unwrap().record, bare, "{name}");
    }
    assert_eq!(KINDS.len(), records().len());
}
