//! The two ends of a key: they only grow, and the stable one reaches the high one in the end.

use super::Findings;
use super::claims::{Claim, steps_back};
use crate::finding::{Class, Finding};
use crate::history::{Action, Key, Kind, Op, OpId, Outcome};
use crate::view::View;
use std::collections::BTreeMap;

/// A high watermark is lower than one seen before, or at or below a record that was acknowledged or read before.
pub(super) fn high_back(view: &View<'_>) -> Vec<Finding> {
    back(view, Class::HighBack, "high watermark", |op, action| match action {
        Action::Ends { key, high, .. } => Some((*key, *high, true)),
        Action::Read { key, offset, .. } => Some((*key, offset + 1, false)),
        Action::Write(write) if op.outcome == Outcome::Ok => {
            write.offset.map(|offset| (write.key, offset + 1, false))
        }
        _ => None,
    })
}

/// A last stable offset is lower than one seen before, or at or below a record that was read as committed before.
pub(super) fn stable_back(view: &View<'_>) -> Vec<Finding> {
    back(view, Class::StableBack, "last stable offset", |op, action| match action {
        Action::Ends { key, stable, .. } => Some((*key, *stable, true)),
        Action::Read { key, offset, .. } if op.kind != Kind::Peek => Some((*key, offset + 1, false)),
        _ => None,
    })
}

/// A last stable offset is above the high watermark.
pub(super) fn stable_above_high(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::StableAboveHigh, view);
    ends(view, |id, _, key, high, stable| {
        if stable > high {
            let text = format!(
                "{} saw the last stable offset of {} at {stable}, the high watermark at {high}",
                findings.op(id),
                findings.key(key)
            );
            findings.add(text, &[id], &[], &[(key, stable), (key, high)]);
        }
    });
    findings.found
}

/// The last that a drain saw of a key is a last stable offset below the high watermark, though every transaction had
/// time to end.
pub(super) fn hanging_transaction(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::HangingTransaction, view);
    let mut last = BTreeMap::new();
    ends(view, |id, op, key, high, stable| {
        if op.kind == Kind::Drain {
            last.insert((id, key), (high, stable));
        }
    });
    for ((id, key), (high, stable)) in last.into_iter().filter(|(_, (high, stable))| stable < high) {
        let text = format!(
            "in {}, after all, the last stable offset of {} is {stable}, the high watermark {high}",
            findings.op(id),
            findings.key(key)
        );
        findings.add(text, &[id], &[], &[(key, stable), (key, high)]);
    }
    findings.found
}

fn ends(view: &View<'_>, mut each: impl FnMut(OpId, &Op, Key, i64, i64)) {
    for (id, op) in view.history.ops() {
        for action in &op.actions {
            if let Action::Ends { key, high, stable } = action {
                each(id, op, *key, *high, *stable);
            }
        }
    }
}

/// What an action says of a number that grows: of which key, at least how high, and whether just so high.
type Says = fn(&Op, &Action) -> Option<(Key, i64, bool)>;

fn back(view: &View<'_>, class: Class, what: &str, says: Says) -> Vec<Finding> {
    let mut findings = Findings::new(class, view);
    let mut claims = Vec::new();
    for (id, op) in view.history.ops() {
        for (key, least, seen) in op.actions.iter().filter_map(|action| says(op, action)) {
            claims.push(Claim { subject: key, begin: op.begin, end: op.end, least, seen, op: id });
        }
    }
    for (before, after) in steps_back(&claims) {
        let key = after.subject;
        let text = format!(
            "{} saw the {what} of {} at {}; after {} it is at least {}",
            findings.op(after.op),
            findings.key(key),
            after.least,
            findings.op(before.op),
            before.least,
        );
        findings.add(text, &[before.op, after.op], &[], &[(key, before.least), (key, after.least)]);
    }
    findings.found
}
