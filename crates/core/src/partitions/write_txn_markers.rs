//! WriteTxnMarkers: an administrator ends a transaction at a partition (T-234).

use super::Partitions;
use super::command::{MarkerError, TxnMarker, WriteTxnMarkers, WriteTxnMarkersReply};
use crate::effect::Effects;
use crate::refusal::{Facts, Rejection};
use ottla_types::record::{Marker, MarkerAppended};
use ottla_types::{Millis, ProducerEpoch, ProducerId, TopicPartition};
use std::collections::BTreeMap;

/// The effect of a marker at one partition.
enum MarkerEffect {
    Append,
    /// It is a repetition: nothing to do (T-125).
    Done,
}

impl Partitions {
    pub(super) fn write_txn_markers(
        &self,
        now: Millis,
        ask: &WriteTxnMarkers,
        out: &mut Effects,
    ) -> WriteTxnMarkersReply {
        let mut written = PendingMarkers::default();
        let mut results = Vec::with_capacity(ask.markers.len());
        for asked in &ask.markers {
            let write = |at: &TopicPartition| self.write_marker(now, asked, *at, &mut written, out);
            results.push(asked.partitions.iter().map(write).collect());
        }
        results
    }

    fn write_marker(
        &self,
        now: Millis,
        asked: &TxnMarker,
        at: TopicPartition,
        written: &mut PendingMarkers,
        out: &mut Effects,
    ) -> Result<(), Rejection<MarkerError>> {
        let unknown = || Rejection::by("T-123", MarkerError::UnknownPartition, Facts::None);
        let partition = self.get(at).ok_or_else(unknown)?;
        let before = match written.producers.get(&(at, asked.producer_id)) {
            Some(marker) => Some((marker.producer_epoch, marker.coordinator_epoch, false)),
            None => partition
                .producer(asked.producer_id)
                .map(|known| (known.epoch, known.coordinator_epoch, known.transaction_start.is_some())),
        };
        if let Some((epoch, coordinator_epoch, open)) = before
            && let MarkerEffect::Done = judge(asked, epoch, coordinator_epoch, open)?
        {
            return Ok(());
        }
        let marker = Marker {
            commit: asked.commit,
            producer_id: asked.producer_id,
            producer_epoch: asked.producer_epoch,
            coordinator_epoch: asked.coordinator_epoch,
            at: now,
        };
        let count = written.counts.entry(at).or_default();
        let offset = partition.next_offset().plus(*count);
        *count += 1;
        written.producers.insert((at, asked.producer_id), marker);
        out.append(MarkerAppended { partition: at, marker, offset });
        Ok(())
    }
}

/// The markers of one step: none of them is applied yet.
#[derive(Default)]
struct PendingMarkers {
    counts: BTreeMap<TopicPartition, i64>,
    producers: BTreeMap<(TopicPartition, ProducerId), Marker>,
}

/// Judges a marker against what the partition knows of its producer (T-125, T-126).
fn judge(
    asked: &TxnMarker,
    epoch: ProducerEpoch,
    coordinator_epoch: i32,
    open: bool,
) -> Result<MarkerEffect, Rejection<MarkerError>> {
    let stale = || {
        let facts =
            Facts::Epochs { producer_id: asked.producer_id, given: asked.producer_epoch, current: epoch };
        Err(Rejection::by("T-125", MarkerError::StaleEpoch, facts))
    };
    if asked.producer_epoch < epoch {
        return stale();
    }
    let again = asked.bumped && asked.producer_epoch == epoch && epoch != ProducerEpoch(i16::MAX);
    if again && open {
        return stale();
    }
    if asked.coordinator_epoch < coordinator_epoch {
        let facts = Facts::Coordinator { given: asked.coordinator_epoch, current: coordinator_epoch };
        return Err(Rejection::by("T-126", MarkerError::CoordinatorFenced, facts));
    }
    Ok(if again { MarkerEffect::Done } else { MarkerEffect::Append })
}
