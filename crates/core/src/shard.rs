//! The single writer: all machines of one shard behind step, apply and deadline.

use crate::catalog::Catalog;
use crate::config::Settings;
use crate::effect::{Effects, TicketId};
use crate::group::Groups;
use crate::input::Input;
use crate::offsets::Offsets;
use crate::ops::Sweeps;
use crate::partition::Partitions;
use crate::transaction::Transactions;
use ottla_types::record::{LogRecord, SnapshotUnit, TransactionState, TransactionUpdated};
use ottla_types::{LogPosition, Millis, TopicId, TopicPartition};

/// Where the log put a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Position of the record.
    pub position: LogPosition,
    /// Position of a batch's bytes, for [`LogRecord::BatchAppended`]; else the same as `position`.
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
    cluster_id: Option<String>,
    /// How far the snapshot reaches that is being read back; all but then.
    pub(crate) reached: SnapshotUnit,
}

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
            cluster_id: None,
            reached: SnapshotUnit::All,
        }
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
            LogRecord::ClusterCreated(created) => self.cluster_id = Some(created.cluster_id.clone()),
            LogRecord::TopicCreated(created) => {
                if self.covers(|| SnapshotUnit::Topic(created.id)) {
                    self.catalog.apply_created(created);
                }
                self.make_partitions(created.id, created.partitions);
            }
            LogRecord::TopicDeleted(deleted) => {
                self.catalog.apply_deleted(deleted);
                self.partitions.apply_topic_deleted(deleted.id);
                self.offsets.apply_topic_deleted(deleted.id);
            }
            LogRecord::PartitionsAdded(added) => {
                self.catalog.apply_partitions(added);
                self.make_partitions(added.id, added.partitions);
            }
            LogRecord::TopicConfigured(configured) => self.catalog.apply_topic_configs(configured),
            LogRecord::BrokerConfigured(configured) => self.catalog.apply_broker_configs(configured),
            LogRecord::ProducerIdsReserved(reserved) => self.transactions.apply_reserved(reserved),
            LogRecord::TransactionUpdated(updated) => self.apply_transaction(updated),
            LogRecord::TransactionExtended(extended) => self.transactions.apply_extended(extended),
            LogRecord::TransactionEnded(ended) => {
                self.partitions.apply_ended(at.position, ended);
                if self.covers_transaction(&ended.state) {
                    self.transactions.apply_ended(ended);
                }
                self.offsets.end_transaction(ended.marker.producer_id, ended.marker.commit);
            }
            LogRecord::TransactionForgotten(forgotten) => self.transactions.apply_forgotten(forgotten),
            LogRecord::BatchAppended(_)
            | LogRecord::MarkerAppended(_)
            | LogRecord::LogStartMoved(_)
            | LogRecord::ProducersExpired(_)
            | LogRecord::PartsInstalled(_)
            | LogRecord::PartsRestored(_)
            | LogRecord::PartitionRestored(_)
            | LogRecord::BatchesRestored(_)
            | LogRecord::ProducerRestored(_)
            | LogRecord::AbortedRestored(_) => self.partitions.apply(at, record),
            LogRecord::GroupUpdated(_)
            | LogRecord::GroupDeleted(_)
            | LogRecord::OffsetsCommitted(_)
            | LogRecord::OffsetsStaged(_)
            | LogRecord::OffsetsDeleted(_)
            | LogRecord::OffsetsRestored(_)
            | LogRecord::StagedRestored(_) => self.apply_offsets(at, record),
            // It counts as a row of a snapshot only.
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
        self.cluster_id.as_deref()
    }

    fn make_partitions(&mut self, topic: TopicId, count: i32) {
        for partition in 0..count {
            let at = TopicPartition { topic, partition };
            if self.covers(|| SnapshotUnit::Partition(at)) {
                self.partitions.apply_made(at);
            }
        }
    }

    fn apply_transaction(&mut self, updated: &TransactionUpdated) {
        if self.covers_transaction(&updated.state) {
            self.transactions.apply_updated(updated);
        }
    }

    fn covers_transaction(&self, state: &TransactionState) -> bool {
        self.covers(|| SnapshotUnit::TransactionalId(state.transactional_id.clone()))
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
