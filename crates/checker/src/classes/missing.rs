//! Values that must be in the log and are missing.

use super::Findings;
use crate::finding::{Class, Finding};
use crate::history::{Kind, OpId, Value, Write};
use crate::view::{Fate, View};

/// A value whose writer must have committed, at or below the highest offset anyone read, that no read of committed data
/// returned.
pub(super) fn lost_write(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::LostWrite, view);
    let highest = highest_reads(view);
    for value in view.all_values() {
        if let Some((writer, write, offset)) = lost(view, value, &highest) {
            let text = format!(
                "no operation read {} of {}, which {} wrote to offset {offset}; others read up to offset {}",
                findings.value(value),
                findings.key(write.key),
                findings.op(writer),
                highest[write.key.0 as usize],
            );
            findings.add(text, &[writer], &[value], &[(write.key, offset)]);
        }
    }
    findings.found
}

/// A value whose writer must have committed that a drain does not have, beyond what [`lost_write`] names.
pub(super) fn unseen(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::Unseen, view);
    let highest = highest_reads(view);
    for value in view.all_values() {
        let Some((writer, write)) = view.writer(value) else { continue };
        if view.reader(value).is_some() || !view.must_exist(value) || lost(view, value, &highest).is_some() {
            continue;
        }
        if let Some(drain) = view.missing_in(write.key, value, writer) {
            let text = format!(
                "no operation read {} of {}, which {} wrote; {} read to the end",
                findings.value(value),
                findings.key(write.key),
                findings.op(writer),
                findings.op(drain),
            );
            findings.add(text, &[writer, drain], &[value], &[]);
        }
    }
    findings.found
}

/// A value that was read as committed is missing in a later drain.
pub(super) fn vanished(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::Vanished, view);
    let mut last: Option<Value> = None;
    let mut reads = view.reads.clone();
    reads.sort_unstable_by_key(|read| (read.value, read.op));
    for read in reads {
        let aborted = view.writer(read.value).is_some_and(|(op, _)| view.fate(op) == Fate::Aborted);
        if aborted || last == Some(read.value) {
            continue;
        }
        if let Some(drain) = view.missing_in(read.key, read.value, read.op) {
            last = Some(read.value);
            let text = format!(
                "{} read {} at {} offset {}; it is gone in {}",
                findings.op(read.op),
                findings.value(read.value),
                findings.key(read.key),
                read.offset,
                findings.op(drain),
            );
            findings.add(text, &[read.op, drain], &[read.value], &[(read.key, read.offset)]);
        }
    }
    findings.found
}

/// Some writes of a transaction were read, and some are not in a later drain.
pub(super) fn torn_data(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::TornData, view);
    for (id, op) in view.history.ops() {
        if op.kind != Kind::Txn || view.fate(id) == Fate::Aborted {
            continue;
        }
        let Some(there) = View::writes(op).find(|write| view.reader(write.value).is_some()) else { continue };
        let gone = |write: &&Write| view.missing_in(write.key, write.value, id).is_some();
        if let Some(gone) = View::writes(op).find(gone) {
            let text = format!(
                "of {}, {} of {} was read and {} of {} is not there",
                findings.op(id),
                findings.value(there.value),
                findings.key(there.key),
                findings.value(gone.value),
                findings.key(gone.key),
            );
            findings.add(text, &[id], &[there.value, gone.value], &[]);
        }
    }
    findings.found
}

/// Of each key, the highest offset that was read as committed; -1 if none was.
fn highest_reads(view: &View<'_>) -> Vec<i64> {
    let mut highest = vec![-1; view.all_keys().count()];
    for read in &view.reads {
        let highest = &mut highest[read.key.0 as usize];
        *highest = read.offset.max(*highest);
    }
    highest
}

fn lost(view: &View<'_>, value: Value, highest: &[i64]) -> Option<(OpId, Write, i64)> {
    let (writer, write) = view.writer(value)?;
    let offset = write.offset?;
    let lost =
        view.reader(value).is_none() && view.must_exist(value) && offset <= highest[write.key.0 as usize];
    lost.then_some((writer, write, offset))
}
