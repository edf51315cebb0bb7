//! What is known of the cluster: brokers, topics, leaders, coordinators.

use std::collections::{BTreeMap, HashMap};

use ottla_wire::messages::metadata_request::MetadataRequestTopic;
use ottla_wire::messages::metadata_response::MetadataResponseTopic;
use ottla_wire::messages::{MetadataRequest, MetadataResponse};
use ottla_wire::{ErrorCode, Uuid};

use crate::client::{Client, Coordinator, Node};
use crate::error::{ClientError, check};

/// The cached facts.
#[derive(Default)]
pub(crate) struct View {
    /// Addresses by broker id.
    pub(crate) brokers: BTreeMap<i32, String>,
    /// Topics that were asked for, by name.
    pub(crate) topics: HashMap<String, Topic>,
    /// Broker ids by what they coordinate.
    pub(crate) coordinators: HashMap<(Coordinator, String), i32>,
}

impl View {
    /// Forgets what may have moved; broker addresses stay until they are told anew.
    pub(crate) fn forget(&mut self) {
        self.topics.clear();
        self.coordinators.clear();
    }
}

/// A topic and who leads its partitions.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id; all zero if the broker knows of none.
    pub id: Uuid,
    /// Made by the brokers for themselves.
    pub internal: bool,
    /// By partition number.
    pub partitions: BTreeMap<i32, Partition>,
}

/// Where the copies of a partition are.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Broker id of the leader, -1 if there is none.
    pub leader: i32,
    /// Counts changes of the leader; -1 if the broker does not say.
    pub leader_epoch: i32,
    /// Broker ids of all copies.
    pub replicas: Vec<i32>,
    /// Broker ids of the copies that are up to date.
    pub in_sync: Vec<i32>,
}

impl Topic {
    /// The leader of a partition; [`ClientError::Kafka`] if there is no such partition or no leader just now.
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

    /// Whether a response's entry is for this topic: by name up to some version, by id from then on.
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

impl Client {
    /// A topic by name, from memory or freshly asked for. `create` lets the broker create it, if it is set up so.
    pub async fn topic(&self, name: &str, create: bool) -> Result<Topic, ClientError> {
        if let Some(known) = self.view().topics.get(name) {
            return Ok(known.clone());
        }
        let wanted = MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(vec![wanted]),
            allow_auto_topic_creation: create,
            ..Default::default()
        };
        let found = self.metadata(request).await?.topics.into_iter().next();
        let found = found.ok_or_else(|| ClientError::Malformed {
            what: "answer to Metadata".to_owned(),
            reason: format!("it leaves out topic {name:?}"),
        })?;
        check(found.error_code, "Metadata", || format!("topic {name:?}"))?;
        let topic = Topic::from(found);
        self.view().topics.insert(name.to_owned(), topic.clone());
        Ok(topic)
    }

    /// As [`Client::topic`], asking again until it is there with a leader for every partition.
    pub async fn ready_topic(&self, name: &str, create: bool) -> Result<Topic, ClientError> {
        let ready = || async move {
            let topic = self.topic(name, create).await?;
            topic.partitions.keys().try_for_each(|partition| topic.leader(*partition).map(drop))?;
            Ok(topic)
        };
        self.retrying(&format!("topic {name:?} to have leaders"), ready).await
    }

    /// All topics, freshly asked for, sorted by name.
    pub async fn topics(&self) -> Result<Vec<Topic>, ClientError> {
        let request =
            MetadataRequest { topics: None, allow_auto_topic_creation: false, ..Default::default() };
        let found = self.metadata(request).await?.topics;
        let mut topics: Vec<Topic> = found.into_iter().map(Topic::from).collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// Ids of all brokers, freshly asked for.
    pub async fn brokers(&self) -> Result<Vec<Node>, ClientError> {
        let request = MetadataRequest {
            topics: Some(Vec::new()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        Ok(self.metadata(request).await?.brokers.iter().map(|broker| Node::Id(broker.node_id)).collect())
    }

    async fn metadata(&self, request: MetadataRequest) -> Result<MetadataResponse, ClientError> {
        let answer = self.call(Node::Any, request).await?;
        check(answer.error_code, "Metadata", || "the cluster".to_owned())?;
        let brokers = answer.brokers.iter().map(|b| (b.node_id, format!("{}:{}", b.host, b.port)));
        self.view().brokers = brokers.collect();
        Ok(answer)
    }
}
