//! All writes to the compacted topic, with their outcomes: what a reader of it must and must not see.

use crate::place::{ConsumedRecord, Place};
use std::collections::BTreeMap;

/// A record of a compacted topic.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: String,
    /// It deletes its key.
    pub(crate) tombstone: bool,
}

/// The state of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its transaction is open, or its outcome is unknown.
    Doubt,
    Committed,
    Aborted,
}

#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) place: Place,
    pub(crate) row: Row,
    pub(crate) fate: Fate,
    /// Its offset, once it is known.
    pub(crate) offset: Option<i64>,
}

/// All writes to the topic, by value.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) writes: BTreeMap<String, Write>,
}

/// A key of a partition.
pub(crate) type Key = (Place, String);

impl Ledger {
    pub(crate) fn judge(&mut self, values: &[String], fate: Fate) {
        for value in values {
            if let Some(write) = self.writes.get_mut(value) {
                write.fate = fate;
            }
        }
    }

    /// For each key the last write that was committed and acknowledged.
    pub(crate) fn committed(&self) -> BTreeMap<Key, (i64, bool)> {
        let mut last = BTreeMap::new();
        for write in self.writes.values().filter(|write| write.fate == Fate::Committed) {
            let Some(offset) = write.offset else { continue };
            let entry =
                last.entry((write.place, write.row.key.clone())).or_insert((offset, write.row.tombstone));
            *entry = (*entry).max((offset, write.row.tombstone));
        }
        last
    }

    /// Whether a key may have been deleted after an offset.
    pub(crate) fn may_be_deleted(&self, (place, key): &Key, after: i64) -> bool {
        self.writes.values().any(|write| {
            write.place == *place
                && write.row.key == *key
                && write.row.tombstone
                && write.fate != Fate::Aborted
                && write.offset.is_none_or(|offset| offset > after)
        })
    }

    /// The reason why a reader of committed data must not see this record, if there is one.
    pub(crate) fn fault(&self, given: &ConsumedRecord) -> Option<String> {
        let value = given.value.as_ref()?;
        let Some(write) = self.writes.get(&*String::from_utf8_lossy(value)) else {
            return Some("was never written".to_owned());
        };
        let is_it = write.row.key == given.name && write.place == given.place && !write.row.tombstone;
        if !is_it || write.offset.is_some_and(|offset| offset != given.offset) {
            return Some(format!("was written as {write:?}"));
        }
        (write.fate == Fate::Aborted).then(|| "was aborted".to_owned())
    }
}
