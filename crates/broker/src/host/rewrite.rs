//! Rewriting: the tail of the log goes into runs, small runs into larger ones, and what is dead leaves the disk.
//!
//! ```text
//!   idle ──something is due──▶ planning ──▶ writing, on a thread of its own ──▶ installing, in pieces ──▶ idle
//!    ▲                            │ nothing to do      │ failed: nothing is left behind, a pause
//!    └────────────────────────────┴────────────────────┘
//! ```
//!
//! One job runs at a time. What it reads is pinned meanwhile: its segments are not freed, and runs are removed only
//! between jobs. Partitions take over a run when it is durable; what it replaces is released when the record that says
//! so is.

mod compact;
mod error;
mod job;
mod merge;
mod pace;
mod tail;
mod task;

pub(super) use error::JobError;
pub(super) use job::JobResult;

use super::Message;
use super::mailbox::Mailbox;
use super::space::DiskPressure;
use super::tail::{Tail, TailBound};
use crate::Metrics;
use compact::Compaction;
use job::Job;
use ottla_core::Shard;
use ottla_core::config::Settings;
use ottla_core::partitions::{Hole, Install, InstallParts, RunBounds, RunEnds, RunsPlan, TailPlan};
use ottla_store::{Log, LogReader, OpenError, Runs};
use ottla_types::record::{CatalogRecord, LogRecord, PartitionRecord};
use ottla_types::{LogPosition, Millis, TopicPartition};
use pace::Pace;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;
use task::Task;

/// Partitions that a turn looks at for a plan, and that it installs parts in.
const PARTITIONS: usize = 512;
const INSTALLS: usize = 64;
/// How long a failed job is not tried again.
const PAUSE: Millis = Millis(5000);
/// How often the runs are looked at.
const LOOK: Millis = Millis(1000);
/// How often in a row a compaction gives way to the tail: then it is its turn.
const PATIENCE: u32 = 3;
/// Segments that the bound on the tail holds at least: one that is filled, one that is rewritten, one between them.
const LEAST_SEGMENTS: u64 = 3;
/// Runs are merged when they have more parts: each takes memory.
const MOST_PARTS: usize = 250_000;

/// The writing of runs.
type Work = Box<dyn FnOnce() + Send>;

/// What is going on.
enum State {
    Idle,
    Planning(TailPlan),
    Writing(Busy),
    Installing(Busy, VecDeque<Install>),
}

/// A job under way.
struct Busy {
    since: Millis,
    /// What it reads of the log.
    reads: Range<LogPosition>,
    /// Bytes it has written.
    bytes: u64,
    tail: bool,
    /// How many partitions it compacts.
    compacts: u64,
}

/// What the machine sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct RewriteConditions {
    /// Everything before it is durable.
    pub(super) durable: LogPosition,
    /// A Produce waits for room in the tail.
    pub(super) waiting: bool,
    pub(super) rung: DiskPressure,
}

/// Decides what is rewritten when.
pub(super) struct Rewriter {
    pub(super) bound: TailBound,
    bounds: RunBounds,
    /// Memory to sort in, in bytes.
    buffer: u64,
    runs: Runs,
    reader: LogReader,
    state: State,
    /// Where the last part of each run ends; of those that were there at the start it is read first.
    ends: RunEnds,
    unknown: Vec<u64>,
    /// Dead ranges that were given back already.
    punched: BTreeSet<Hole>,
    /// Runs may have lost parts since they were last looked at.
    changed: bool,
    /// The runs are not looked at before.
    look_at: Millis,
    /// Whether something is to be compacted is not asked before.
    compact_at: Millis,
    /// Partitions that cannot be compacted.
    aside: BTreeSet<TopicPartition>,
    /// How often in a row a compaction ended early because the tail was too full.
    gave_way: u32,
    /// After a failure nothing is begun before.
    again_at: Option<Millis>,
    /// The last job that ended has failed.
    failed: bool,
    /// Ranges that were taken in since the last job began.
    taken: u64,
    pace: Pace,
    metrics: Arc<Metrics>,
    commands: Mailbox,
    threads: bool,
    work: Option<Work>,
    thread: Option<JoinHandle<()>>,
}

impl Rewriter {
    /// Runs that nothing refers to are removed.
    ///
    /// # Errors
    /// A run that is referred to is missing or damaged.
    pub(super) fn new(
        shard: &Shard,
        log: &Log,
        metrics: Arc<Metrics>,
        commands: Mailbox,
        threads: bool,
    ) -> Result<Rewriter, OpenError> {
        let runs = log.runs();
        let used: BTreeSet<u64> = shard.partitions().runs().map(|(run, _)| run).collect();
        let removed = runs.settle(&used)?;
        if !removed.is_empty() {
            tracing::info!(
                runs = removed.len(),
                "removed runs that were written but not installed, or released"
            );
        }
        let settings = shard.catalog().settings();
        Ok(Rewriter {
            bound: bound_of(settings, log.segment_size()),
            bounds: RunBounds { runs: settings.runs_max, parts: MOST_PARTS, scarce: false },
            buffer: settings.rewrite_buffer,
            unknown: used.into_iter().collect(),
            reader: log.reader(),
            state: State::Idle,
            ends: BTreeMap::new(),
            punched: BTreeSet::new(),
            changed: true,
            look_at: Millis(0),
            compact_at: Millis(0),
            aside: BTreeSet::new(),
            gave_way: 0,
            again_at: None,
            failed: false,
            taken: 0,
            pace: Pace::new(log.reader(), threads),
            runs,
            metrics,
            commands,
            threads,
            work: None,
            thread: None,
        })
    }

    /// What the tail holds.
    pub(super) fn tail(&self, shard: &Shard, log: &Log) -> Tail {
        let partitions = shard.partitions();
        let end = log.end().0;
        let bytes = partitions.oldest_live().map_or(0, |oldest| end.saturating_sub(oldest.0));
        Tail { bytes, batches: partitions.tail_entries() }
    }

    /// Takes note of a record: whether runs may lose parts by it.
    pub(super) fn applied(&mut self, record: &LogRecord) {
        self.taken += u64::from(matches!(record, LogRecord::Partitions(PartitionRecord::PartsInstalled(_))));
        self.changed |= matches!(
            record,
            LogRecord::Catalog(CatalogRecord::TopicDeleted(_))
                | LogRecord::Partitions(PartitionRecord::LogStartMoved(_))
                | LogRecord::Partitions(PartitionRecord::PartsInstalled(_))
        );
    }

    /// The last job failed: there is no telling when the tail will have room.
    pub(super) fn is_stuck(&self) -> bool {
        self.failed
    }

    /// The log that a job reads: it must not be freed.
    pub(super) fn reads(&self) -> Range<LogPosition> {
        match &self.state {
            State::Idle => LogPosition(0)..LogPosition(0),
            State::Planning(plan) => LogPosition(0)..plan.below,
            State::Writing(busy) | State::Installing(busy, _) => busy.reads.clone(),
        }
    }

    /// When [`Rewriter::consider`] should be asked even if nothing else happens.
    pub(super) fn deadline(&self) -> Option<Millis> {
        match &self.state {
            State::Idle => {
                let looks = self.changed.then_some(self.look_at);
                self.again_at.or_else(|| [looks, Some(self.compact_at)].into_iter().flatten().min())
            }
            _ => None,
        }
    }

    /// Continues the current job, or begins one that is due.
    pub(super) fn consider(&mut self, now: Millis, shard: &Shard, log: &Log, seen: RewriteConditions) {
        let tail = self.tail(shard, log);
        self.pace.set_hurried(self.bound.level(tail) > 750);
        self.metrics.tail_bytes.set(tail.bytes);
        self.metrics.tail_batches.set(tail.batches);
        match &mut self.state {
            State::Planning(plan) => {
                if shard.plan_tail(plan, PARTITIONS) {
                    self.write_tail(now);
                } else {
                    self.go_on();
                }
            }
            State::Idle if self.again_at.is_some_and(|again| now < again) => {}
            State::Idle => {
                self.again_at = None;
                self.begin(now, shard, log, seen);
            }
            State::Writing(_) | State::Installing(..) => {}
        }
    }

    fn begin(&mut self, now: Millis, shard: &Shard, log: &Log, seen: RewriteConditions) {
        let tail = self.tail(shard, log);
        if let Some(below) = self.due(shard, log, tail, seen) {
            let most = usize::try_from(self.bound.batches / 4).unwrap_or(usize::MAX);
            self.state = State::Planning(TailPlan::new(below, most.max(1)));
            self.consider(now, shard, log, seen);
        } else if !self.unknown.is_empty() {
            let unknown = std::mem::take(&mut self.unknown);
            self.start(now, LogPosition(0)..LogPosition(0), Task::Survey(unknown));
        } else if self.changed && self.look_at <= now {
            self.changed = false;
            self.look_at = now.after(LOOK);
            self.look_at_runs(now, shard, seen.rung);
        }
        if matches!(self.state, State::Idle) && self.compact_at <= now {
            self.begin_compaction(now, shard, seen.durable);
        }
    }

    /// Begins to compact what is due; if nothing is, looks again after a while.
    fn begin_compaction(&mut self, now: Millis, shard: &Shard, durable: LogPosition) {
        let settings = shard.catalog().settings();
        // Unless all of it is taken in, there is no hurry to try again.
        self.compact_at = now.after(settings.cleaner_backoff);
        let plan = shard.plan_compaction(now, &self.aside);
        if plan.is_empty() {
            return;
        }
        let gives_way = self.gave_way < PATIENCE;
        let work = Compaction { plan, now: shard.wall(now), memory: settings.cleaner_buffer, gives_way };
        self.start(now, LogPosition(0)..durable, Task::Compact(work));
    }

    /// Up to where the tail is to be rewritten, if more than half of what is allowed lies in whole segments, or in
    /// batches, or if a waiting Produce adds more than the rest.
    fn due(&self, shard: &Shard, log: &Log, tail: Tail, seen: RewriteConditions) -> Option<LogPosition> {
        let durable = seen.durable;
        let oldest = shard.partitions().oldest_live()?;
        let size = log.segment_size();
        let start = log.segment_of(oldest).saturating_mul(size);
        let sealed = log.segment_of(durable).saturating_mul(size);
        if sealed.saturating_sub(start) > self.bound.bytes / 2 {
            let enough = start.saturating_add(self.buffer.saturating_mul(2)).next_multiple_of(size);
            return Some(LogPosition(enough.max(start + size).min(sealed)));
        }
        let wanted = tail.batches > self.bound.batches / 2 || (seen.waiting && tail.batches > 0);
        wanted.then_some(durable)
    }

    fn write_tail(&mut self, now: Millis) {
        let State::Planning(plan) = std::mem::replace(&mut self.state, State::Idle) else { return };
        if plan.ranges.is_empty() {
            // Positions are rounded: what seems live is not.
            self.again_at = Some(now.after(PAUSE));
            return;
        }
        self.start(now, LogPosition(0)..plan.below, Task::Tail(plan));
    }

    /// Removes dead runs, gives dead ranges back, and begins to write runs again that are half dead or too many.
    fn look_at_runs(&mut self, now: Millis, shard: &Shard, rung: DiskPressure) {
        let partitions = shard.partitions();
        let dead: Vec<u64> = self.ends.keys().copied().filter(|run| partitions.run(*run).is_none()).collect();
        if !dead.is_empty() {
            tracing::debug!(runs = dead.len(), "runs hold nothing readable any more");
            self.runs.remove(&dead);
            self.ends.retain(|run, _| !dead.contains(run));
            self.punched.retain(|hole| !dead.contains(&hole.run));
        }
        self.metrics.runs.set(self.ends.len() as u64);
        if !self.is_worth_a_plan(shard) {
            return;
        }
        let bounds = RunBounds { scarce: rung > DiskPressure::Plenty, ..self.bounds };
        let RunsPlan { holes, inputs, ranges } = shard.plan_runs(&self.ends, bounds);
        for hole in holes {
            if self.punched.insert(hole) {
                self.runs.punch(hole.run, hole.from..hole.from + hole.bytes);
            }
        }
        if !ranges.is_empty() {
            tracing::info!(runs = inputs.len(), "writing runs again");
            self.changed = true;
            self.start(now, LogPosition(0)..LogPosition(0), Task::Merge(ranges));
        }
    }

    /// False if a plan for the runs would surely be empty: it looks at every part.
    fn is_worth_a_plan(&self, shard: &Shard) -> bool {
        let (mut runs, mut parts, mut dead) = (0, 0, false);
        for (run, used) in shard.partitions().runs() {
            runs += 1;
            parts += used.parts;
            let end = self.ends.get(&run).copied().unwrap_or(0);
            dead |= end.saturating_sub(used.bytes) >= (1 << 20).min(end / 2);
        }
        dead || runs > self.bounds.runs || parts > self.bounds.parts as u64
    }

    /// Starts a job.
    fn start(&mut self, now: Millis, reads: Range<LogPosition>, task: Task) {
        self.again_at = None;
        let job = Job {
            runs: self.runs.clone(),
            reader: self.reader.clone(),
            buffer: self.buffer,
            pace: self.pace.begin(),
        };
        let tail = matches!(task, Task::Tail(_));
        let compacts = if let Task::Compact(work) = &task { work.plan.len() as u64 } else { 0 };
        let commands = self.commands.clone();
        let work = move || {
            let written = job.run(task);
            commands.report(Message::RunsWritten(written));
        };
        self.state = State::Writing(Busy { since: now, reads, bytes: 0, tail, compacts });
        if !self.threads {
            self.work = Some(Box::new(work));
            return;
        }
        match std::thread::Builder::new().name("ottla-rewrite".to_owned()).spawn(work) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => self.fail(now, &JobError::Thread(error)),
        }
    }

    /// Without threads: whether a job waits to be done.
    pub(super) fn has_work(&self) -> bool {
        self.work.is_some()
    }

    /// Without threads: does the job that waits.
    pub(super) fn work(&mut self) {
        if let Some(work) = self.work.take() {
            work();
        }
    }

    /// A job has ended.
    pub(super) fn written(&mut self, now: Millis, result: Result<JobResult, JobError>) {
        let State::Writing(mut busy) = std::mem::replace(&mut self.state, State::Idle) else { return };
        match result {
            Err(JobError::GaveWay) => self.gave_way += 1,
            Err(error) => self.fail(now, &error),
            Ok(JobResult { installs, ends, bytes, aside }) => {
                self.aside.extend(aside);
                self.failed = false;
                self.taken = 0;
                self.ends.extend(ends);
                self.metrics.rewritten.add(bytes);
                busy.bytes = bytes;
                self.state = State::Installing(busy, installs.into());
                self.go_on();
            }
        }
    }

    fn fail(&mut self, now: Millis, error: &JobError) {
        self.state = State::Idle;
        self.failed = true;
        self.again_at = Some(now.after(PAUSE));
        // What the job would have done is still to be done.
        self.changed = true;
        if !matches!(error, JobError::Stopped) {
            self.metrics.rewrites_failed.add(1);
            tracing::warn!(%error, "nothing was rewritten; it is tried again");
        }
    }

    /// The next parts to be taken in.
    pub(super) fn installs(&mut self) -> Option<InstallParts> {
        let State::Installing(_, left) = &mut self.state else { return None };
        let count = left.len().min(INSTALLS);
        Some(InstallParts { installs: left.drain(..count).collect() })
    }

    /// What [`Rewriter::installs`] gave was taken in. Tells what was managed in which time, once a tail job is done.
    pub(super) fn installed(&mut self, now: Millis) -> Option<(u64, Millis)> {
        let State::Installing(busy, left) = &self.state else { return None };
        self.go_on();
        if !left.is_empty() {
            return None;
        }
        let managed = busy.tail.then(|| (busy.bytes, now.since(busy.since)));
        if busy.compacts > 0 {
            self.gave_way = 0;
            if self.taken >= busy.compacts {
                self.compact_at = now;
            }
        }
        if busy.tail && self.taken == 0 {
            // It would be planned again at once.
            self.again_at = Some(now.after(PAUSE));
        }
        self.state = State::Idle;
        self.changed = true;
        managed
    }

    /// Sees to it that another turn follows.
    fn go_on(&self) {
        // A host that is gone goes nowhere.
        let _ = self.commands.send(Message::Continue);
    }

    /// Ends what is under way; it is begun anew at the next start.
    pub(super) fn stop(&mut self) {
        self.pace.stop();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn bound_of(settings: &Settings, segment: u64) -> TailBound {
    let bytes = settings.tail_max_bytes.max(segment.saturating_mul(LEAST_SEGMENTS));
    TailBound { bytes, batches: settings.tail_max_batches as u64 }
}
