//! Which partitions the next passes look at, and what they have to know of them.

use super::{Cleanable, Stretch, cleanable};
use crate::catalog::{Catalog, Topic};
use crate::partitions::{Install, PartLimits, Partition, Partitions, RetentionClass, size};
use ottla_types::record::{AbortedTransaction, ProducerState, RunPart, StoredBatch};
use ottla_types::{Millis, Offset, TopicPartition};
use std::collections::BTreeSet;

/// Bytes after which no further partition joins a plan.
const ENOUGH_BYTES: u64 = 256 << 20;
/// The most batches of the log in a plan.
const MOST_BATCHES: usize = 1 << 18;

/// A partition that is due, as a pass needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Compactable {
    /// The class of its new run.
    pub class: RetentionClass,
    /// The partition.
    pub partition: TopicPartition,
    /// Where its new parts end.
    pub cut: PartLimits,
    /// `delete.retention.ms`.
    pub delete_retention: Millis,
    /// The last offset of the partition.
    pub last: Offset,
    /// The first offset that no pass has seen.
    pub dirty: Offset,
    /// Its parts from the first one on.
    pub parts: Vec<RunPart>,
    /// What follows in the log.
    pub batches: Vec<StoredBatch>,
    /// What was aborted of that.
    pub aborted: Vec<AbortedTransaction>,
    /// Its producers.
    pub producers: Vec<ProducerState>,
}

impl Compactable {
    /// What is to be installed in place of the parts and batches up to and with the one that ends at `to`.
    pub fn install(&self, to: Offset, parts: Vec<RunPart>) -> Install {
        let in_runs = self.parts.iter().filter(|part| part.last_offset <= to);
        let in_log = self.batches.iter().filter(|batch| batch.last_offset <= to);
        let bytes = in_runs.map(|part| part.bytes).sum::<u64>() + in_log.map(bytes).sum::<u64>();
        Install { partition: self.partition, from: self.first(), to, bytes, parts }
    }

    /// The first offset of all of it.
    pub fn first(&self) -> Offset {
        let part = self.parts.first().map(|part| part.base_offset);
        part.or(self.batches.first().map(|batch| batch.base_offset)).unwrap_or(self.dirty)
    }

    /// The end of all of it.
    pub fn to(&self) -> Offset {
        let batch = self.batches.last().map(|batch| batch.last_offset);
        batch.or(self.parts.last().map(|part| part.last_offset)).unwrap_or(self.dirty)
    }
}

/// The partitions of compacted topics that are due, the dirtiest first, as many as one job takes; then by class and
/// partition. Those in `aside` are passed over.
pub(crate) fn plan(
    now: Millis,
    (catalog, partitions): (&Catalog, &Partitions),
    aside: &BTreeSet<TopicPartition>,
) -> Vec<Compactable> {
    let mut due = Vec::new();
    for topic in catalog.topics().filter(|topic| topic.settings.compact) {
        let places = (0..topic.partitions).map(|partition| TopicPartition { topic: topic.id, partition });
        for (at, partition) in places.filter_map(|at| Some((at, partitions.get(at)?))) {
            let found = partition.cleanable(now, topic).filter(|_| !aside.contains(&at));
            due.extend(found.map(|found| (found, topic, at, partition)));
        }
    }
    due.sort_by(|(one, ..), (other, ..)| other.ratio.total_cmp(&one.ratio));
    let (mut bytes, mut batches) = (0, 0);
    let mut plan = Vec::new();
    for (found, topic, at, partition) in due {
        if bytes >= ENOUGH_BYTES || batches >= MOST_BATCHES {
            break;
        }
        let one = compactable(&found, topic, (at, partition), MOST_BATCHES - batches);
        bytes += found.bytes;
        batches += one.batches.len();
        plan.push(one);
    }
    plan.sort_by_key(|one| (one.class, one.partition));
    plan
}

fn compactable(
    found: &Cleanable,
    topic: &Topic,
    (at, partition): (TopicPartition, &Partition),
    most: usize,
) -> Compactable {
    let inside = |last: Offset| last <= found.to;
    let parts = partition.parts().iter().take_while(|part| inside(part.last_offset)).copied().collect();
    let batches = partition.tail().take_while(|batch| inside(batch.last_offset)).take(most).collect();
    let cut = PartLimits::of(&topic.settings);
    Compactable {
        class: RetentionClass::of(&topic.settings),
        partition: at,
        cut: if topic.settings.delete { cut } else { PartLimits { span: Millis(i64::MAX), ..cut } },
        delete_retention: topic.settings.delete_retention,
        last: partition.next_offset().plus(-1),
        dirty: found.dirty,
        parts,
        batches,
        aborted: partition.aborted_between(found.from, found.to),
        producers: partition.producers().cloned().collect(),
    }
}

fn bytes(batch: &StoredBatch) -> u64 {
    u64::from(size(batch))
}

impl Partition {
    fn cleanable(&self, now: Millis, topic: &Topic) -> Option<Cleanable> {
        let newest = |latest: Millis, appended: Millis| if latest >= Millis(0) { latest } else { appended };
        let parts = self.parts().iter().map(|part| Stretch {
            base_offset: part.base_offset,
            last_offset: part.last_offset,
            bytes: part.bytes,
            newest: newest(part.max_timestamp, part.appended),
            clean: part.clean,
            horizon: part.horizon,
        });
        let batches = self.tail().map(|batch| Stretch {
            base_offset: batch.base_offset,
            last_offset: batch.last_offset,
            bytes: bytes(&batch),
            newest: newest(batch.max_timestamp, batch.appended),
            clean: false,
            horizon: Millis::NONE,
        });
        let stretches = parts.chain(batches);
        cleanable(now, &topic.settings.compaction, self.last_stable(), self.bytes(), stretches)
    }
}
