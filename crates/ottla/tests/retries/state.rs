//! The state of a fixture as clients see it.

use crate::ask::Fixture;
use crate::peer::Connection;
use ottla_wire::messages::describe_producers_request::TopicRequest;
use ottla_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use ottla_wire::messages::{
    DescribeProducersRequest, DescribeTransactionsRequest, ListOffsetsRequest, OffsetFetchRequest,
};

/// The responses of DescribeTransactions, DescribeProducers, ListOffsets and OffsetFetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    transaction: String,
    producers: String,
    /// High watermark and last stable offset.
    pub(crate) ends: [i64; 2],
    /// The committed offset.
    pub(crate) offset: Option<i64>,
    offsets: String,
}

impl Fixture {
    pub(crate) async fn state(&self, peer: &mut Connection) -> State {
        let ask =
            DescribeTransactionsRequest { transactional_ids: vec![self.id.clone()], ..Default::default() };
        let transaction = format!("{:?}", peer.call(&ask, 0).await);
        let topic = TopicRequest {
            name: self.topic.clone(),
            partition_indexes: [0].into_iter().collect(),
            ..Default::default()
        };
        let ask = DescribeProducersRequest { topics: vec![topic], ..Default::default() };
        let producers = format!("{:?}", peer.call(&ask, 0).await);
        let ends = [self.end_of(peer, 0).await, self.end_of(peer, 1).await];
        let (offset, offsets) = self.offsets(peer).await;
        State { transaction, producers, ends, offset, offsets }
    }

    async fn end_of(&self, peer: &mut Connection, isolation_level: i8) -> i64 {
        let partition = ListOffsetsPartition { partition_index: 0, timestamp: -1, ..Default::default() };
        let topic =
            ListOffsetsTopic { name: self.topic.clone(), partitions: vec![partition], ..Default::default() };
        let ask =
            ListOffsetsRequest { replica_id: -1, isolation_level, topics: vec![topic], ..Default::default() };
        peer.call(&ask, 7).await.topics[0].partitions[0].offset
    }

    async fn offsets(&self, peer: &mut Connection) -> (Option<i64>, String) {
        let ask = |require_stable| {
            let topic = OffsetFetchRequestTopics {
                name: self.topic.clone(),
                partition_indexes: [0].into_iter().collect(),
                ..Default::default()
            };
            let group = OffsetFetchRequestGroup {
                group_id: self.group.clone(),
                topics: Some(vec![topic]),
                ..Default::default()
            };
            OffsetFetchRequest { groups: vec![group], require_stable, ..Default::default() }
        };
        let (plain, stable) = (ask(false), ask(true));
        let plain = peer.call(&plain, 8).await;
        let offset = plain.groups[0].topics[0].partitions[0].committed_offset;
        let stable = peer.call(&stable, 8).await;
        (Some(offset).filter(|offset| *offset >= 0), format!("{plain:?} {stable:?}"))
    }
}
