//! The single writer: all machines of one shard behind step, apply and deadline.

mod snapshot;

use crate::acls::Acls;
use crate::catalog::Catalog;
use crate::compaction::{self, Compactable};
use crate::config::Settings;
use crate::effect::{Effects, RecordPosition, TicketId};
use crate::groups::Groups;
use crate::input::Input;
use crate::offsets::Offsets;
use crate::partitions::{Partition, Partitions, Planner, RunBounds, RunEnds, RunsPlan, TailPlan};
use crate::quotas::Quotas;
use crate::reach::Reach;
use crate::transactions::{MarkerContext, Transactions};
use crate::users::Users;
use crate::{offsets, partitions, transactions};
use ottla_types::record::LogRecord;
use ottla_types::{Millis, TopicPartition};
use std::collections::BTreeSet;

/// All state of one shard.
#[derive(Debug)]
pub struct Shard {
    pub(crate) catalog: Catalog,
    pub(crate) partitions: Partitions,
    pub(crate) transactions: Transactions,
    pub(crate) groups: Groups,
    pub(crate) offsets: Offsets,
    pub(crate) acls: Acls,
    pub(crate) users: Users,
    pub(crate) quotas: Quotas,
    pub(crate) reach: Reach,
    /// Wall time less the time that steps are given. Volatile.
    wall_offset: Millis,
}

/// A change of the wall clock of at least this much counts as a correction, not as drift.
const CLOCK_STEP: Millis = Millis(60_000);

impl Shard {
    /// A shard without any state, under the given settings.
    pub fn new(settings: Settings) -> Shard {
        Shard {
            partitions: Partitions::default(),
            transactions: Transactions::new(&settings),
            groups: Groups::new(&settings),
            offsets: Offsets::default(),
            acls: Acls::default(),
            users: Users::default(),
            quotas: Quotas::default(),
            catalog: Catalog::new(settings),
            reach: Reach::ALL,
            wall_offset: Millis(0),
        }
    }

    /// Sets how far wall time is ahead of the time that steps are given. Steps have a steady time: sessions,
    /// transactions and waits are measured by it, whatever happens to the wall clock. Timestamps of records and their
    /// retention are of wall time.
    pub fn set_wall_offset(&mut self, now: Millis, offset: Millis) {
        if offset.since(self.wall_offset).0.saturating_abs() >= CLOCK_STEP.0 {
            // Producers that wrote just before the correction may still resend, and groups may still need the offsets
            // that they committed: none expires for its age by the corrected clock.
            self.partitions.postpone_producers(now, self.catalog.settings().producer_id_expiration);
            self.offsets.postpone(now, self.catalog.settings().offsets_retention);
        }
        self.wall_offset = offset;
    }

    /// Whether there are more producers than `ottla.producers.max`, so that the next tick forgets some before they
    /// expire.
    pub fn forgets_producers(&self) -> bool {
        self.partitions.has_producers_over(self.catalog.settings().producers_max)
    }

    /// Wall time at the time of a step.
    pub fn wall(&self, now: Millis) -> Millis {
        now.after(self.wall_offset)
    }

    /// Judges an input. Changes volatile facts only; what is to last is pushed to `out` as records.
    pub fn step(&mut self, now: Millis, input: Input, out: &mut Effects) {
        match input {
            Input::Tick => self.tick(now, out),
            Input::Durable(position) => self.partitions.durable(position, out),
            Input::Catalog(command) => self.catalog.step(now, command, out),
            Input::Partitions(command) => {
                let wall = self.wall(now);
                let Shard { catalog, transactions, .. } = self;
                self.partitions.step(now, command, partitions::Others { catalog, transactions, wall }, out);
            }
            Input::Transactions(command) => {
                let offsets_partitions = self.catalog.settings().offsets_partitions;
                let next_offset = &|at| self.partitions.get(at).map(Partition::next_offset);
                let markers = MarkerContext { next_offset, wall: self.wall(now) };
                let others = transactions::Others { markers, offsets_partitions };
                self.transactions.step(now, command, others, out);
            }
            Input::Groups(command) => self.groups.step((now, self.wall(now)), command, &self.catalog, out),
            Input::Offsets(command) => {
                let wall = self.wall(now);
                let Shard { catalog, transactions, groups, .. } = self;
                self.offsets.step(now, command, offsets::Others { catalog, transactions, groups, wall }, out);
            }
            Input::Acls(command) => self.acls.step(command, out),
            Input::Users(command) => self.users.step(command, out),
            Input::Quotas(command) => self.quotas.step(command, out),
        }
    }

    /// Takes a record that the log accepted, live or on replay. The sole change of durable state; it cannot fail.
    pub fn apply(&mut self, at: RecordPosition, record: &LogRecord) {
        match record {
            LogRecord::Catalog(record) => {
                self.catalog.apply(record, &self.reach);
                self.partitions.apply_catalog(record, &self.reach);
                self.groups.apply_catalog(record);
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
            LogRecord::Acls(record) => self.acls.apply(record),
            LogRecord::Users(record) => self.users.apply(record),
            LogRecord::Quotas(record) => self.quotas.apply(record),
            // It occurs as a row of a snapshot only.
            LogRecord::SnapshotReached(_) => {}
        }
    }

    /// The log refused a record of the last step; the host dropped all that came after it, replies too. What the step
    /// expected to be applied is taken back, as by a restart. Returns the tickets of requests that get no reply: the
    /// host drops them.
    pub fn refused(&mut self) -> Vec<TicketId> {
        self.transactions.refused();
        self.groups.refused()
    }

    /// The earliest time at which [`Input::Tick`] has something to do.
    pub fn deadline(&self) -> Option<Millis> {
        [
            self.transactions.deadline(),
            Some(self.partitions.deadline(&self.catalog)),
            self.groups.deadline(),
            self.offsets.deadline(&self.groups),
        ]
        .into_iter()
        .flatten()
        .min()
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

    /// The ACLs.
    pub fn acls(&self) -> &Acls {
        &self.acls
    }

    /// The users that authenticate with SCRAM.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// The client quotas.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// The cluster id, once the log has one.
    pub fn cluster_id(&self) -> Option<&str> {
        self.catalog.cluster_id()
    }

    /// Looks at up to `partitions` more partitions for the plan, and stops early when it has found 4096 more batches.
    /// True if the plan is complete.
    pub fn plan_tail(&self, plan: &mut TailPlan, partitions: usize) -> bool {
        self.partitions.plan_tail(&self.catalog, plan, partitions)
    }

    /// Plans for the runs that the medium has. `ends` holds the size of each run; runs that nothing refers to are
    /// ignored.
    pub fn plan_runs(&self, ends: &RunEnds, bounds: RunBounds) -> RunsPlan {
        Planner { catalog: &self.catalog, partitions: &self.partitions }.plan_runs(ends, bounds)
    }

    /// The partitions of compacted topics that are due, the dirtiest first, as many as one job takes; then by class and
    /// partition. Partitions in `aside` are passed over.
    pub fn plan_compaction(&self, now: Millis, aside: &BTreeSet<TopicPartition>) -> Vec<Compactable> {
        compaction::plan(self.wall(now), (&self.catalog, &self.partitions), aside)
    }

    fn tick(&mut self, now: Millis, out: &mut Effects) {
        let next_offset = &|at| self.partitions.get(at).map(Partition::next_offset);
        let wall = self.wall(now);
        self.transactions.tick(now, MarkerContext { next_offset, wall }, out);
        self.partitions.tick((now, wall), &self.catalog, out);
        self.groups.tick((now, wall), &self.catalog, out);
        self.offsets.tick((now, wall), (&self.catalog, &self.groups), out);
    }
}
