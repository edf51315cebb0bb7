//! A shard with a log in memory, and the law: what is replayed from the log is what lives, at each of its records.

use crate::support::{Answer, Tickets};
use bytes::Bytes;
use ottla_core::config::Settings;
use ottla_core::{Effect, Effects, Input, RecordPosition, Shard, TicketId};
use ottla_types::record::{
    CatalogRecord, LogRecord, OffsetRecord, PartitionRecord, TopicCreated, TransactionRecord,
    TransactionStatus,
};
use ottla_types::{LogPosition, Millis, TopicId, TopicPartition};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The topic that every world has, with three partitions.
pub(crate) const TOPIC: TopicId = TopicId([1; 16]);

/// Where a world begins: what lives, or what a restart makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The process went on.
    Live,
    /// It was started again, and replayed its log.
    Replayed,
    /// It was started again from a snapshot.
    Restored,
}

pub(crate) const STARTS: [Start; 3] = [Start::Live, Start::Replayed, Start::Restored];

pub(crate) struct World {
    pub(crate) shard: Shard,
    pub(crate) now: Millis,
    pub(crate) log: Vec<(RecordPosition, LogRecord)>,
    /// What lived after each record of the log that came since [`World::started`].
    lived: BTreeMap<usize, Vec<LogRecord>>,
    watched: bool,
    end: u64,
    tickets: Tickets,
}

pub(crate) fn at(partition: i32) -> TopicPartition {
    TopicPartition { topic: TOPIC, partition }
}

impl World {
    pub(crate) fn new() -> World {
        let mut world = World {
            shard: Shard::new(settings()),
            now: Millis(1_000_000),
            log: Vec::new(),
            lived: BTreeMap::new(),
            watched: false,
            end: 4096,
            tickets: Tickets::default(),
        };
        let created = TopicCreated {
            id: TOPIC,
            name: "topic".to_owned(),
            partitions: 3,
            configs: vec![],
            at: world.now,
        };
        world.append(LogRecord::Catalog(CatalogRecord::TopicCreated(created)));
        world
    }

    /// Steps and syncs, as a host does that is not in a hurry; the answers, and to whom.
    pub(crate) fn step(&mut self, input: Input) -> Vec<(TicketId, Answer)> {
        let mut out = Effects::default();
        self.tickets.note(&input);
        self.shard.step(self.now, input, &mut out);
        let mut answers = Vec::new();
        for effect in out.drain() {
            match effect {
                Effect::Append(record) => self.append(record),
                Effect::Reply(reply) => answers.push(self.tickets.open(reply)),
                Effect::Advanced(_) => {}
            }
        }
        self.shard.step(self.now, Input::Durable(LogPosition(self.end)), &mut Effects::default());
        answers
    }

    /// Steps; the only answer.
    pub(crate) fn ask(&mut self, input: Input) -> Answer {
        let mut answers = self.step(input);
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0).1
    }

    pub(crate) fn append(&mut self, mut record: LogRecord) {
        let position = LogPosition(self.end);
        let mut payload = position;
        self.end += 64;
        if let LogRecord::Partitions(PartitionRecord::BatchAppended(appended)) = &mut record {
            payload = LogPosition(self.end);
            self.end += u64::from(appended.summary.size);
            appended.payload = Bytes::new();
        }
        let at = RecordPosition { position, payload };
        self.shard.apply(at, &record);
        self.log.push((at, record));
        if self.watched {
            self.lived.insert(self.log.len() - 1, self.shard.snapshot());
        }
    }

    /// Lets time go by, and ticks until nothing is due.
    pub(crate) fn pass(&mut self, span: i64) {
        self.now = self.now.after(Millis(span));
        while self.shard.deadline().is_some_and(|due| due <= self.now) {
            self.step(Input::Tick);
        }
    }

    /// The same world as another start makes of it; from here on the law can be checked.
    pub(crate) fn started(mut self, start: Start) -> World {
        match start {
            Start::Live => {}
            Start::Replayed => self.shard = replayed(&self.log),
            Start::Restored => {
                let rows = self.shard.snapshot();
                self.shard = Shard::new(settings());
                let nowhere = RecordPosition { position: LogPosition(0), payload: LogPosition(0) };
                rows.iter().for_each(|row| self.shard.apply(nowhere, row));
                assert_eq!(self.shard.snapshot(), rows, "a snapshot rebuilds what it was taken of");
            }
        }
        self.step_nothing();
        self.watched = true;
        self
    }

    /// What a crash leaves that only the first `length` records of the log survived.
    pub(crate) fn crashed(&self, length: usize) -> World {
        let log = self.log[..length].to_vec();
        let mut world = World {
            shard: replayed(&log),
            now: self.now,
            log,
            lived: BTreeMap::new(),
            watched: true,
            end: self.end,
            tickets: Tickets::default(),
        };
        world.step_nothing();
        world
    }

    /// Another world that is the same; what was volatile is gone in it.
    pub(crate) fn copy(&self) -> World {
        self.crashed(self.log.len())
    }

    /// Whatever is in the log is durable.
    fn step_nothing(&mut self) {
        self.shard.step(self.now, Input::Durable(LogPosition(self.end)), &mut Effects::default());
    }

    /// The law, from record number `from` on: each prefix of the log is what a crash may leave. It replays to what
    /// lived then, and that is whole.
    pub(crate) fn check_law(&self, from: usize) {
        let mut shard = replayed(&self.log[..from]);
        for (number, (at, record)) in self.log.iter().enumerate().skip(from) {
            shard.apply(*at, record);
            assert_eq!(
                shard.snapshot(),
                self.lived[&number],
                "replay differs from record {number} on: {record:?}"
            );
            check_whole(&shard);
        }
        check_offsets(&self.log);
    }
}

fn settings() -> Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings::from_configs(&BTreeMap::new()).unwrap()).clone()
}

fn replayed(log: &[(RecordPosition, LogRecord)]) -> Shard {
    let mut shard = Shard::new(settings());
    log.iter().for_each(|(at, record)| shard.apply(*at, record));
    shard
}

/// Whatever a producer has open, at a partition or in a group's offsets, is in a transaction that is open and lists it.
fn check_whole(shard: &Shard) {
    let open: BTreeMap<_, _> = shard
        .transactions()
        .iter()
        .filter(|known| known.state().status == TransactionStatus::Ongoing)
        .map(|known| (known.state().producer_id, known))
        .collect();
    for (at, partition) in shard.partitions().iter() {
        assert!(partition.log_start() <= partition.next_offset());
        assert!(partition.last_stable() <= partition.high_watermark());
        assert!(partition.high_watermark() <= partition.next_offset());
        for known in partition.producers().filter(|known| known.transaction_start.is_some()) {
            let holder = open.get(&known.producer_id);
            assert!(holder.is_some_and(|holder| holder.partitions().contains(&at)), "{known:?} hangs");
            assert_eq!(holder.map(|holder| holder.state().epoch), Some(known.epoch));
        }
    }
    for row in shard.snapshot() {
        if let LogRecord::Offsets(OffsetRecord::StagedRestored(staged)) = row {
            let holder = open.get(&staged.producer_id);
            assert!(holder.is_some_and(|holder| !holder.offset_partitions().is_empty()), "{staged:?} hangs");
        }
    }
}

/// Each batch and marker takes the offset after the one before.
fn check_offsets(log: &[(RecordPosition, LogRecord)]) {
    let mut next = BTreeMap::<TopicPartition, i64>::new();
    let mut take = |at: TopicPartition, offset: i64, count: i64| {
        let expected = next.entry(at).or_default();
        assert_eq!(offset, *expected, "{at:?}");
        *expected += count;
    };
    for (_, record) in log {
        match record {
            LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) => {
                take(batch.partition, batch.base_offset.0, i64::from(batch.summary.record_count));
            }
            LogRecord::Partitions(PartitionRecord::MarkerAppended(marker)) => {
                take(marker.partition, marker.offset.0, 1)
            }
            LogRecord::Transactions(TransactionRecord::TransactionEnded(ended)) => {
                ended.partitions.iter().for_each(|(at, offset)| take(*at, offset.0, 1));
            }
            _ => {}
        }
    }
}
