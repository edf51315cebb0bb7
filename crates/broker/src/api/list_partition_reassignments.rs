//! ListPartitionReassignments 0: no partition ever moves, so the list is empty.

use super::authorization::Verdict;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use ottla_wire::messages::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};
use ottla_wire::{ErrorCode, Text};

/// S-346: DESCRIBE on the cluster. The partitions of the request are repeated without replicas.
pub(crate) fn authorize(
    request: &mut ListPartitionReassignmentsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<ListPartitionReassignmentsResponse> {
    let code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    Verdict::when(rights.allows(Operation::Describe, Resource::Cluster), || {
        let partition =
            |partition_index| OngoingPartitionReassignment { partition_index, ..Default::default() };
        let topics = request.topics.iter().flatten().map(|topic| OngoingTopicReassignment {
            name: topic.name.clone(),
            partitions: topic.partition_indexes.iter().map(partition).collect(),
            ..Default::default()
        });
        ListPartitionReassignmentsResponse {
            error_code: code.0,
            error_message: Some(Text::from_static(code.meaning())),
            topics: topics.collect(),
            ..Default::default()
        }
    })
}

pub(crate) async fn answer(
    _ctx: &Context,
    _session: &Session,
    _request: ListPartitionReassignmentsRequest,
    _version: i16,
) -> ListPartitionReassignmentsResponse {
    ListPartitionReassignmentsResponse { error_message: None, ..Default::default() }
}
