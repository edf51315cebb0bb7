//! Looking up brokers, topics and leaders: the Metadata request.

use crate::client::Client;
use crate::cluster::{Node, Topic};
use crate::error::{ClientError, check};
use ottla_wire::messages::metadata_request::MetadataRequestTopic;
use ottla_wire::messages::{MetadataRequest, MetadataResponse};

impl Client {
    /// A topic by name, from the cache or the broker. With `create` the broker may create it, if it is configured so.
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

    /// As [`Client::topic`], retried until every partition has a leader.
    pub async fn ready_topic(&self, name: &str, create: bool) -> Result<Topic, ClientError> {
        let ready = || async move {
            let topic = self.topic(name, create).await?;
            topic.partitions.keys().try_for_each(|partition| topic.leader(*partition).map(drop))?;
            Ok(topic)
        };
        self.retrying(&format!("topic {name:?} to have leaders"), ready).await
    }

    /// All topics, from the broker, sorted by name.
    pub async fn topics(&self) -> Result<Vec<Topic>, ClientError> {
        let request =
            MetadataRequest { topics: None, allow_auto_topic_creation: false, ..Default::default() };
        let found = self.metadata(request).await?.topics;
        let mut topics: Vec<Topic> = found.into_iter().map(Topic::from).collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// All brokers, as a broker lists them now.
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
