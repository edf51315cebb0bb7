//! Fault points: faults that are bound to a change of a file's name instead of a call number. The fault occurs a given
//! number of calls after the change.

use super::{Fault, FaultMedium, MediumState};

/// A change of the names in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameEvent {
    /// A file gets the name: it is created, or renamed to it.
    Added,
    /// No file has the name any more: it is removed, or renamed.
    Removed,
}

/// A fault and the change of a name that triggers it.
#[derive(Debug)]
pub(super) struct FaultPoint {
    event: NameEvent,
    prefix: String,
    calls: u64,
    fault: Fault,
}

impl FaultMedium {
    /// Makes one call fail: the one that is `calls` calls after the next `event` of a name that begins with `prefix`.
    pub fn fail_after(&self, event: NameEvent, prefix: &str, calls: u64, fault: Fault) {
        self.state().fault_points.push(FaultPoint { event, prefix: prefix.to_owned(), calls, fault });
    }
}

impl MediumState {
    /// Schedules the faults that this change triggers.
    pub(super) fn trigger(&mut self, event: NameEvent, name: &str) {
        let matches = |point: &mut FaultPoint| point.event == event && has_prefix(name, &point.prefix);
        for point in self.fault_points.extract_if(.., matches) {
            self.faults.insert(self.steps + point.calls.max(1), point.fault);
        }
    }
}

/// Temporary names do not count.
fn has_prefix(name: &str, prefix: &str) -> bool {
    name.starts_with(prefix) && !name.ends_with(".tmp")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Medium;

    #[test]
    fn a_fault_strikes_the_given_number_of_calls_after_its_trigger() {
        let medium = FaultMedium::new(1);
        medium.fail_after(NameEvent::Added, "snapshot-", 2, Fault::Error);
        medium.fail_after(NameEvent::Removed, "run-", 1, Fault::Crash);
        medium.create("run-1").unwrap();
        medium.create("snapshot-1.tmp").unwrap();
        medium.list().unwrap();
        medium.rename("snapshot-1.tmp", "snapshot-1").unwrap();
        medium.list().unwrap();
        medium.list().unwrap_err();
        medium.create("snapshot-2").unwrap();
        medium.list().unwrap();
        medium.list().expect("each fault point strikes once");
        medium.remove("run-1").unwrap();
        assert!(medium.is_alive());
        medium.list().unwrap_err();
        assert!(!medium.is_alive());
    }
}
