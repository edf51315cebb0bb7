//! The plan of a run, drawn from its seed: sizes, speeds, clients, and the rates of faults.

use crate::pipe::Latency;
use crate::random::Random;
use ottla_broker::host::{HostOptions, Snapshots};
use ottla_core::config::Settings;
use ottla_store::{Durability, Options};
use ottla_types::Millis;
use std::collections::BTreeMap;
use std::time::Duration;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Partitions of each topic.
    pub(crate) partitions: i32,
    pub(crate) crew: Crew,
    pub(crate) faults: Faults,
    pub(crate) latency: Latency,
    pub(crate) disk: Latency,
    segment_size: u64,
    recent: usize,
    zero_fill: bool,
    /// Syncs are left to the system: acknowledged records survive the process, not the machine.
    pub(crate) lazy: bool,
    snapshots: Snapshots,
    rebalance_delay: u64,
    pub(crate) cleaner: Cleaner,
    /// Batches that the tail may hold: rewriting begins at half.
    tail_batches: u64,
    /// Runs before small ones are merged.
    runs: u64,
    /// Milliseconds that a part may span.
    part_span: u64,
    /// How many of a thousand occasions to continue a job are skipped, so that the data it reads grows old.
    pub(crate) slow_jobs: u64,
    /// The log begins with transactional ids whose epochs are nearly exhausted.
    pub(crate) exhausted_epochs: bool,
}

/// The compaction settings of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cleaner {
    /// `log.cleaner.backoff.ms`.
    pub(crate) backoff: u64,
    /// `delete.retention.ms`.
    pub(crate) retention: u64,
    /// `min.cleanable.dirty.ratio`.
    pub(crate) ratio: &'static str,
}

/// The number of clients of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crew {
    pub(crate) senders: u64,
    pub(crate) transactors: u64,
    /// Transformers that read partitions of their own.
    pub(crate) transformers: u64,
    /// Transformers that share partitions as a group.
    pub(crate) members: u64,
    pub(crate) readers: u64,
    pub(crate) consumers: u64,
    /// Clients that fill, empty and delete topics.
    pub(crate) topic_churn: u64,
    /// Clients that write to the compacted topic.
    pub(crate) table_writers: u64,
    /// Operations of each client.
    pub(crate) ops: u64,
}

const NO_CLIENTS: Crew = Crew {
    senders: 0,
    transactors: 0,
    transformers: 0,
    members: 0,
    readers: 0,
    consumers: 0,
    topic_churn: 0,
    table_writers: 0,
    ops: 0,
};

/// The rates of faults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// How many of a thousand requests lose their connection.
    pub(crate) network: u64,
    /// How many of a thousand operations end with a crash or a pause of their client.
    pub(crate) clients: u64,
    /// Average milliseconds between faults of the machine; none for no faults.
    pub(crate) machine: Option<u64>,
    pub(crate) disk_errors: bool,
    pub(crate) disk_full: bool,
    pub(crate) clock: bool,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let c = &mut random;
        let crew = Crew {
            senders: c.within(1..4),
            transactors: c.within(0..4),
            transformers: c.within(0..3),
            members: c.pick(&[0, 0, 1, 2, 3]),
            readers: c.within(1..4),
            consumers: c.pick(&[0, 0, 1, 2]),
            topic_churn: c.pick(&[0, 0, 1, 2]),
            ops: c.within(4..20),
            table_writers: 0,
        };
        let faults = Faults {
            network: c.pick(&[0, 5, 20, 60, 150]),
            clients: c.pick(&[0, 10, 50, 150]),
            machine: c.pick(&[None, Some(300), Some(800), Some(2000), Some(5000)]),
            disk_errors: c.per_mille(300),
            disk_full: c.per_mille(200),
            clock: c.per_mille(200),
        };
        let mut plan = Plan {
            seed,
            partitions: c.within(1..4) as i32,
            crew,
            faults,
            latency: Latency { usual: c.pick(&[0, 1, 5, 20]), slow: c.pick(&[0, 10, 100]) },
            disk: Latency { usual: c.pick(&[0, 1, 4, 15]), slow: c.pick(&[0, 10, 50]) },
            segment_size: c.pick(&[64 << 10, 64 << 10, 256 << 10, 1 << 20]),
            recent: c.pick(&[0, 16 << 10, 1 << 20]),
            zero_fill: c.per_mille(200),
            lazy: c.per_mille(100),
            snapshots: Snapshots {
                every: c.pick(&[16 << 10, 64 << 10, 256 << 10, 64 << 20]),
                after: Millis(c.pick(&[500, 5000, 60_000])),
                piece: c.pick(&[1, 4, 16, 1024]),
            },
            rebalance_delay: c.pick(&[0, 100, 1000]),
            cleaner: Cleaner { backoff: 0, retention: 0, ratio: "0" },
            tail_batches: 1_000_000,
            runs: 128,
            part_span: 604_800_000,
            slow_jobs: 0,
            exhausted_epochs: false,
        };
        plan.crew.table_writers = c.pick(&[0, 1, 1, 2]);
        plan.cleaner = Cleaner {
            backoff: c.pick(&[20, 200, 2000]),
            retention: c.pick(&[0, 3000, 60_000]),
            ratio: c.pick(&["0", "0", "0.3"]),
        };
        plan.tail_batches = c.pick(&[10, 10, 20, 50, 1_000_000]);
        plan.runs = c.pick(&[2, 2, 5, 128]);
        plan.part_span = c.pick(&[1, 500, 604_800_000]);
        plan.slow_jobs = c.pick(&[0, 0, 500, 900]);
        plan.exhausted_epochs = c.per_mille(250);
        match c.within(0..8) {
            0 => plan.pieces(c),
            1 => plan.rewriting(c),
            2 => plan.rebalances(c),
            _ => {}
        }
        plan
    }

    /// Continuous snapshots in many pieces, while topics are created and deleted, and a machine that ends often.
    fn pieces(&mut self, c: &mut Random) {
        self.snapshots = Snapshots { every: c.pick(&[8 << 10, 16 << 10]), after: Millis(500), piece: 1 };
        self.disk = Latency { usual: c.pick(&[1, 4]), slow: 10 };
        self.crew.topic_churn = c.within(1..4);
        self.faults.machine = c.pick(&[Some(300), Some(800)]);
    }

    /// Data that is moved to runs and deleted again, in small segments that snapshots soon release.
    fn rewriting(&mut self, c: &mut Random) {
        self.snapshots = Snapshots { every: 16 << 10, after: Millis(500), piece: c.pick(&[16, 1024]) };
        self.segment_size = 64 << 10;
        self.runs = 2;
        self.slow_jobs = c.pick(&[0, 700, 950]);
        self.faults.machine = c.pick(&[Some(300), Some(800)]);
        self.crew.topic_churn = c.within(1..4);
        self.tail_batches = c.pick(&[10, 20, 1_000_000]);
        if self.tail_batches > 1000 {
            // Whole segments hold only records that are deleted while they are rewritten.
            self.crew = Crew { readers: 1, topic_churn: c.within(1..3), ops: 50, ..NO_CLIENTS };
            self.disk = Latency { usual: 15, slow: 10 };
            self.slow_jobs = 950;
            self.faults.machine = Some(5000);
        }
    }

    /// A group whose members are removed in the middle of transactions that last longer than their sessions.
    fn rebalances(&mut self, c: &mut Random) {
        self.partitions = c.within(2..4) as i32;
        self.crew.members = c.within(2..4);
        self.crew.transformers = 0;
        self.crew.ops = c.within(10..20);
        self.faults.clients = c.pick(&[100, 250]);
        self.faults.machine = c.pick(&[None, Some(5000)]);
        self.faults.clock = false;
    }

    pub(crate) fn host(&self) -> HostOptions {
        let log = Options {
            segment_size: self.segment_size,
            recent: self.recent,
            zero_fill: self.zero_fill,
            threads: false,
            durability: if self.lazy { Durability::Os } else { Durability::Sync },
            log_id: Some(self.seed ^ 0x10_6d),
            ..Options::disk()
        };
        HostOptions {
            settings: self.settings(),
            log,
            cluster_id: "simulated-cluster-0000".to_owned(),
            snapshots: self.snapshots,
        }
    }

    fn settings(&self) -> Settings {
        let given: BTreeMap<String, String> = [
            ("group.initial.rebalance.delay.ms", self.rebalance_delay.to_string()),
            ("log.cleaner.backoff.ms", self.cleaner.backoff.to_string()),
            ("log.retention.check.interval.ms", "5000".to_owned()),
            ("log.roll.ms", self.part_span.to_string()),
            ("ottla.rewrite.buffer.bytes", "65536".to_owned()),
            ("ottla.runs.max", self.runs.to_string()),
            ("ottla.tail.max.batches", self.tail_batches.to_string()),
            ("ottla.tail.max.bytes", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        Settings::from_configs(&given).unwrap_or_default()
    }
}

/// A span in milliseconds.
pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
