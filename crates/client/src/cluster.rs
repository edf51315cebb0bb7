//! The client's cached metadata of a cluster: brokers, topics, leaders and coordinators. The requests for it are in
//! `metadata`.

use crate::error::{ClientError, check};
use ottla_wire::messages::metadata_response::MetadataResponseTopic;
use ottla_wire::{ErrorCode, Uuid};
use std::collections::{BTreeMap, HashMap};

/// The broker that a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// Any broker that can be reached.
    Any,
    /// The broker with this id.
    Id(i32),
}

/// The key of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coordinator {
    /// A consumer group, by its name.
    Group = 0,
    /// A transactional id.
    Transaction = 1,
}

/// The metadata from earlier responses.
#[derive(Default)]
pub(crate) struct View {
    /// Addresses by broker id.
    pub(crate) brokers: BTreeMap<i32, String>,
    /// Topics that were looked up, by name.
    pub(crate) topics: HashMap<String, Topic>,
    /// Broker ids by the key that they coordinate.
    pub(crate) coordinators: HashMap<(Coordinator, String), i32>,
}

impl View {
    /// Drops leaders and coordinators from the cache, because they may have changed. Broker addresses stay until the
    /// next Metadata response.
    pub(crate) fn forget(&mut self) {
        self.topics.clear();
        self.coordinators.clear();
    }
}

/// A topic and the leaders of its partitions.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id; all zero if the broker has none.
    pub id: Uuid,
    /// Whether it is an internal topic of the brokers.
    pub internal: bool,
    /// By partition number.
    pub partitions: BTreeMap<i32, Partition>,
}

/// The leader and the replicas of a partition.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Broker id of the leader, -1 if there is none.
    pub leader: i32,
    /// The leader epoch; -1 if the broker does not send it.
    pub leader_epoch: i32,
    /// Broker ids of all replicas.
    pub replicas: Vec<i32>,
    /// Broker ids of the in-sync replicas.
    pub in_sync: Vec<i32>,
}

impl Topic {
    /// The leader of a partition; [`ClientError::Kafka`] if there is no such partition or no leader at the moment.
    pub fn leader(&self, partition: i32) -> Result<Node, ClientError> {
        let about = || format!("partition {partition} of topic {:?}", self.name);
        match self.partitions.get(&partition) {
            None => check(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0, "Metadata", about).map(|()| Node::Any),
            Some(known) if known.leader < 0 => {
                check(ErrorCode::LEADER_NOT_AVAILABLE.0, "Metadata", about).map(|()| Node::Any)
            }
            Some(known) => Ok(Node::Id(known.leader)),
        }
    }

    /// Whether a response's entry is for this topic: lower versions have its name, higher ones its id.
    pub(crate) fn is(&self, name: &str, id: Uuid) -> bool {
        name == self.name || (name.is_empty() && id == self.id)
    }
}

impl From<MetadataResponseTopic> for Topic {
    fn from(found: MetadataResponseTopic) -> Topic {
        let partitions = found.partitions.iter().map(|p| {
            let partition = Partition {
                leader: p.leader_id,
                leader_epoch: p.leader_epoch,
                replicas: p.replica_nodes.to_vec(),
                in_sync: p.isr_nodes.to_vec(),
            };
            (p.partition_index, partition)
        });
        Topic {
            name: found.name.as_deref().unwrap_or_default().to_owned(),
            id: found.topic_id,
            internal: found.is_internal,
            partitions: partitions.collect(),
        }
    }
}
