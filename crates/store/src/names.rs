//! Names of the files in a data folder, and a listing of the folder sorted by kind of file.

use std::collections::BTreeSet;

pub(crate) const IDENTITY: &str = "identity";

pub(crate) fn segment_name(number: u64) -> String {
    format!("segment-{number:012}")
}

pub(crate) fn spare_name(number: u64) -> String {
    format!("spare-{number:012}")
}

pub(crate) fn snapshot_name(position: u64) -> String {
    format!("snapshot-{position:020}")
}

pub(crate) fn run_name(number: u64) -> String {
    format!("run-{number:012}")
}

/// The name that a file has until it is complete. A start removes files with such names.
pub(crate) fn temporary(name: &str) -> String {
    format!("{name}.tmp")
}

pub(crate) fn is_temporary(name: &str) -> bool {
    name.ends_with(".tmp")
}

fn number(name: &str, prefix: &str) -> Option<u64> {
    name.strip_prefix(prefix).and_then(|rest| rest.parse().ok())
}

/// The names in a data folder, sorted by kind. Names of no known kind are left out.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) segments: BTreeSet<u64>,
    pub(crate) spares: BTreeSet<u64>,
    pub(crate) snapshots: BTreeSet<u64>,
    pub(crate) runs: BTreeSet<u64>,
    pub(crate) temporary: Vec<String>,
    pub(crate) identity: bool,
}

impl Listing {
    pub(crate) fn of(names: Vec<String>) -> Listing {
        let mut listing = Listing::default();
        for name in names {
            if is_temporary(&name) {
                listing.temporary.push(name);
            } else if name == IDENTITY {
                listing.identity = true;
            } else if let Some(found) = number(&name, "segment-") {
                listing.segments.insert(found);
            } else if let Some(found) = number(&name, "spare-") {
                listing.spares.insert(found);
            } else if let Some(found) = number(&name, "snapshot-") {
                listing.snapshots.insert(found);
            } else if let Some(found) = number(&name, "run-") {
                listing.runs.insert(found);
            }
        }
        listing
    }

    /// Whether there is neither a segment nor a snapshot nor a run.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.snapshots.is_empty() && self.runs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let names = [
            "segment-000000000003",
            "spare-2",
            "snapshot-00000000000000000077",
            "identity",
            "snapshot-1.tmp",
            "run-000000000007",
            "run-000000000008.tmp",
            "lock",
        ];
        let listing = Listing::of(names.map(str::to_owned).to_vec());
        assert_eq!(listing.segments, BTreeSet::from([3]));
        assert_eq!(listing.spares, BTreeSet::from([2]));
        assert_eq!(listing.snapshots, BTreeSet::from([77]));
        assert_eq!(listing.runs, BTreeSet::from([7]));
        assert_eq!(listing.temporary, ["snapshot-1.tmp", "run-000000000008.tmp"]);
        assert!(listing.identity);
    }
}
