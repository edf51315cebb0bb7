//! Admission of Produce requests: each is accepted, muted, queued or refused, by the room in the tail and on the disk.

use super::machine::Machine;
use super::rewrite::RewriteConditions;
use super::space::DiskPressure;
use super::submission::{Pending, ProduceSubmission};
use super::tail::Tail;
use super::waiting::Waiter;
use super::{NoRoom, reach};
use crate::trace::Stage;
use ottla_core::partitions::{PartitionCommand, Produce, ProduceBatch};
use ottla_core::{Command, Input, Ticket};
use ottla_store::SpaceLevel;
use ottla_types::Millis;

/// Bytes of a batch's record in addition to the batch, and of the records that its transaction may add, rounded up.
const BESIDE_BATCH: u64 = 512;
/// Bytes of a group in addition to its records, rounded up.
const BESIDE_GROUP: u64 = 8192;

impl Machine {
    /// Puts a Produce to the core, lets it wait for room in the tail, or refuses it.
    pub(super) fn produce(&mut self, now: Millis, submission: Box<ProduceSubmission>) {
        let waiter = Waiter { brings: brings(&submission.produce), submission };
        if self.waiting.is_empty() && self.has_room(waiter.brings) {
            self.let_in(now, waiter);
        } else if self.rewriter.is_stuck() {
            self.refuse(now, waiter);
        } else {
            self.metrics.waited.add(1);
            // What is too much for the queue is refused: the client tries again.
            self.waiting.push(waiter).into_iter().for_each(|waiter| self.refuse(now, waiter));
        }
    }

    /// Admits the requests that waited, as far as there is room now. No request waits for a rewriter that fails.
    pub(super) fn admit(&mut self, now: Millis) {
        while !self.failed {
            let tail = self.rewriter.tail(&self.shard, &self.log);
            let (bound, stuck) = (self.rewriter.bound, self.rewriter.is_stuck());
            let Some(waiter) = self.waiting.pop_if(|brings| stuck || bound.takes(tail, in_log(brings)))
            else {
                return;
            };
            if bound.takes(tail, in_log(waiter.brings)) {
                self.let_in(now, waiter);
            } else {
                self.refuse(now, waiter);
            }
        }
    }

    /// Continues rewriting.
    pub(super) fn rewrite(&mut self, now: Millis) {
        if self.failed {
            return;
        }
        if let Some(parts) = self.rewriter.installs() {
            self.step(now, Input::Partitions(PartitionCommand::InstallParts(parts)));
            if let Some((bytes, took)) = self.rewriter.installed(now) {
                self.throttle.managed(bytes, took);
            }
        }
        let (durable, waiting) = (self.durable, !self.waiting.is_empty());
        let seen = RewriteConditions { durable, waiting, rung: self.space.rung(now) };
        self.rewriter.consider(now, &self.shard, &self.log, seen);
        self.housekeeping.pin(self.rewriter.reads());
        self.admit(now);
    }

    fn has_room(&self, brings: Tail) -> bool {
        self.rewriter.bound.takes(self.rewriter.tail(&self.shard, &self.log), in_log(brings))
    }

    fn let_in(&mut self, now: Millis, waiter: Waiter) {
        let full = self.space.rung(now) == DiskPressure::Full;
        if full || self.log.space_for(waiter.brings.bytes) == SpaceLevel::Full {
            return self.refuse(now, waiter);
        }
        if self.refused_batches.hold_back(now, &self.shard, &waiter.submission.produce) {
            return self.refuse(now, waiter);
        }
        let Waiter { submission, brings } = waiter;
        let level = self.rewriter.bound.level(self.rewriter.tail(&self.shard, &self.log));
        let mute = self.throttle.mute(now, level, brings.bytes);
        if mute > Millis(0) {
            self.metrics.throttled.add(1);
        }
        let ProduceSubmission { produce, caller, traced } = *submission;
        let ticket = Ticket::new(self.ticket());
        self.submit(
            now,
            produce.into_input(ticket),
            (ticket.id(), Pending::Produce(ticket, caller, mute), traced),
        );
    }

    fn refuse(&mut self, now: Millis, waiter: Waiter) {
        reach(&waiter.submission.traced, Stage::Judged);
        self.refused_batches.note(now, &self.shard, &waiter.submission.produce);
        // A caller that is gone needs no reply.
        let _ = waiter.submission.caller.send(Err(NoRoom));
    }
}

/// What a Produce adds to the tail.
fn brings(produce: &Produce) -> Tail {
    let size = |batch: &ProduceBatch| batch.payload.len() as u64 + BESIDE_BATCH;
    Tail { bytes: produce.batches.iter().map(size).sum(), batches: produce.batches.len() as u64 }
}

/// The most that it takes of the log: a record that does not fit into the rest of a segment leaves that rest empty.
fn in_log(brings: Tail) -> Tail {
    let bytes = brings.bytes.saturating_mul(2).saturating_add(BESIDE_GROUP);
    Tail { bytes, ..brings }
}
