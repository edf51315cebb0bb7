//! AlterReplicaLogDirs 1-2: there is one data folder, where every partition is already.

use super::authorization::CLUSTER_DENIED;
use super::authorization::Verdict;
use super::{AnswerError, partition_lookup};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::messages::alter_replica_log_dirs_request::AlterReplicaLogDir;
use ottla_wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use ottla_wire::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse};
use ottla_wire::{ErrorCode, Text};
use std::collections::BTreeMap;
use std::path::Path;

/// S-338: ALTER on the cluster.
pub(crate) fn authorize(
    request: &mut AlterReplicaLogDirsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<AlterReplicaLogDirsResponse> {
    Verdict::when(rights.allows(Operation::Alter, Resource::Cluster), || {
        response(request.dirs.iter().flat_map(partitions).map(|at| (at, ErrorCode(CLUSTER_DENIED))))
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: AlterReplicaLogDirsRequest,
    _version: i16,
) -> Result<AlterReplicaLogDirsResponse, AnswerError> {
    let named: Vec<(Text, i32)> = request.dirs.iter().flat_map(partitions).collect();
    let mut found = partition_lookup::find(ctx, named).await?.into_iter();
    let mut judged = Vec::new();
    for dir in &request.dirs {
        let is_ours = is_data_folder(ctx, &dir.path);
        judged.extend(partitions(dir).map(|at| {
            let is_known = found.next().flatten().is_some();
            let code = match (is_ours, is_known) {
                (false, _) => ErrorCode::LOG_DIR_NOT_FOUND,
                (true, false) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                (true, true) => ErrorCode::NONE,
            };
            (at, code)
        }));
    }
    Ok(response(judged.into_iter()))
}

/// The partitions that are to move into one folder.
fn partitions(dir: &AlterReplicaLogDir) -> impl Iterator<Item = (Text, i32)> {
    dir.topics.iter().flat_map(|topic| topic.partitions.iter().map(|at| (topic.name.clone(), at)))
}

fn is_data_folder(ctx: &Context, path: &str) -> bool {
    let real = |path: &str| Path::new(path).canonicalize().ok();
    path == ctx.data_folder
        || (Path::new(path).is_absolute() && real(path) == real(&ctx.data_folder) && real(path).is_some())
}

fn response(rows: impl Iterator<Item = ((Text, i32), ErrorCode)>) -> AlterReplicaLogDirsResponse {
    let mut topics: BTreeMap<Text, Vec<AlterReplicaLogDirPartitionResult>> = BTreeMap::new();
    for ((topic, partition_index), code) in rows {
        topics.entry(topic).or_default().push(AlterReplicaLogDirPartitionResult {
            partition_index,
            error_code: code.0,
            ..Default::default()
        });
    }
    let result = |(topic_name, partitions)| AlterReplicaLogDirTopicResult {
        topic_name,
        partitions,
        ..Default::default()
    };
    AlterReplicaLogDirsResponse { results: topics.into_iter().map(result).collect(), ..Default::default() }
}
