//! What is rewritten into runs, and what of that is taken in: plans as values, made from the partitions and nothing
//! else.
//!
//! ```text
//!   tail batches below a position ──▶ TailPlan ──▶ (the host writes runs) ──▶ InstallParts ──▶ PartsInstalled
//!   parts in runs ──▶ RunsPlan: punch dead ranges, rewrite what is half dead, merge what is many
//! ```
//!
//! A run holds partitions of one retention class, sorted by topic id, partition and offset, so that it expires as a
//! whole.

mod install;
mod merge;

pub use install::{Install, InstallParts};
pub(crate) use merge::Planner;
pub use merge::{Hole, MergeRange, RunBounds, RunEnds, RunsPlan};

use super::Partitions;
use crate::catalog::Catalog;
use crate::config::TopicSettings;
use ottla_types::record::{BatchPlace, StoredBatch};
use ottla_types::{LogPosition, Millis, Offset, TopicPartition};
use std::ops::Bound;

/// Partitions whose records die at about the same time share a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetentionClass {
    /// The last record of each key stays.
    pub compact: bool,
    /// The power of two at or below `retention.ms`; [`RetentionClass::FOR_EVER`] if time deletes nothing.
    pub lifetime: u8,
}

impl RetentionClass {
    /// The lifetime of what time does not delete.
    pub const FOR_EVER: u8 = 63;

    /// The class of a topic with these settings.
    pub fn of(settings: &TopicSettings) -> RetentionClass {
        let kept = settings.retention.filter(|_| settings.delete);
        let power = |kept: Millis| kept.0.max(1).ilog2() as u8;
        RetentionClass { compact: settings.compact, lifetime: kept.map_or(Self::FOR_EVER, power) }
    }
}

/// Where parts of a partition end: what `segment.bytes` and `segment.ms` say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLimits {
    /// Bytes that a part has at most, but for one batch that is larger.
    pub bytes: u64,
    /// How far timestamps in a part lie behind those of its first batch, at most.
    pub span: Millis,
}

impl PartLimits {
    /// The cut of a topic with these settings.
    pub fn of(settings: &TopicSettings) -> PartLimits {
        PartLimits { bytes: settings.compaction.segment_bytes, span: settings.compaction.segment_ms }
    }
}

/// The batches of one partition that go into a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailRange {
    /// The class of its run.
    pub class: RetentionClass,
    /// The partition.
    pub partition: TopicPartition,
    /// Where its parts end.
    pub cut: PartLimits,
    /// The batches and markers, by offset; never empty.
    pub batches: Vec<StoredBatch>,
}

impl TailRange {
    /// Bytes of the batches as clients see them.
    pub fn bytes(&self) -> u64 {
        self.batches.iter().map(|batch| u64::from(super::batch_size::size(batch))).sum()
    }

    /// What is to be installed in place of the batches.
    pub fn install(&self) -> Install {
        let from = self.batches.first().map_or(Offset(0), |batch| batch.base_offset);
        let to = self.batches.last().map_or(Offset(0), |batch| batch.last_offset);
        Install { partition: self.partition, from, to, bytes: self.bytes(), parts: Vec::new() }
    }
}

/// What goes from the log into runs. Made in pieces, so that many partitions do not hold up other
/// commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailPlan {
    /// Batches that end at or before this position are rewritten.
    pub below: LogPosition,
    /// By class, topic id and partition once the plan is complete.
    pub ranges: Vec<TailRange>,
    /// Batches and markers in it.
    pub batches: usize,
    most: usize,
    after: Option<TopicPartition>,
}

impl TailPlan {
    /// An empty plan for what ends at or before `below`, of about `most` batches: the last partition is taken whole.
    pub fn new(below: LogPosition, most: usize) -> TailPlan {
        TailPlan { below, ranges: Vec::new(), batches: 0, most, after: None }
    }
}

impl Partitions {
    /// See [`crate::Shard::plan_tail`].
    pub(crate) fn plan_tail(&self, catalog: &Catalog, plan: &mut TailPlan, partitions: usize) -> bool {
        const ENOUGH: usize = 4096;
        let before = plan.batches;
        let from = plan.after.map_or(Bound::Unbounded, Bound::Excluded);
        for (at, partition) in self.range((from, Bound::Unbounded)).take(partitions) {
            if plan.batches >= plan.most {
                break;
            }
            if plan.batches - before >= ENOUGH {
                return false;
            }
            plan.after = Some(at);
            let Some(topic) = catalog.topic(at.topic) else { continue };
            let below = partition.tail().take_while(|batch| ends_by(batch, plan.below));
            let batches: Vec<StoredBatch> = below.collect();
            if batches.is_empty() {
                continue;
            }
            plan.batches += batches.len();
            let (class, cut) = (RetentionClass::of(&topic.settings), PartLimits::of(&topic.settings));
            plan.ranges.push(TailRange { class, partition: at, cut, batches });
        }
        let rest = plan.after.map_or(Bound::Unbounded, Bound::Excluded);
        let complete = plan.batches >= plan.most || self.range((rest, Bound::Unbounded)).next().is_none();
        if complete {
            plan.ranges.sort_by_key(|range| (range.class, range.partition));
        }
        complete
    }
}

/// Markers lie nowhere: they go with the batches before them.
fn ends_by(batch: &StoredBatch, below: LogPosition) -> bool {
    match batch.place {
        BatchPlace::Log { position, size } => position.0.saturating_add(u64::from(size)) <= below.0,
        BatchPlace::Marker(_) => true,
    }
}
