//! ElectLeaders 0-2: the one broker leads every partition already, so each known partition is ELECTION_NOT_NEEDED.
//! Left out: unclean elections, for which there is no other replica.

use super::authorization::Verdict;
use super::{AnswerError, partition_lookup};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use ottla_wire::messages::{ElectLeadersRequest, ElectLeadersResponse};
use ottla_wire::{ErrorCode, Text};

/// S-344: ALTER on the cluster.
pub(crate) fn authorize(
    request: &mut ElectLeadersRequest,
    rights: &Rights<'_>,
    version: i16,
) -> Verdict<ElectLeadersResponse> {
    let code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    Verdict::when(rights.allows(Operation::Alter, Resource::Cluster), || {
        // Version 0 has no field for the error of the whole request.
        let top = if version >= 1 { code } else { ErrorCode::NONE };
        ElectLeadersResponse { error_code: top.0, ..all(request, code, code.meaning()) }
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: ElectLeadersRequest,
    _version: i16,
) -> Result<ElectLeadersResponse, AnswerError> {
    /// The greatest number of an election type: preferred is 0, unclean is 1.
    const LAST_TYPE: i8 = 1;
    if !(0..=LAST_TYPE).contains(&request.election_type) {
        let why = format!("no election type has the number {}", request.election_type);
        return Ok(all(&request, ErrorCode::INVALID_REQUEST, &why));
    }
    let Some(topics) = &request.topic_partitions else {
        // every topic, without partitions, as in Kafka.
        let names = ctx.shards.catalog().read(|shard, _| {
            shard.catalog().topics_by_name().map(|topic| Text::from(topic.name.as_str())).collect::<Vec<_>>()
        });
        let result = |topic| ReplicaElectionResult { topic, ..Default::default() };
        let replica_election_results = names.await?.into_iter().map(result).collect();
        return Ok(ElectLeadersResponse { replica_election_results, ..Default::default() });
    };
    let named = topics.iter().flat_map(|topic| topic.partitions.iter().map(|at| (topic.topic.clone(), at)));
    let mut found = partition_lookup::find(ctx, named.collect()).await?.into_iter();
    let results = topics.iter().map(|topic| ReplicaElectionResult {
        topic: topic.topic.clone(),
        partition_result: topic
            .partitions
            .iter()
            .map(|at| result(at, found.next().flatten().is_some()))
            .collect(),
        ..Default::default()
    });
    Ok(ElectLeadersResponse { replica_election_results: results.collect(), ..Default::default() })
}

fn result(partition_id: i32, is_known: bool) -> PartitionResult {
    let (code, why) = if is_known {
        (ErrorCode::ELECTION_NOT_NEEDED, "the preferred replica leads the partition already")
    } else {
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")
    };
    let error_message = Some(Text::from_static(why));
    PartitionResult { partition_id, error_code: code.0, error_message, ..Default::default() }
}

/// The same error at the top and on each partition.
fn all(request: &ElectLeadersRequest, code: ErrorCode, why: &str) -> ElectLeadersResponse {
    let results = request.topic_partitions.iter().flatten().map(|topic| {
        let partition = |partition_id| PartitionResult {
            partition_id,
            error_code: code.0,
            error_message: Some(Text::from(why)),
            ..Default::default()
        };
        ReplicaElectionResult {
            topic: topic.topic.clone(),
            partition_result: topic.partitions.iter().map(partition).collect(),
            ..Default::default()
        }
    });
    ElectLeadersResponse {
        error_code: code.0,
        replica_election_results: results.collect(),
        ..Default::default()
    }
}
