//! What is done with runs that are there: holes for what is dead, new runs for what is half dead or too many.

use super::{Install, PartLimits, RetentionClass};
use crate::catalog::Catalog;
use crate::partitions::Partitions;
use ottla_types::record::RunPart;
use ottla_types::{Offset, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};

/// Dead ranges shorter than this stay: a hole costs the file system something too.
const LEAST_HOLE: u64 = 1 << 20;
/// Bytes of a directory page.
const PAGE: u64 = 4096;
/// Runs that are merged into one, at most.
const FAN_IN: usize = 16;

/// Where the last part of a run ends, by the run's number: what it had when it was written.
pub type RunEnds = BTreeMap<u64, u64>;

/// What may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunBounds {
    /// Runs are merged when there are more.
    pub runs: usize,
    /// Runs are merged when they have more parts together.
    pub parts: usize,
    /// Room on the medium is scarce: nothing is merged only to have fewer runs.
    pub scarce: bool,
}

/// A dead range of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hole {
    /// The run.
    pub run: u64,
    /// Where it begins in the file.
    pub from: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Parts of one partition that follow each other and are written again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeRange {
    /// The class of its new run.
    pub class: RetentionClass,
    /// The partition.
    pub partition: TopicPartition,
    /// Where its new parts end.
    pub cut: PartLimits,
    /// The first offset that can be read: whole batches below it are left out.
    pub start: Offset,
    /// The parts, by offset; never empty.
    pub parts: Vec<RunPart>,
}

impl MergeRange {
    /// What is to be installed in place of the parts.
    pub fn install(&self) -> Install {
        let from = self.parts.first().map_or(Offset(0), |part| part.base_offset);
        let to = self.parts.last().map_or(Offset(0), |part| part.last_offset);
        let bytes = self.parts.iter().map(|part| part.bytes).sum();
        Install { partition: self.partition, from, to, bytes, parts: Vec::new() }
    }
}

/// What is to be done with the runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunsPlan {
    /// Ranges of runs in which nothing lies that can be read, by run and place.
    pub holes: Vec<Hole>,
    /// Runs that are written again.
    pub inputs: BTreeSet<u64>,
    /// What of them is live, by class, topic id, partition and offset.
    pub ranges: Vec<MergeRange>,
}

/// What is live of a run.
#[derive(Default)]
struct Live {
    bytes: u64,
    parts: Vec<(TopicPartition, RunPart)>,
}

/// The partitions whose runs are planned, and the catalog that has their topics.
pub(crate) struct Planner<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) partitions: &'a Partitions,
}

impl Planner<'_> {
    /// See [`crate::Shard::plan_runs`].
    pub(crate) fn plan_runs(&self, ends: &RunEnds, bounds: RunBounds) -> RunsPlan {
        let mut live: BTreeMap<u64, Live> = BTreeMap::new();
        for (at, partition) in self.partitions.iter() {
            for part in partition.parts() {
                let run = live.entry(part.run).or_default();
                run.bytes += part.bytes + directory(part);
                run.parts.push((at, *part));
            }
        }
        let end = |run: &u64| ends.get(run).copied().unwrap_or(0);
        let half_dead: Vec<u64> =
            live.iter().filter(|(run, of)| of.bytes * 2 < end(run)).map(|(run, _)| *run).collect();
        let inputs = if half_dead.is_empty() && !bounds.scarce {
            self.too_many(&live, bounds)
        } else {
            self.of_one_class(&live, half_dead)
        };
        let holes = live.iter().flat_map(|(run, of)| holes(*run, of, end(run))).collect();
        let ranges = self.ranges(&inputs);
        RunsPlan { holes, inputs, ranges }
    }

    /// The class of most of a run: that of its first part, whatever the topics of the others were changed to since.
    fn class_of(&self, live: &Live) -> Option<RetentionClass> {
        let topics = live.parts.iter().filter_map(|(at, _)| self.catalog.topic(at.topic));
        topics.map(|topic| RetentionClass::of(&topic.settings)).next()
    }

    /// The first of these runs, and others of its class, as many as are merged at once.
    fn of_one_class(&self, live: &BTreeMap<u64, Live>, runs: Vec<u64>) -> BTreeSet<u64> {
        let class = |run: &u64| live.get(run).and_then(|of| self.class_of(of));
        let first = runs.first().and_then(class);
        runs.into_iter().filter(|run| class(run) == first).take(FAN_IN).collect()
    }

    /// The smallest runs of the class that has most, if there are too many.
    fn too_many(&self, live: &BTreeMap<u64, Live>, bounds: RunBounds) -> BTreeSet<u64> {
        let parts: usize = live.values().map(|of| of.parts.len()).sum();
        if live.len() <= bounds.runs && parts <= bounds.parts {
            return BTreeSet::new();
        }
        let mut classes: BTreeMap<_, Vec<(u64, u64)>> = BTreeMap::new();
        for (run, of) in live {
            classes.entry(self.class_of(of)).or_default().push((of.bytes, *run));
        }
        let mut runs = classes.into_values().max_by_key(Vec::len).unwrap_or_default();
        runs.sort_unstable();
        let chosen: BTreeSet<u64> = runs.into_iter().take(FAN_IN).map(|(_, run)| run).collect();
        let of_chosen = || live.iter().filter(|(run, _)| chosen.contains(run)).flat_map(|(_, of)| &of.parts);
        let partitions: BTreeSet<_> = of_chosen().map(|(at, _)| *at).collect();
        // Merging is to leave fewer parts too, or it would be tried without end.
        let worth =
            chosen.len() > 1 && (live.len() > bounds.runs || of_chosen().count() >= 2 * partitions.len());
        if worth { chosen } else { BTreeSet::new() }
    }

    /// What is live of these runs.
    fn ranges(&self, inputs: &BTreeSet<u64>) -> Vec<MergeRange> {
        let mut ranges = Vec::new();
        for (partition, state) in self.partitions.iter().filter(|_| !inputs.is_empty()) {
            let Some(topic) = self.catalog.topic(partition.topic) else { continue };
            let (class, cut) = (RetentionClass::of(&topic.settings), PartLimits::of(&topic.settings));
            let mut parts = Vec::new();
            let mut close = |parts: &mut Vec<RunPart>| {
                let parts = std::mem::take(parts);
                if !parts.is_empty() {
                    ranges.push(MergeRange { class, partition, cut, start: state.log_start(), parts });
                }
            };
            for part in state.parts() {
                if inputs.contains(&part.run) {
                    parts.push(*part);
                } else {
                    close(&mut parts);
                }
            }
            close(&mut parts);
        }
        ranges.sort_by_key(|range| (range.class, range.partition));
        ranges
    }
}

/// Bytes of a part's directory; one without pages takes less than a page.
fn directory(part: &RunPart) -> u64 {
    u64::from(part.pages.max(1)) * PAGE
}

/// The dead ranges of a run: before, between and behind what is live. What follows the last part is never dead.
fn holes(run: u64, live: &Live, end: u64) -> Vec<Hole> {
    let of = |part: &RunPart| (part.data, part.directory + directory(part));
    let mut used: Vec<(u64, u64)> = live.parts.iter().map(|(_, part)| of(part)).collect();
    used.push((end, end));
    used.sort_unstable();
    let mut holes = Vec::new();
    // The first page is the header's.
    let mut dead = PAGE;
    for (from, to) in used {
        // Whole pages only.
        let (first, last) = (dead.next_multiple_of(PAGE), from / PAGE * PAGE);
        if last.saturating_sub(first) >= LEAST_HOLE {
            holes.push(Hole { run, from: first, bytes: last - first });
        }
        dead = dead.max(to);
    }
    holes
}
