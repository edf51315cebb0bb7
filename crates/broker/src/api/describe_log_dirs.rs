//! DescribeLogDirs 1-5: the data folder, and the bytes of each partition's records in it.
//! Left out: cordoned folders. In memory there is no volume, and its bytes are -1.

use super::authorization::{CLUSTER_DENIED, Verdict};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::host::HostGone;
use crate::session::Session;
use ottla_core::Shard;
use ottla_types::TopicPartition;
use ottla_types::acl::Operation;
use ottla_wire::messages::describe_log_dirs_request::DescribableLogDirTopic;
use ottla_wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use ottla_wire::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes by topic name and partition.
type Sizes = BTreeMap<String, BTreeMap<i32, u64>>;

/// S-339: DESCRIBE on the cluster. Versions before 3 have no field for the error.
pub(crate) fn authorize(
    _request: &mut DescribeLogDirsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<DescribeLogDirsResponse> {
    Verdict::when(rights.allows(Operation::Describe, Resource::Cluster), || DescribeLogDirsResponse {
        error_code: CLUSTER_DENIED,
        ..Default::default()
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: DescribeLogDirsRequest,
    _version: i16,
) -> Result<DescribeLogDirsResponse, HostGone> {
    let sizes = ctx.shards.partitions().read(move |shard, _| sizes(shard, request.topics)).await?;
    let (total_bytes, usable_bytes) = volume(&ctx.data_folder);
    let folder = DescribeLogDirsResult {
        total_bytes,
        usable_bytes,
        log_dir: ctx.data_folder.as_str().into(),
        topics: sizes.into_iter().map(topic).collect(),
        ..Default::default()
    };
    Ok(DescribeLogDirsResponse { results: vec![folder], ..Default::default() })
}

/// The bytes of the volume of the data folder, and those of them that are free for this process.
fn volume(folder: &str) -> (i64, i64) {
    let Ok(volume) = rustix::fs::statvfs(folder) else { return (-1, -1) };
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(volume.f_frsize)).unwrap_or(i64::MAX);
    (bytes(volume.f_blocks), bytes(volume.f_bavail))
}

/// The sizes of the requested partitions that exist, or of all partitions.
fn sizes(shard: &Shard, asked: Option<Vec<DescribableLogDirTopic>>) -> Sizes {
    let mut sizes = Sizes::new();
    let mut add = |name: &str, partitions: BTreeSet<i32>| {
        let Some(topic) = shard.catalog().topic_named(name) else { return };
        for partition in partitions.into_iter().filter(|partition| topic.has(*partition)) {
            let at = TopicPartition { topic: topic.id, partition };
            let bytes = shard.partitions().get(at).map_or(0, |partition| partition.bytes());
            sizes.entry(name.to_owned()).or_default().insert(partition, bytes);
        }
    };
    match asked {
        Some(topics) => topics.iter().for_each(|topic| add(&topic.topic, topic.partitions.iter().collect())),
        None => shard
            .catalog()
            .topics_by_name()
            .for_each(|topic| add(&topic.name, (0..topic.partitions).collect())),
    }
    sizes
}

fn topic((name, partitions): (String, BTreeMap<i32, u64>)) -> DescribeLogDirsTopic {
    let partition = |(partition_index, bytes): (i32, u64)| DescribeLogDirsPartition {
        partition_index,
        partition_size: i64::try_from(bytes).unwrap_or(i64::MAX),
        ..Default::default()
    };
    DescribeLogDirsTopic {
        name: name.into(),
        partitions: partitions.into_iter().map(partition).collect(),
        ..Default::default()
    }
}
