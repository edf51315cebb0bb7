//! The single writer: all machines of one shard behind step, apply and deadline.

use crate::catalog::Catalog;
use crate::config::Settings;
use crate::effect::{Effects, TicketId};
use crate::group::Groups;
use crate::input::Input;
use crate::offsets::Offsets;
use crate::ops::Sweeps;
use crate::partition::Partitions;
use crate::reach::Reach;
use crate::transaction::Transactions;
use ottla_types::record::LogRecord;
use ottla_types::{LogPosition, Millis};

/// Where the log put a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Position of the record.
    pub position: LogPosition,
    /// Position of a batch's bytes, for [`LogRecord::from`]; else the same as `position`.
    pub payload: LogPosition,
}

/// All state of one shard.
#[derive(Debug)]
pub struct Shard {
    pub(crate) catalog: Catalog,
    pub(crate) partitions: Partitions,
    pub(crate) transactions: Transactions,
    pub(crate) sweeps: Sweeps,
    pub(crate) groups: Groups,
    pub(crate) offsets: Offsets,
    pub(crate) reach: Reach,
    /// Wall time less the time that steps are given. Volatile.
    wall_offset: Millis,
}

/// A change of the wall clock that is taken for a correction, not for drift.
const CLOCK_STEP: Millis = Millis(60_000);

impl Shard {
    /// A shard without any state, under the given settings.
    pub fn new(settings: Settings) -> Shard {
        Shard {
            partitions: Partitions::default(),
            transactions: Transactions::new(&settings),
            sweeps: Sweeps::default(),
            groups: Groups::new(&settings),
            offsets: Offsets::default(),
            catalog: Catalog::new(settings),
            reach: Reach::ALL,
            wall_offset: Millis(0),
        }
    }

    /// Sets how far wall time is ahead of the time that steps are given. Steps have a steady time: sessions, transactions and waits
    /// are measured by it, whatever happens to the wall clock. Timestamps of records and their retention are of wall time.
    pub fn set_wall_offset(&mut self, now: Millis, offset: Millis) {
        if offset.since(self.wall_offset).0.saturating_abs() >= CLOCK_STEP.0 {
            // Producers that wrote just before the correction may still resend: none expires for its age by the corrected clock.
            self.sweeps.postpone_producers(now, self.catalog.settings().producer_id_expiration);
        }
        self.wall_offset = offset;
    }

    /// Wall time at the time of a step.
    pub fn wall(&self, now: Millis) -> Millis {
        now.after(self.wall_offset)
    }

    /// Judges an input. Changes volatile facts only; what is to last is pushed to `out` as records.
    pub fn step(&mut self, now: Millis, input: Input, out: &mut Effects) {
        match input {
            Input::Tick => self.tick(now, out),
            Input::Durable(position) => self.durable(position, out),
            Input::Catalog(command) => self.catalog.step(now, command, out),
            Input::Partitions(command) => self.step_partitions(now, command, out),
            Input::Transactions(command) => self.step_transactions(now, command, out),
            Input::Groups(command) => self.groups.step(now, command, out),
            Input::Offsets(command) => self.step_offsets(now, command, out),
        }
    }

    /// Takes a record that the log accepted, live or on replay. The sole change of durable state; it cannot fail.
    pub fn apply(&mut self, at: Applied, record: &LogRecord) {
        match record {
            LogRecord::Catalog(record) => {
                self.catalog.apply(record, &self.reach);
                self.partitions.apply_catalog(record, &self.reach);
                self.offsets.apply_catalog(record);
            }
            LogRecord::Partitions(record) => self.partitions.apply(at, record),
            LogRecord::Transactions(record) => {
                self.partitions.apply_transaction(at.position, record);
                self.transactions.apply(record, &self.reach);
                self.offsets.apply_transaction(record);
            }
            LogRecord::Groups(record) => {
                self.groups.apply(record, &self.reach);
                self.offsets.apply_group(record);
            }
            LogRecord::Offsets(record) => {
                self.groups.apply_offsets(record, &self.reach);
                self.offsets.apply(at.position, record, &self.reach);
            }
            // It occurs as a row of a snapshot only.
            LogRecord::SnapshotReached(_) => {}
        }
    }

    /// The log refused a record of the last step; the host dropped all that came after it, replies too. What the step expected to be
    /// applied is taken back, as by a restart. Returns who waits in vain: the host tells them that no answer comes.
    pub fn refused(&mut self) -> Vec<TicketId> {
        self.transactions.refused();
        self.groups.refused()
    }

    /// The earliest time at which [`Input::Tick`] has something to do.
    pub fn deadline(&self) -> Option<Millis> {
        let sweep = Some(self.next_sweep());
        [sweep, self.groups.deadline(), self.offsets_deadline()].into_iter().flatten().min()
    }

    /// The topics and the settings.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The partitions: what readers may see of them.
    pub fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    /// The transactional ids.
    pub fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    /// The groups.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The committed and staged offsets of groups.
    pub fn offsets(&self) -> &Offsets {
        &self.offsets
    }

    /// The cluster id, once the log has one.
    pub fn cluster_id(&self) -> Option<&str> {
        self.catalog.cluster_id()
    }

    fn tick(&mut self, now: Millis, out: &mut Effects) {
        self.sweep(now, out);
        self.groups.tick(now, out);
        self.expire_offsets(now, out);
    }

    fn durable(&mut self, position: LogPosition, out: &mut Effects) {
        self.partitions.durable(position, out);
    }
}
