//! A shard on a log without threads, run as a host runs it, and a ledger of its records and replies over all restarts.

use ottla_core::config::Settings;
use ottla_core::partitions::Isolation;
use ottla_core::{Command, Effect, Effects, Input, RecordPosition, Reply, Shard, Ticket, TicketId};
use ottla_store::testing::FaultMedium;
use ottla_store::{
    Callbacks, EntryRange, Log, OpenLog, Options, ReplayItem, SnapshotFailure, SnapshotWriter,
};
use ottla_types::record::{BatchPlace, LogRecord, SnapshotUnit, StoredBatch, TransactionStatus};
use ottla_types::{LogPosition, Millis};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The records that were appended, the replies, and what was durable when they were released.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) what: String,
    /// Records with their positions and ends.
    records: Vec<(RecordPosition, LogPosition, LogRecord)>,
    /// Held replies: the position they are stamped with, and the number of records they rest on.
    held: Vec<(LogPosition, usize)>,
    /// Records that must survive: reported durable, or covered by a reply that was released.
    promised: usize,
    pub(crate) now: Millis,
    pub(crate) topics: u8,
    /// Pieces of snapshots that were taken, and snapshots that were finished.
    pub(crate) pieces: usize,
    pub(crate) snapshots: usize,
}

impl Ledger {
    /// An empty ledger. `what` names the history in failures.
    pub(crate) fn new(what: String) -> Ledger {
        Ledger { what, ..Ledger::default() }
    }

    /// The log was reported durable up to a position: records up to there must survive, and replies stamped up to there
    /// are released.
    pub(crate) fn told(&mut self, durable: LogPosition) {
        let whole = self.records.iter().take_while(|(_, end, _)| *end <= durable).count();
        let released = self.held.iter().filter(|(stamp, _)| *stamp <= durable).map(|(_, rests_on)| *rests_on);
        self.promised = released.fold(self.promised.max(whole), usize::max);
        self.held.retain(|(stamp, _)| *stamp > durable);
    }

    /// Compares the state after a restart with the states after each record, and removes the records that were lost.
    fn check(&mut self, found: &Shard) {
        let rows = found.snapshot();
        let mut shard = Shard::new(settings());
        let mut length = 0;
        loop {
            if length >= self.promised && shard.snapshot() == rows {
                break;
            }
            let Some((at, _, record)) = self.records.get(length) else {
                panic!(
                    "{}: no prefix of at least {} of {} records leads to the state found:\n{rows:#?}",
                    self.what,
                    self.promised,
                    self.records.len()
                );
            };
            shard.apply(*at, record);
            length += 1;
        }
        self.records.truncate(length);
        self.held.clear();
        // State that a restart has shown must survive the next crash.
        self.promised = length;
        check_transactions(found, &self.what);
    }

    /// The kinds of the records so far, without the name of their state machine.
    pub(crate) fn kinds(&self) -> BTreeSet<String> {
        let name = |(_, _, record): &(RecordPosition, LogPosition, LogRecord)| {
            format!("{record:?}").split('(').nth(1).unwrap_or_default().to_owned()
        };
        self.records.iter().map(name).collect()
    }
}

/// Asserts that a transaction is whole or absent: one that is open in a partition is open as a whole, and none hangs.
fn check_transactions(shard: &Shard, what: &str) {
    let ongoing: Vec<_> = shard
        .transactions()
        .iter()
        .filter(|known| known.state().status == TransactionStatus::Ongoing)
        .collect();
    for (at, partition) in shard.partitions().iter() {
        for open in partition.producers().filter(|state| state.transaction_start.is_some()) {
            let holder = ongoing.iter().find(|known| known.state().producer_id == open.producer_id);
            assert!(
                holder.is_some_and(|known| known.partitions().contains(&at)),
                "{what}: {open:?} hangs at {at:?}"
            );
        }
    }
}

/// One life of a process.
pub(crate) struct Life {
    pub(crate) shard: Shard,
    pub(crate) log: Log,
    told: Arc<AtomicU64>,
    taking: Option<Taking>,
}

/// A snapshot that is being taken in pieces.
struct Taking {
    writer: SnapshotWriter,
    reached: Option<SnapshotUnit>,
}

/// The most rows, and the most bytes of them, in a piece.
const PIECE: usize = 4;

pub(crate) fn settings() -> Settings {
    Settings::from_configs(&BTreeMap::new()).unwrap()
}

impl Life {
    /// Opens the log and checks the state; none if the medium fails before.
    pub(crate) fn open(medium: &FaultMedium, ledger: &mut Ledger) -> Option<Life> {
        let told = Arc::new(AtomicU64::new(0));
        let listener = Arc::clone(&told);
        let on_durable = move |position: LogPosition| listener.store(position.0, Ordering::SeqCst);
        let hooks = Callbacks { on_durable: Box::new(on_durable), on_failure: Box::new(|_| {}) };
        let options =
            Options { segment_size: 64 << 10, threads: false, log_id: Some(7), recent: 0, ..Options::disk() };
        let mut shard = Shard::new(settings());
        let opened = Log::open(Arc::new(medium.clone()), options, hooks, &mut |one| match one {
            ReplayItem::Snapshot(row) => shard.restore(&row),
            ReplayItem::Entry(EntryRange { position, payload, .. }, record) => {
                shard.apply(applied_at(position, payload), &record);
            }
        });
        let log = match opened {
            Ok(OpenLog { log, .. }) => log,
            Err(error) => {
                // Only the planned fault may keep the log from opening.
                assert!(is_accident(&error), "{}: {error}", ledger.what);
                return None;
            }
        };
        ledger.check(&shard);
        let mut life = Life { shard, log, told, taking: None };
        let durable = life.log.durable();
        life.step(ledger, Input::Durable(durable));
        life.check_batches(&ledger.what);
        Some(life)
    }

    /// The position up to which the log was reported durable.
    pub(crate) fn durable(&self) -> LogPosition {
        LogPosition(self.told.load(Ordering::SeqCst))
    }

    /// Submits a command to the shard. Returns the reply, which the ledger notes as held.
    pub(crate) fn submit<C: Command>(&mut self, ledger: &mut Ledger, command: C) -> Option<C::Reply> {
        let ticket = Ticket::new(TicketId(0));
        let reply = self.step(ledger, command.into_input(ticket))?;
        ticket.open(reply).ok()
    }

    /// Submits an input to the shard. Returns the reply, if there is one.
    pub(crate) fn step(&mut self, ledger: &mut Ledger, input: Input) -> Option<Reply> {
        let mut effects = Effects::default();
        self.shard.step(ledger.now, input, &mut effects);
        let mut last = None;
        for effect in effects.drain() {
            match effect {
                Effect::Append(record) => {
                    let Ok(EntryRange { position, payload, end }) = self.log.append(&record) else {
                        // The rest of the step is dropped, as in the host.
                        self.shard.refused();
                        return None;
                    };
                    let at = applied_at(position, payload);
                    self.shard.apply(at, &record);
                    ledger.records.push((at, end, record));
                }
                Effect::Reply(reply) => {
                    ledger.held.push((self.log.end(), ledger.records.len()));
                    last = Some(reply);
                }
                Effect::Advanced(_) => {}
            }
        }
        last
    }

    /// Lets the log write, and reports the durable position to the shard and the ledger.
    pub(crate) fn sync(&mut self, ledger: &mut Ledger) {
        self.log.kick();
        self.log.drive();
        let durable = self.durable();
        ledger.told(durable);
        self.step(ledger, Input::Durable(durable));
    }

    /// Takes the next piece of the snapshot, or begins one. With its last piece, and when the log is durable
    /// up to there, finishes it and frees unneeded segments, as the host does.
    pub(crate) fn snapshot(&mut self, ledger: &mut Ledger) {
        let taking = self.taking.take().or_else(|| {
            let writer = self.log.snapshotter().begin(self.log.end()).ok()?;
            Some(Taking { writer, reached: None })
        });
        let Some(Taking { mut writer, reached }) = taking else { return };
        if reached != Some(SnapshotUnit::All) {
            let (rows, reached) = self.shard.snapshot_piece(reached.as_ref(), PIECE);
            ledger.pieces += 1;
            if writer.piece(self.log.end(), &mut rows.into_iter()).is_ok() {
                self.taking = Some(Taking { writer, reached: Some(reached) });
            }
            return;
        }
        match writer.finish() {
            Ok(_) => {}
            Err(SnapshotFailure::NotDurable { .. }) => {
                self.taking = Some(Taking { writer, reached });
                return;
            }
            Err(_) => return,
        }
        ledger.snapshots += 1;
        let size = self.log.segment_size();
        let is_dead = |number: &u64| {
            let start = LogPosition(number * size);
            !self.shard.partitions().needs_log(start, LogPosition(start.0 + size))
        };
        let dead: Vec<u64> = self.log.segments().into_iter().filter(is_dead).collect();
        self.log.free_segments(&dead);
        self.log.drive();
    }

    /// Asserts that every readable batch is where the state says, with the bytes that were sent.
    fn check_batches(&self, what: &str) {
        let reader = self.log.reader();
        for (at, partition) in self.shard.partitions().iter() {
            let all = partition.read(partition.log_start(), u64::MAX, true, Isolation::Uncommitted);
            for StoredBatch { base_offset, place, .. } in all.unwrap().batches().copied() {
                let BatchPlace::Log { position, size } = place else { continue };
                let bytes = match reader.read(position, size as usize) {
                    Ok(bytes) => bytes,
                    Err(error) if is_accident(&error) => return,
                    Err(error) => panic!("{what}: {at:?} at {base_offset:?}: {error}"),
                };
                assert_eq!(bytes[..8], base_offset.0.to_be_bytes(), "{what}: {at:?} at {base_offset:?}");
                assert!(bytes[16..].iter().all(|byte| *byte == filling(size)), "{what}: {at:?}");
            }
        }
    }
}

fn is_accident(error: &impl ToString) -> bool {
    ["power was lost", "this process has ended", "an error was injected", "no storage space"]
        .iter()
        .any(|why| error.to_string().contains(why))
}

/// The byte that a batch of this size is filled with.
pub(crate) fn filling(size: u32) -> u8 {
    (size % 251) as u8
}

fn applied_at(position: LogPosition, payload: Option<LogPosition>) -> RecordPosition {
    RecordPosition { position, payload: payload.unwrap_or(position) }
}
