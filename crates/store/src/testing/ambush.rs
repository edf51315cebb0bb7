//! Faults that lie in wait: not at a step, but soon after something has happened to a name.

use super::{Fault, FaultMedium, World};

/// What happens to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// A file gets the name: it is created, or renamed to it.
    Given,
    /// No file has the name any more: it is removed, or renamed.
    Taken,
}

/// A fault, and what it waits for.
#[derive(Debug)]
pub(super) struct Ambush {
    naming: Naming,
    prefix: String,
    calls: u64,
    fault: Fault,
}

impl FaultMedium {
    /// As soon as this happens to a name that begins with `prefix`, the call that comes so many calls later goes wrong.
    pub fn fail_after(&self, naming: Naming, prefix: &str, calls: u64, fault: Fault) {
        self.world().ambushes.push(Ambush { naming, prefix: prefix.to_owned(), calls, fault });
    }
}

impl World {
    /// Wakes what waited for this.
    pub(super) fn named(&mut self, naming: Naming, name: &str) {
        let waited = |one: &mut Ambush| one.naming == naming && is_of(name, &one.prefix);
        for ambush in self.ambushes.extract_if(.., waited) {
            self.faults.insert(self.steps + ambush.calls.max(1), ambush.fault);
        }
    }
}

/// Temporary names are none yet.
fn is_of(name: &str, prefix: &str) -> bool {
    name.starts_with(prefix) && !name.ends_with(".tmp")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Medium;

    #[test]
    fn a_fault_strikes_so_many_calls_after_what_it_waited_for() {
        let medium = FaultMedium::new(1);
        medium.fail_after(Naming::Given, "snapshot-", 2, Fault::Error);
        medium.fail_after(Naming::Taken, "run-", 1, Fault::Crash);
        medium.create("run-1").unwrap();
        medium.create("snapshot-1.tmp").unwrap();
        medium.list().unwrap();
        medium.rename("snapshot-1.tmp", "snapshot-1").unwrap();
        medium.list().unwrap();
        medium.list().unwrap_err();
        medium.create("snapshot-2").unwrap();
        medium.list().unwrap();
        medium.list().expect("each strikes once");
        medium.remove("run-1").unwrap();
        assert!(medium.is_alive());
        medium.list().unwrap_err();
        assert!(!medium.is_alive());
    }
}
