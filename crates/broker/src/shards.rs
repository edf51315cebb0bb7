//! The router over the shards of this node: which shard serves a topic, a group or a transactional id.
//!
//! A shard is one log with one state machine, which one [`Host`] runs. A node has one shard today, so every route leads
//! to it. APIs reach a host only by these routes, so that a second shard is added here and in the APIs whose requests
//! it splits.

use crate::Metrics;
use crate::host::{Host, LiveSettings};
use crate::trace::Notes;
use std::sync::Arc;

/// The shards of this node.
#[derive(Clone, Debug)]
pub struct Shards {
    only: Host,
}

impl Shards {
    /// One shard.
    pub fn one(host: Host) -> Shards {
        Shards { only: host }
    }

    /// All shards, in the order of their numbers.
    pub fn all(&self) -> impl Iterator<Item = &Host> {
        std::iter::once(&self.only)
    }

    /// The shard of the catalog: the names, ids and configurations of topics, and the settings of the broker.
    pub fn catalog(&self) -> &Host {
        &self.only
    }

    /// The shard of the records of all topics. With several shards a request is split by the topics that it names.
    pub fn partitions(&self) -> &Host {
        &self.only
    }

    /// The shard of one group and its committed offsets.
    pub fn of_group(&self, _group_id: &str) -> &Host {
        &self.only
    }

    /// The shard of all groups. With several shards a request is split by the groups that it names.
    pub fn groups(&self) -> &Host {
        &self.only
    }

    /// The shard that coordinates the transactions of one transactional id.
    pub fn of_transactional_id(&self, _transactional_id: &str) -> &Host {
        &self.only
    }

    /// The shard of all transactions and producer ids. With several shards a request is split by the transactional ids
    /// that it names.
    pub fn transactions(&self) -> &Host {
        &self.only
    }

    /// Settings that are read without a command.
    pub(crate) fn settings(&self) -> &LiveSettings {
        self.only.settings()
    }

    /// The metrics since the start.
    pub fn metrics(&self) -> &Metrics {
        self.only.metrics()
    }

    /// The same shards, on behalf of a request that is traced.
    pub(crate) fn traced(&self, notes: &Arc<Notes>) -> Shards {
        Shards { only: self.only.traced(Arc::clone(notes)) }
    }
}
