//! WriteTxnMarkers 1-2: ends a transaction on partitions for an administrator (T-120 to T-131, T-234). Left out:
//! markers for the offsets topic. Its partitions do not exist as partitions, and a transaction and its offsets end in
//! one record, so none can hang there.

use super::authorization::{CLUSTER_DENIED, Verdict};
use super::partition_lookup;
use super::subject::{Partition, Reason};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::partitions::{MarkerError, TxnMarker, WriteTxnMarkers};
use ottla_core::{Facts, Rejection};
use ottla_types::acl::Operation;
use ottla_types::{ProducerEpoch, ProducerId, TopicPartition};
use ottla_wire::messages::write_txn_markers_request::WritableTxnMarker;
use ottla_wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use ottla_wire::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use ottla_wire::{ErrorCode, Text, Uuid};

/// S-332: ALTER or CLUSTER_ACTION on the cluster.
pub(crate) fn authorize(
    request: &mut WriteTxnMarkersRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<WriteTxnMarkersResponse> {
    let allowed = rights.probes(Operation::Alter, Resource::Cluster)
        || rights.allows(Operation::ClusterAction, Resource::Cluster);
    Verdict::when(allowed, || {
        let mut codes = std::iter::repeat(ErrorCode(CLUSTER_DENIED));
        let marker = |marker: &WritableTxnMarker| WritableTxnMarkerResult {
            producer_id: marker.producer_id,
            topics: topics(marker, &mut codes),
            ..Default::default()
        };
        let markers = request.markers.iter().map(marker).collect();
        WriteTxnMarkersResponse { markers, ..Default::default() }
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: WriteTxnMarkersRequest,
    _version: i16,
) -> Result<WriteTxnMarkersResponse, super::AnswerError> {
    let asked: Vec<(Text, i32)> = request.markers.iter().flat_map(named).collect();
    let without_producer: Vec<bool> =
        request.markers.iter().flat_map(|m| named(m).map(|_| has_no_producer(m))).collect();
    let mut found = partition_lookup::find(ctx, asked.clone()).await?;
    for (place, _) in
        found.iter_mut().zip(&without_producer).filter(|(_, without_producer)| **without_producer)
    {
        *place = None;
    }
    let mut rest = found.iter();
    let markers: Vec<TxnMarker> = request.markers.iter().map(|marker| to_core(marker, &mut rest)).collect();
    let results = ctx.shards.partitions().submit(WriteTxnMarkers { markers }).await?;
    let mut written = results.into_iter().flatten();
    let places = found.iter().zip(&without_producer);
    let mut codes = places.zip(&asked).map(|((found, without_producer), (topic, partition))| {
        if *without_producer {
            let (code, why) = (ErrorCode::INVALID_REQUEST, "a marker needs a producer id and an epoch");
            ctx.refused(Partition(topic, Uuid::ZERO, *partition), code, &Reason(None, why));
            return code;
        }
        let unknown = || {
            let (error, facts) = (MarkerError::UnknownPartition, Facts::None);
            Err(Rejection { error, rule: Some("T-123"), facts })
        };
        let result = if found.is_some() { written.next().unwrap_or_else(unknown) } else { unknown() };
        let Err(refusal) = result else { return ErrorCode::NONE };
        let code = code(refusal.error);
        ctx.refused(Partition(topic, Uuid::ZERO, *partition), code, &refusal);
        code
    });
    let mut response = WriteTxnMarkersResponse::default();
    for marker in &request.markers {
        let topics = topics(marker, &mut codes);
        match response.markers.iter_mut().find(|known| known.producer_id == marker.producer_id) {
            Some(known) => merge(&mut known.topics, topics),
            None => response.markers.push(WritableTxnMarkerResult {
                producer_id: marker.producer_id,
                topics,
                ..Default::default()
            }),
        }
    }
    Ok(response)
}

/// Whether a marker has no producer id or no epoch.
fn has_no_producer(marker: &WritableTxnMarker) -> bool {
    marker.producer_id < 0 || marker.producer_epoch < 0
}

fn named(marker: &WritableTxnMarker) -> impl Iterator<Item = (Text, i32)> {
    let topics = marker.topics.iter();
    topics.flat_map(|topic| topic.partition_indexes.iter().map(|partition| (topic.name.clone(), partition)))
}

/// The marker as a command of the core. Takes the marker's partitions from the iterator.
fn to_core<'a>(
    marker: &WritableTxnMarker,
    found: &mut impl Iterator<Item = &'a Option<TopicPartition>>,
) -> TxnMarker {
    let count = named(marker).count();
    TxnMarker {
        producer_id: ProducerId(marker.producer_id),
        producer_epoch: ProducerEpoch(marker.producer_epoch),
        coordinator_epoch: marker.coordinator_epoch,
        commit: marker.transaction_result,
        bumped: marker.transaction_version >= 2,
        partitions: found.take(count).copied().flatten().collect(),
    }
}

fn topics(
    marker: &WritableTxnMarker,
    codes: &mut impl Iterator<Item = ErrorCode>,
) -> Vec<WritableTxnMarkerTopicResult> {
    let mut topics = Vec::with_capacity(marker.topics.len());
    for topic in &marker.topics {
        let partitions = topic.partition_indexes.iter().zip(codes.by_ref());
        let partitions = partitions.map(|(partition_index, code)| WritableTxnMarkerPartitionResult {
            partition_index,
            error_code: code.0,
            ..Default::default()
        });
        topics.push(WritableTxnMarkerTopicResult {
            name: topic.name.clone(),
            partitions: partitions.collect(),
            ..Default::default()
        });
    }
    topics
}

/// Merges the results of two markers of one producer (T-123). The later result of a partition counts.
fn merge(known: &mut Vec<WritableTxnMarkerTopicResult>, more: Vec<WritableTxnMarkerTopicResult>) {
    for topic in more {
        let Some(same) = known.iter_mut().find(|known| known.name == topic.name) else {
            known.push(topic);
            continue;
        };
        for partition in topic.partitions {
            same.partitions.retain(|known| known.partition_index != partition.partition_index);
            same.partitions.push(partition);
        }
    }
}

fn code(error: MarkerError) -> ErrorCode {
    match error {
        MarkerError::UnknownPartition => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        MarkerError::StaleEpoch => ErrorCode::INVALID_PRODUCER_EPOCH,
        MarkerError::CoordinatorFenced => ErrorCode::TRANSACTION_COORDINATOR_FENCED,
    }
}
