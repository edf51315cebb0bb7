//! AlterPartitionReassignments 0-1: a partition can only be assigned to the one broker, where it is already (KIP-455).

use super::authorization::Verdict;
use super::{AnswerError, partition_lookup};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::messages::alter_partition_reassignments_request::ReassignablePartition;
use ottla_wire::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use ottla_wire::messages::{AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse};
use ottla_wire::{ErrorCode, Text};

/// S-345: ALTER on the cluster.
pub(crate) fn authorize(
    request: &mut AlterPartitionReassignmentsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<AlterPartitionReassignmentsResponse> {
    let code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    Verdict::when(rights.allows(Operation::Alter, Resource::Cluster), || {
        let responses = request.topics.iter().map(|topic| ReassignableTopicResponse {
            name: topic.name.clone(),
            partitions: topic.partitions.iter().map(|asked| row(asked, code, code.meaning())).collect(),
            ..Default::default()
        });
        AlterPartitionReassignmentsResponse {
            error_code: code.0,
            error_message: Some(Text::from_static(code.meaning())),
            responses: responses.collect(),
            ..Default::default()
        }
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: AlterPartitionReassignmentsRequest,
    _version: i16,
) -> Result<AlterPartitionReassignmentsResponse, AnswerError> {
    let named = request
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|asked| (topic.name.clone(), asked.partition_index)));
    let mut found = partition_lookup::find(ctx, named.collect()).await?.into_iter();
    let responses = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let (code, why) = judge(ctx.node_id, asked, found.next().flatten().is_some());
            row(asked, code, &why)
        });
        ReassignableTopicResponse {
            name: topic.name.clone(),
            partitions: partitions.collect(),
            ..Default::default()
        }
    });
    Ok(AlterPartitionReassignmentsResponse {
        error_message: None,
        responses: responses.collect(),
        allow_replication_factor_change: request.allow_replication_factor_change,
        ..Default::default()
    })
}

/// what is wrong with the assignment of one partition.
fn judge(node_id: i32, asked: &ReassignablePartition, is_known: bool) -> (ErrorCode, String) {
    if !is_known {
        return (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition".to_owned());
    }
    match asked.replicas.as_ref().map(|replicas| replicas.to_vec()) {
        None => (ErrorCode::NO_REASSIGNMENT_IN_PROGRESS, "no reassignment is in progress".to_owned()),
        Some(replicas) if replicas == [node_id] => (ErrorCode::NONE, String::new()),
        Some(replicas) => {
            let why = format!("the only broker is {node_id}, replicas cannot be {replicas:?}");
            (ErrorCode::INVALID_REPLICA_ASSIGNMENT, why)
        }
    }
}

fn row(asked: &ReassignablePartition, code: ErrorCode, why: &str) -> ReassignablePartitionResponse {
    ReassignablePartitionResponse {
        partition_index: asked.partition_index,
        error_code: code.0,
        error_message: (!why.is_empty()).then(|| Text::from(why)),
        ..Default::default()
    }
}
