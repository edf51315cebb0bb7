//! DescribeQuorum 0-2: tools check the health of the cluster with it. There is no metadata quorum: the broker is shown
//! as its only voter and leader, with offsets of 0.

use super::authorization::{CLUSTER_DENIED, Verdict};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::host::HostGone;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::messages::describe_quorum_response::{
    Listener, Node, PartitionData, ReplicaState, TopicData,
};
use ottla_wire::messages::{DescribeQuorumRequest, DescribeQuorumResponse};
use ottla_wire::{ErrorCode, Text};

/// The topic that represents the quorum. Its only partition is 0.
const QUORUM: &str = "__cluster_metadata";

/// S-352: DESCRIBE on the cluster.
pub(crate) fn authorize(
    _request: &mut DescribeQuorumRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<DescribeQuorumResponse> {
    Verdict::when(rights.allows(Operation::Describe, Resource::Cluster), || DescribeQuorumResponse {
        error_code: CLUSTER_DENIED,
        error_message: Some(Text::from_static(ErrorCode::CLUSTER_AUTHORIZATION_FAILED.meaning())),
        ..Default::default()
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: DescribeQuorumRequest,
    version: i16,
) -> Result<DescribeQuorumResponse, HostGone> {
    let now = ctx.shards.catalog().read(|_, now| now.0).await?;
    let mut nodes = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let asked = partition.partition_index;
            if topic.topic_name == QUORUM && asked == 0 {
                partitions.push(quorum(ctx, now));
                // Versions below 2 have no field for nodes.
                nodes = if version >= 2 { vec![node(ctx)] } else { Vec::new() };
            } else {
                partitions.push(unknown(asked));
            }
        }
        topics.push(TopicData { topic_name: topic.topic_name, partitions, ..Default::default() });
    }
    Ok(DescribeQuorumResponse { error_message: Some(Text::default()), topics, nodes, ..Default::default() })
}

fn quorum(ctx: &Context, now: i64) -> PartitionData {
    let voter = ReplicaState {
        replica_id: ctx.node_id,
        last_fetch_timestamp: now,
        last_caught_up_timestamp: now,
        ..Default::default()
    };
    PartitionData {
        error_message: Some(Text::default()),
        leader_id: ctx.node_id,
        current_voters: vec![voter],
        ..Default::default()
    }
}

fn unknown(partition_index: i32) -> PartitionData {
    PartitionData {
        partition_index,
        error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
        error_message: Some(Text::from_static("not a partition of the metadata quorum")),
        ..Default::default()
    }
}

fn node(ctx: &Context) -> Node {
    let listener = Listener {
        name: Text::from_static("CONTROLLER"),
        host: ctx.advertised().host.as_str().into(),
        port: ctx.advertised().port,
        ..Default::default()
    };
    Node { node_id: ctx.node_id, listeners: vec![listener], ..Default::default() }
}
