//! Where each request names its resources, for the checks of the dispatch table.

use super::authorization::{NamesGroups, NamesTopics, NamesTransactionalIds, ResourceVisitor};
use super::{config_rows, find_coordinator};
use crate::authorizer::Resource;
use ottla_wire::messages::produce_request::PartitionProduceData;
use ottla_wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AlterConfigsRequest, CreatePartitionsRequest,
    CreateTopicsRequest, DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeConfigsRequest, DescribeGroupsRequest, DescribeProducersRequest, DescribeTopicPartitionsRequest,
    DescribeTransactionsRequest, EndTxnRequest, FetchRequest, FindCoordinatorRequest, HeartbeatRequest,
    IncrementalAlterConfigsRequest, InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest,
    ListOffsetsRequest, MetadataRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest,
    OffsetForLeaderEpochRequest, ProduceRequest, SyncGroupRequest, TxnOffsetCommitRequest,
};
use ottla_wire::{Text, Uuid};

/// The request's topics are the items of an iterator over `(name, id)`. A topic has a name unless its id is not zero.
macro_rules! topics {
    ($($request:ident, |$this:ident, $version:ident| $topics:expr;)*) => {$(
        impl NamesTopics for $request {
            fn topics(&self, $version: i16, found: ResourceVisitor<'_>) {
                let $this = self;
                $topics.for_each(|(name, id): (&Text, Uuid)| {
                    found(if id.is_zero() { Resource::Topic(name) } else { Resource::TopicId(id) });
                });
            }
        }
    )*};
}

/// The request's groups are the items of an iterator over their ids.
macro_rules! groups {
    ($($request:ident, |$this:ident, $version:ident| $groups:expr;)*) => {$(
        impl NamesGroups for $request {
            fn groups(&self, $version: i16, found: ResourceVisitor<'_>) {
                let $this = self;
                $groups.for_each(|group: &Text| found(Resource::Group(group)));
            }
        }
    )*};
}

/// The request's transactional ids are the items of an iterator over them.
macro_rules! transactional_ids {
    ($($request:ident, |$this:ident, $version:ident| $ids:expr;)*) => {$(
        impl NamesTransactionalIds for $request {
            fn transactional_ids(&self, $version: i16, found: ResourceVisitor<'_>) {
                let $this = self;
                $ids.for_each(|id: &Text| found(Resource::TransactionalId(id)));
            }
        }
    )*};
}

const BY_NAME: Uuid = Uuid::ZERO;
static NO_NAME: Text = Text::from_static("");

topics! {
    ProduceRequest, |r, _version| r.topic_data.iter().map(|topic| (&topic.name, topic.topic_id));
    ListOffsetsRequest, |r, _version| r.topics.iter().map(|topic| (&topic.name, BY_NAME));
    MetadataRequest, |r, _version| {
        r.topics.iter().flatten().map(|topic| (topic.name.as_ref().unwrap_or(&NO_NAME), topic.topic_id))
    };
    OffsetCommitRequest, |r, _version| r.topics.iter().map(|topic| (&topic.name, topic.topic_id));
    OffsetFetchRequest, |r, _version| {
        let before_8 = r.topics.iter().flatten().map(|topic| (&topic.name, BY_NAME));
        let topics = r.groups.iter().flat_map(|group| group.topics.iter().flatten());
        before_8.chain(topics.map(|topic| (&topic.name, topic.topic_id)))
    };
    CreateTopicsRequest, |r, _version| r.topics.iter().map(|topic| (&topic.name, BY_NAME));
    DeleteTopicsRequest, |r, _version| {
        let before_6 = r.topic_names.iter().map(|name| (name, BY_NAME));
        before_6.chain(r.topics.iter().map(|t| (t.name.as_ref().unwrap_or(&NO_NAME), t.topic_id)))
    };
    DeleteRecordsRequest, |r, _version| r.topics.iter().map(|topic| (&topic.name, BY_NAME));
    OffsetForLeaderEpochRequest, |r, _version| r.topics.iter().map(|topic| (&topic.topic, BY_NAME));
    // Versions 4 and later are for brokers, which need another right.
    AddPartitionsToTxnRequest, |r, _version| {
        r.v3_and_below_topics.iter().map(|topic| (&topic.name, BY_NAME))
    };
    TxnOffsetCommitRequest, |r, _version| r.topics.iter().map(|topic| (&topic.name, topic.topic_id));
    DescribeConfigsRequest, |r, _version| {
        let topics = r.resources.iter().filter(|resource| resource.resource_type == config_rows::TOPIC);
        topics.map(|topic| (&topic.resource_name, BY_NAME))
    };
    AlterConfigsRequest, |r, _version| {
        let topics = r.resources.iter().filter(|resource| resource.resource_type == config_rows::TOPIC);
        topics.map(|topic| (&topic.resource_name, BY_NAME))
    };
    IncrementalAlterConfigsRequest, |r, _version| {
        let topics = r.resources.iter().filter(|resource| resource.resource_type == config_rows::TOPIC);
        topics.map(|topic| (&topic.resource_name, BY_NAME))
    };
    CreatePartitionsRequest, |r, _version| r.topics.iter().map(|topic| (&topic.name, BY_NAME));
    OffsetDeleteRequest, |r, _version| r.topics.iter().map(|topic| (&topic.name, BY_NAME));
    DescribeProducersRequest, |r, _version| r.topics.iter().map(|topic| (&topic.name, BY_NAME));
    DescribeTopicPartitionsRequest, |r, _version| r.topics.iter().map(|topic| (&topic.name, BY_NAME));
}

groups! {
    OffsetCommitRequest, |r, _version| std::iter::once(&r.group_id);
    OffsetFetchRequest, |r, version| {
        let before_8 = (version < 8).then_some(&r.group_id);
        before_8.into_iter().chain(r.groups.iter().map(|group| &group.group_id))
    };
    FindCoordinatorRequest, |r, version| coordinator_keys(r, version, find_coordinator::GROUP);
    JoinGroupRequest, |r, _version| std::iter::once(&r.group_id);
    HeartbeatRequest, |r, _version| std::iter::once(&r.group_id);
    LeaveGroupRequest, |r, _version| std::iter::once(&r.group_id);
    SyncGroupRequest, |r, _version| std::iter::once(&r.group_id);
    DescribeGroupsRequest, |r, _version| r.groups.iter();
    AddOffsetsToTxnRequest, |r, _version| std::iter::once(&r.group_id);
    TxnOffsetCommitRequest, |r, _version| std::iter::once(&r.group_id);
    DescribeConfigsRequest, |r, _version| {
        let groups = r.resources.iter().filter(|resource| resource.resource_type == config_rows::GROUP);
        groups.map(|group| &group.resource_name)
    };
    AlterConfigsRequest, |r, _version| {
        let groups = r.resources.iter().filter(|resource| resource.resource_type == config_rows::GROUP);
        groups.map(|group| &group.resource_name)
    };
    IncrementalAlterConfigsRequest, |r, _version| {
        let groups = r.resources.iter().filter(|resource| resource.resource_type == config_rows::GROUP);
        groups.map(|group| &group.resource_name)
    };
    DeleteGroupsRequest, |r, _version| r.groups_names.iter();
    OffsetDeleteRequest, |r, _version| std::iter::once(&r.group_id);
}

transactional_ids! {
    // S-301: of a request with transactional batches, also without an id.
    ProduceRequest, |r, _version| {
        let mut partitions = r.topic_data.iter().flat_map(|topic| &topic.partition_data);
        let id = r.transactional_id.as_ref().unwrap_or(&NO_NAME);
        partitions.any(is_transactional).then_some(id).into_iter()
    };
    FindCoordinatorRequest, |r, version| coordinator_keys(r, version, find_coordinator::TRANSACTION);
    InitProducerIdRequest, |r, _version| r.transactional_id.iter();
    AddPartitionsToTxnRequest, |r, version| {
        (version < 4).then_some(&r.v3_and_below_transactional_id).into_iter()
    };
    AddOffsetsToTxnRequest, |r, _version| std::iter::once(&r.transactional_id);
    EndTxnRequest, |r, _version| std::iter::once(&r.transactional_id);
    TxnOffsetCommitRequest, |r, _version| std::iter::once(&r.transactional_id);
    DescribeTransactionsRequest, |r, _version| r.transactional_ids.iter();
}

/// Whether the first batch of a partition is transactional: bit 4 of its attributes.
fn is_transactional(partition: &PartitionProduceData) -> bool {
    /// The low byte of the attributes of a batch.
    const ATTRIBUTES_AT: usize = 22;
    const TRANSACTIONAL: u8 = 1 << 4;
    let first = partition.records.as_ref().and_then(|records| records.chunks().first());
    first.and_then(|chunk| chunk.get(ATTRIBUTES_AT)).is_some_and(|low| low & TRANSACTIONAL != 0)
}

fn coordinator_keys(
    request: &FindCoordinatorRequest,
    version: i16,
    key_type: i8,
) -> impl Iterator<Item = &Text> {
    let before_4 = (version < 4).then_some(&request.key).into_iter();
    before_4.chain(request.coordinator_keys.iter()).filter(move |_| request.key_type == key_type)
}

pub(super) fn finds_share_coordinator(request: &FindCoordinatorRequest, _version: i16) -> bool {
    request.key_type == find_coordinator::SHARE
}

/// S-305: whether a follower fetches, not a consumer.
pub(super) fn is_follower(request: &FetchRequest, version: i16) -> bool {
    let replica = if version < 15 { request.replica_id } else { request.replica_state.replica_id };
    replica >= 0
}

pub(super) fn is_consumer(request: &FetchRequest, version: i16) -> bool {
    !is_follower(request, version)
}

pub(super) fn has_no_transactional_id(request: &InitProducerIdRequest, _version: i16) -> bool {
    request.transactional_id.is_none()
}

/// S-329: these versions are spoken between brokers.
pub(super) fn is_between_brokers(_request: &AddPartitionsToTxnRequest, version: i16) -> bool {
    version >= 4
}

pub(super) fn describes_broker(request: &DescribeConfigsRequest, _version: i16) -> bool {
    request.resources.iter().any(|resource| config_rows::needs_cluster(resource.resource_type))
}

pub(super) fn alters_broker(request: &AlterConfigsRequest, _version: i16) -> bool {
    request.resources.iter().any(|resource| config_rows::needs_cluster(resource.resource_type))
}

pub(super) fn alters_broker_incrementally(request: &IncrementalAlterConfigsRequest, _version: i16) -> bool {
    request.resources.iter().any(|resource| config_rows::needs_cluster(resource.resource_type))
}
