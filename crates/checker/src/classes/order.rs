//! The order in which a consumer reads and a producer's records land.

use super::Findings;
use crate::finding::{Class, Finding};
use crate::history::{Key, OpId, Process};
use crate::view::{Step, View};
use std::collections::BTreeMap;

/// Between two operations a consumer jumped over values.
pub(super) fn poll_skip(view: &View<'_>) -> Vec<Finding> {
    skips(view, Class::PollSkip, |step| step.from.0 != step.to.0)
}

/// Inside an operation a consumer jumped over values.
pub(super) fn int_poll_skip(view: &View<'_>) -> Vec<Finding> {
    skips(view, Class::IntPollSkip, |step| step.from.0 == step.to.0)
}

/// Between two operations a consumer went back, or stayed where it was.
pub(super) fn nonmonotonic_poll(view: &View<'_>) -> Vec<Finding> {
    backward(view, Class::NonmonotonicPoll, |step| step.from.0 != step.to.0)
}

/// Inside an operation a consumer went back, or stayed where it was.
pub(super) fn int_nonmonotonic_poll(view: &View<'_>) -> Vec<Finding> {
    backward(view, Class::IntNonmonotonicPoll, |step| step.from.0 == step.to.0)
}

/// A producer's later operation landed at a lower offset.
pub(super) fn nonmonotonic_send(view: &View<'_>) -> Vec<Finding> {
    sends(view, Class::NonmonotonicSend, |one, two| one != two)
}

/// A producer's later write in an operation landed at a lower offset.
pub(super) fn int_nonmonotonic_send(view: &View<'_>) -> Vec<Finding> {
    sends(view, Class::IntNonmonotonicSend, |one, two| one == two)
}

fn skips(view: &View<'_>, class: Class, of_class: fn(&Step) -> bool) -> Vec<Finding> {
    let mut findings = Findings::new(class, view);
    for step in view.steps.iter().filter(|step| of_class(step)) {
        if let Some(skipped) = view.readable_between(step.key, step.from.1, step.to.1) {
            let text =
                format!("{}, over offset {skipped}, where there is a committed value", told(&findings, step));
            findings.add(text, &[step.from.0, step.to.0], &[], &[(step.key, skipped), (step.key, step.to.1)]);
        }
    }
    findings.found
}

fn backward(view: &View<'_>, class: Class, of_class: fn(&Step) -> bool) -> Vec<Finding> {
    let mut findings = Findings::new(class, view);
    for step in view.steps.iter().filter(|step| of_class(step) && step.to.1 <= step.from.1) {
        let text = told(&findings, step);
        findings.add(text, &[step.from.0, step.to.0], &[], &[(step.key, step.from.1), (step.key, step.to.1)]);
    }
    findings.found
}

fn told(findings: &Findings<'_>, step: &Step) -> String {
    let (from, to) = (step.from, step.to);
    let key = findings.key(step.key);
    format!(
        "{} read {key} offset {}, then {} offset {}",
        findings.op(from.0),
        from.1,
        findings.op(to.0),
        to.1
    )
}

fn sends(view: &View<'_>, class: Class, of_class: fn(OpId, OpId) -> bool) -> Vec<Finding> {
    let mut findings = Findings::new(class, view);
    let mut last: BTreeMap<(Process, Key), (OpId, i64)> = BTreeMap::new();
    for (id, op) in view.history.ops() {
        for write in View::writes(op) {
            let Some(offset) = write.offset else { continue };
            let Some(before) = last.insert((op.process, write.key), (id, offset)) else { continue };
            if offset < before.1 && of_class(before.0, id) {
                let text = format!(
                    "{} landed at {} offset {}, then {} at offset {offset}",
                    findings.op(before.0),
                    findings.key(write.key),
                    before.1,
                    findings.op(id),
                );
                findings.add(
                    text,
                    &[before.0, id],
                    &[write.value],
                    &[(write.key, before.1), (write.key, offset)],
                );
            }
        }
    }
    findings.found
}
