//! The writer: seals groups in the order of the log and hands them to the store, as many at once as the store takes.
//! There is no timer: the records that arrive while the store is busy form the next group.

use super::state::OpenGroup;
use super::{InFlight, LogCore};
use crate::error::LogFailure;
use crate::group_store::{GroupObserver, SealedGroup};
use ottla_layout::{GROUP_HEADER, GroupHeader, seal_group};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The end of the chain of sealed groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupChain {
    /// Epoch of this opening of the log.
    pub(crate) epoch: u32,
    /// Sequence number of the last group.
    pub(crate) sequence: u64,
    /// Its checksum.
    pub(crate) checksum: u32,
    /// Whether the last group had entries.
    pub(crate) had_entries: bool,
}

impl LogCore {
    /// The body of the writer thread.
    pub(crate) fn write_until_stopped(self: &Arc<Self>) {
        while let Some(group) = self.wait_for_group() {
            self.submit(group);
        }
    }

    /// Without a writer thread: hands the next group to the store; returns whether there was one.
    pub(crate) fn write_pending(self: &Arc<Self>) -> bool {
        if !self.store_takes_more() {
            return false;
        }
        let Some(group) = self.lock().take_group(&*self.store) else {
            return false;
        };
        self.submit(group);
        true
    }

    fn wait_for_group(&self) -> Option<OpenGroup> {
        let mut state = self.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            if self.store_takes_more() {
                if let Some(group) = state.take_group(&*self.store) {
                    return Some(group);
                }
                if state.stop {
                    return None;
                }
            }
            state.writer_waits = true;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.writer_waits = false;
        }
    }

    fn store_takes_more(&self) -> bool {
        self.in_flight_len.load(Ordering::Acquire) < self.store.max_in_flight()
    }

    /// Seals a group and hands it to the store.
    pub(crate) fn submit(self: &Arc<Self>, group: OpenGroup) {
        let group = self.seal(group);
        self.store.submit(group, Arc::clone(self) as Arc<dyn GroupObserver>);
    }

    /// Writes the header of a group and counts the group as in flight.
    fn seal(&self, mut group: OpenGroup) -> SealedGroup {
        let mut chain = self.chain();
        let header = GroupHeader {
            log_id: self.identity.log_id,
            shard: self.identity.shard,
            epoch: chain.epoch,
            sequence: chain.sequence + 1,
            position: group.position,
            durable: self.durable().min(self.store.synced()),
            payload: (group.buffer.len() - GROUP_HEADER) as u32,
            entries: group.entries,
            previous: chain.checksum,
        };
        chain.checksum = seal_group(&header, group.buffer.as_mut());
        chain.sequence = header.sequence;
        chain.had_entries = group.entries > 0;
        let end = group.position + self.store.padded_len(group.buffer.len());
        let mut in_flight = self.in_flight();
        in_flight.begin(header.sequence, end);
        self.in_flight_len.store(in_flight.len(), Ordering::Release);
        let OpenGroup { position, buffer, entries, .. } = group;
        SealedGroup { sequence: header.sequence, position, entries, buffer }
    }

    /// Stores the first group of this opening and waits for it, without a callback. Returns the position after it.
    pub(crate) fn store_opening_group(&self, group: OpenGroup) -> Result<u64, LogFailure> {
        let group = self.seal(group);
        let after = group.position + self.store.padded_len(group.buffer.len());
        let outcome = Arc::new(Outcome::default());
        self.store.submit(group, Arc::clone(&outcome) as Arc<dyn GroupObserver>);
        let group = outcome.wait()?;
        self.settle(&mut self.in_flight(), group);
        self.store.sync(u64::MAX)?;
        Ok(after)
    }

    /// Notes that the store has finished a group, and keeps the contiguous prefix of finished groups for readers.
    /// Returns the position after that prefix if it became longer.
    fn settle(&self, in_flight: &mut InFlight, group: SealedGroup) -> Option<u64> {
        in_flight.finish(group);
        let mut durable = None;
        while let Some((group, end)) = in_flight.pop_finished() {
            self.stats.group_bytes.record(end - group.position);
            self.stats.group_records.record(u64::from(group.entries));
            self.recent.push(group.position, group.buffer);
            durable = Some(end);
        }
        self.in_flight_len.store(in_flight.len(), Ordering::Release);
        durable
    }

    pub(crate) fn chain(&self) -> MutexGuard<'_, GroupChain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the outcome of one group.
#[derive(Default)]
struct Outcome {
    group: Mutex<Option<Result<SealedGroup, LogFailure>>>,
    known: Condvar,
}

impl Outcome {
    fn set(&self, outcome: Result<SealedGroup, LogFailure>) {
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.known.notify_all();
    }

    fn wait(&self) -> Result<SealedGroup, LogFailure> {
        let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = group.take() {
                return outcome;
            }
            group = self.known.wait(group).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl GroupObserver for Outcome {
    fn finished(&self, group: SealedGroup) {
        self.set(Ok(group));
    }

    fn failed(&self, failure: LogFailure) {
        self.set(Err(failure));
    }
}

impl GroupObserver for LogCore {
    fn finished(&self, group: SealedGroup) {
        let mut in_flight = self.in_flight();
        let durable = self.settle(&mut in_flight, group);
        // Published under the lock on the groups in flight, so that positions are published in order.
        if let Some(end) = durable {
            self.set_durable(end);
        }
    }

    fn failed(&self, failure: LogFailure) {
        self.fail(failure);
    }
}

#[cfg(test)]
mod tests;
