//! The groups that were handed to the store and are not durable yet.

use crate::group_store::SealedGroup;
use std::collections::VecDeque;

/// Groups in flight, in the order of the log. The store may finish them in any order; they leave in order.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    groups: VecDeque<GroupInFlight>,
}

#[derive(Debug)]
struct GroupInFlight {
    sequence: u64,
    /// Position after the group, padding included.
    end: u64,
    /// The group, once the store has finished it.
    finished: Option<SealedGroup>,
}

impl InFlight {
    /// Adds a group after all others.
    pub(crate) fn begin(&mut self, sequence: u64, end: u64) {
        debug_assert!(self.groups.back().is_none_or(|last| last.sequence < sequence && last.end < end));
        self.groups.push_back(GroupInFlight { sequence, end, finished: None });
    }

    /// Notes that the store has finished a group.
    pub(crate) fn finish(&mut self, group: SealedGroup) {
        if let Some(entry) = self.groups.iter_mut().find(|entry| entry.sequence == group.sequence) {
            entry.finished = Some(group);
        }
    }

    /// Removes the first group if it is finished; returns it and the position after it. Repeated calls return the
    /// contiguous prefix of finished groups.
    pub(crate) fn pop_finished(&mut self) -> Option<(SealedGroup, u64)> {
        let first = self.groups.front_mut()?;
        let group = first.finished.take()?;
        let end = first.end;
        self.groups.pop_front();
        Some((group, end))
    }

    /// How many groups are in flight, finished ones after an unfinished one included.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }
}
