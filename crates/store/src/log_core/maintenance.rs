//! The background work of the log: frees storage whose release is durable, then runs the background work of the store.

use super::{LogCore, State};
use crate::error::LogFailure;
use crate::free::FreeTarget;
use crate::group_store::{MaintenanceStep, Reservation};
use crate::names::run_name;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long to wait before asking again for space.
const RETRY: Duration = Duration::from_millis(200);

/// The outcome of a step of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maintenance {
    /// Something was done: there may be more to do.
    Done,
    /// There is nothing to do.
    Idle,
    /// Space could not be reserved: try again later.
    OutOfSpace,
}

impl LogCore {
    /// The body of the thread for background work. It begins when the first group was written, so that the first
    /// response does not wait for it.
    pub(crate) fn maintain_until_stopped(&self) {
        let mut last = Maintenance::Idle;
        while self.wait_for_maintenance(last) {
            last = match self.maintain() {
                Ok(outcome) => outcome,
                Err(failure) => return self.fail(failure),
            };
        }
    }

    /// Waits until there may be something to do; returns false if the thread should end.
    fn wait_for_maintenance(&self, last: Maintenance) -> bool {
        let mut state = self.lock();
        if last == Maintenance::OutOfSpace && !state.stop {
            let waited = self.maintenance.wait_timeout(state, RETRY);
            return !waited.unwrap_or_else(PoisonError::into_inner).0.stop;
        }
        while last == Maintenance::Idle && !state.stop && !self.maintenance_is_due(&state) {
            state = self.maintenance.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.stop
    }

    fn maintenance_is_due(&self, state: &State) -> bool {
        self.durable() >= self.maintenance_due.load(Ordering::Acquire)
            || self.store.reservation(state.wanted) != Reservation::Ready
    }

    /// Does the most urgent step of work.
    pub(crate) fn maintain(&self) -> Result<Maintenance, LogFailure> {
        if self.free_due()? {
            return Ok(Maintenance::Done);
        }
        match self.store.maintain(self)? {
            MaintenanceStep::Done => {
                self.wake_waiters();
                Ok(Maintenance::Done)
            }
            MaintenanceStep::OutOfSpace => {
                self.maintenance_due.store(u64::MAX, Ordering::Release);
                self.wake_waiters();
                Ok(Maintenance::OutOfSpace)
            }
            MaintenanceStep::Idle { due } => {
                let state = self.lock();
                let freeing = state.freeing.iter().map(|pending| pending.after).min();
                let due = freeing.map_or(due, |after| after.min(due));
                self.maintenance_due.store(due, Ordering::Release);
                Ok(Maintenance::Idle)
            }
        }
    }

    /// Frees the targets whose records are durable; returns whether there were any.
    fn free_due(&self) -> Result<bool, LogFailure> {
        let due: Vec<FreeTarget> = {
            let mut state = self.lock();
            let durable = self.durable();
            let due = state.freeing.extract_if(.., |pending| pending.after <= durable);
            due.flat_map(|pending| pending.targets).collect()
        };
        if due.is_empty() {
            return Ok(false);
        }
        // The records that released them must survive a power failure before the bytes are freed.
        self.store.sync(u64::MAX)?;
        for target in due {
            self.free(&target)?;
        }
        Ok(true)
    }

    fn free(&self, target: &FreeTarget) -> Result<(), LogFailure> {
        let explain = |number: u64| {
            move |error: io::Error| LogFailure {
                file: run_name(number),
                doing: "freeing",
                error: error.to_string(),
            }
        };
        match target {
            FreeTarget::Segment(number) => self.store.free(*number),
            FreeTarget::Run(number) => self.runs.retire(*number).map_err(explain(*number)),
            FreeTarget::RunRange(number, range) => self.runs.punch(*number, range).map_err(explain(*number)),
        }
    }
}
