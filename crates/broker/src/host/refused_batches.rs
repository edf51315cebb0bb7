//! Batches that were refused for lack of room, of producers that their partition does not know.
//!
//! A partition accepts any first sequence number from a producer that it does not know (T-46). Idempotent producers
//! send up to five batches before the first answer arrives. If the first batch were refused for lack of room and the
//! second accepted, the second would begin the sequence: the first could never be sent again, and its records would be
//! lost or out of order. So the refused sequence number is kept for a while, and later batches of the same producer are
//! refused with the same retriable error until it is sent again.

use ottla_core::Shard;
use ottla_core::catalog::TopicRef;
use ottla_core::partitions::{Produce, ProduceBatch};
use ottla_types::{Millis, ProducerEpoch, ProducerId, TopicPartition};
use std::collections::BTreeMap;

/// How long a refused batch is expected again: the default of the Java producer's `delivery.timeout.ms`.
const KEPT: Millis = Millis(120_000);
/// How many are kept. Beyond that, batches are judged as if none had been refused.
const MOST: usize = 10_000;

/// The least time between two searches for batches that are no longer expected, when there are too many.
const PURGE_INTERVAL: Millis = Millis(1000);

/// A producer at a partition.
type Key = (TopicPartition, ProducerId);

#[derive(Clone, Copy, Debug)]
struct RefusedBatch {
    epoch: ProducerEpoch,
    base_sequence: i32,
    at: Millis,
}

/// The lowest refused sequence number of each producer at each partition.
#[derive(Debug, Default)]
pub(super) struct RefusedBatches {
    first: BTreeMap<Key, RefusedBatch>,
    purged_at: Millis,
}

impl RefusedBatches {
    /// Whether the request has a batch that an earlier, refused batch of its producer must precede. Batches that are
    /// accepted now are no longer expected.
    pub(super) fn hold_back(&mut self, now: Millis, shard: &Shard, produce: &Produce) -> bool {
        if self.first.is_empty() {
            return false;
        }
        let batches = || produce.batches.iter().filter_map(|batch| Some((key(shard, batch)?, batch)));
        let held_back = batches().any(|(key, batch)| {
            self.first.get(&key).is_some_and(|refused| {
                now.since(refused.at) < KEPT
                    && refused.epoch == batch.summary.producer_epoch
                    && refused.base_sequence < batch.summary.base_sequence
            })
        });
        if !held_back {
            batches().for_each(|(key, _)| _ = self.first.remove(&key));
        }
        held_back
    }

    /// Notes the batches of a request that is refused.
    pub(super) fn note(&mut self, now: Millis, shard: &Shard, produce: &Produce) {
        for batch in &produce.batches {
            let Some(key) = key(shard, batch) else { continue };
            let (at, id) = key;
            if shard.partitions().get(at).is_some_and(|partition| partition.producer(id).is_some()) {
                continue;
            }
            let refused = RefusedBatch {
                epoch: batch.summary.producer_epoch,
                base_sequence: batch.summary.base_sequence,
                at: now,
            };
            let earlier = self.first.get(&key).filter(|earlier| {
                now.since(earlier.at) < KEPT
                    && earlier.epoch == refused.epoch
                    && earlier.base_sequence <= refused.base_sequence
            });
            let base_sequence = earlier.map_or(refused.base_sequence, |earlier| earlier.base_sequence);
            self.make_room(now);
            if self.first.len() < MOST || self.first.contains_key(&key) {
                self.first.insert(key, RefusedBatch { base_sequence, ..refused });
            }
        }
    }

    fn make_room(&mut self, now: Millis) {
        if self.first.len() >= MOST && now.since(self.purged_at) >= PURGE_INTERVAL {
            self.purged_at = now;
            self.first.retain(|_, refused| now.since(refused.at) < KEPT);
        }
    }
}

/// None without a producer id, or if the topic does not exist.
fn key(shard: &Shard, batch: &ProduceBatch) -> Option<Key> {
    let id = batch.summary.producer_id;
    let topic = match &batch.topic {
        TopicRef::Id(topic) => *topic,
        TopicRef::Name(name) => shard.catalog().topic_named(name)?.id,
    };
    id.is_some().then_some((TopicPartition { topic, partition: batch.partition }, id))
}
