//! LRU order of non-transactional producers, for eviction above `ottla.producers.max`.

use ottla_types::record::ProducerState;
use ottla_types::{Millis, ProducerId, TopicPartition};
use std::collections::BTreeSet;
use std::ops::Bound;

/// Entries that one search looks at, at most.
const LOOKS: usize = 4096;

/// Producers by the time of their last use as it was when it was last looked at: an append costs nothing here. Entries
/// of producers that were forgotten meanwhile stay until a search meets them.
#[derive(Debug, Default)]
pub(super) struct ProducerLru {
    order: BTreeSet<(Millis, TopicPartition, ProducerId)>,
}

impl ProducerLru {
    /// At least the number of producers that may be forgotten.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// A partition has a new producer.
    pub(super) fn note(&mut self, at: TopicPartition, state: &ProducerState) {
        if is_dispensable(state) {
            self.order.insert((state.last_append, at, state.producer_id));
        }
    }

    /// A partition forgets a producer.
    pub(super) fn drop(&mut self, at: TopicPartition, state: &ProducerState) {
        self.order.remove(&(state.last_append, at, state.producer_id));
    }

    /// The least recently used, `most` at most, so that no more than `leave` are left.
    pub(super) fn least<'a>(
        &mut self,
        leave: usize,
        most: usize,
        known: impl Fn(TopicPartition, ProducerId) -> Option<&'a ProducerState>,
    ) -> Vec<(TopicPartition, ProducerId)> {
        let mut found = Vec::new();
        let mut from = Bound::Unbounded;
        for _ in 0..LOOKS {
            if found.len() >= most || self.order.len() - found.len() <= leave {
                break;
            }
            let Some(entry) = self.order.range((from, Bound::Unbounded)).next().copied() else { break };
            let (noted, at, producer) = entry;
            match known(at, producer).filter(|state| is_dispensable(state)) {
                Some(state) if state.last_append == noted => {
                    found.push((at, producer));
                    from = Bound::Excluded(entry);
                }
                used => {
                    self.order.remove(&entry);
                    self.order.extend(used.map(|state| (state.last_append, at, producer)));
                }
            }
        }
        found
    }
}

/// Whether only the recognition of its last batches is lost with it: it never took part in a transaction.
fn is_dispensable(state: &ProducerState) -> bool {
    state.transaction_start.is_none() && state.coordinator_epoch < 0
}
