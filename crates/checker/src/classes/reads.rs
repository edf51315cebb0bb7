//! Values that must not be read, and error codes that must not be sent.

use super::Findings;
use crate::finding::{Class, Finding};
use crate::history::{Action, Kind};
use crate::view::{Fate, View};

/// A value was read under read_committed whose writer failed or aborted.
pub(super) fn g1a(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::G1a, view);
    for read in &view.reads {
        let Some((writer, _)) = view.writer(read.value) else { continue };
        if view.fate(writer) == Fate::Aborted {
            let text = format!(
                "{} read {} at {} offset {}, but {}, which wrote it, failed or aborted",
                findings.op(read.op),
                findings.value(read.value),
                findings.key(read.key),
                read.offset,
                findings.op(writer),
            );
            findings.add(text, &[read.op, writer], &[read.value], &[(read.key, read.offset)]);
        }
    }
    findings.found
}

/// A transaction read a value it wrote itself.
pub(super) fn precommitted_read(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::PrecommittedRead, view);
    for read in &view.reads {
        let is_txn = view.history.op(read.op).is_some_and(|op| op.kind == Kind::Txn);
        if is_txn && view.writer(read.value).is_some_and(|(writer, _)| writer == read.op) {
            let text = format!(
                "{} read its own {} at {} offset {}",
                findings.op(read.op),
                findings.value(read.value),
                findings.key(read.key),
                read.offset
            );
            findings.add(text, &[read.op], &[read.value], &[(read.key, read.offset)]);
        }
    }
    findings.found
}

/// A value was read that no operation wrote, or from a key it was not written to.
pub(super) fn unwritten(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::Unwritten, view);
    for read in &view.all_reads {
        let place = format!("{} offset {}", findings.key(read.key), read.offset);
        let (reader, value) = (findings.op(read.op), findings.value(read.value));
        match view.writer(read.value) {
            None => {
                let text = format!("{reader} read {value} at {place}; no operation wrote it");
                findings.add(text, &[read.op], &[read.value], &[(read.key, read.offset)]);
            }
            Some((writer, write)) if write.key != read.key => {
                let (whom, other) = (findings.op(writer), findings.key(write.key));
                let text = format!("{reader} read {value} at {place}; {whom} wrote it to {other}");
                findings.add(text, &[read.op, writer], &[read.value], &[(read.key, read.offset)]);
            }
            Some(_) => {}
        }
    }
    findings.found
}

/// The history has a value that was written twice.
pub(super) fn written_twice(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::WrittenTwice, view);
    for (value, op) in &view.written_twice {
        let text = format!("{} writes {} again", findings.op(*op), findings.value(*value));
        findings.add(text, &[*op], &[*value], &[]);
    }
    findings.found
}

/// A client without a fault received an error that accuses it of one.
pub(super) fn impossible_answer(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::ImpossibleAnswer, view);
    for (id, op) in view.history.ops() {
        for action in &op.actions {
            if let Action::Impossible { text } = action {
                let text = format!("{} was answered: {text}", findings.op(id));
                findings.add(text, &[id], &[], &[]);
            }
        }
    }
    findings.found
}
