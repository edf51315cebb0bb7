//! Consume, transform, produce: every input is transformed by exactly one committed transaction.
//!
//! A transaction transforms the inputs that its writes are made `from`, for the group whose offsets of that key it
//! commits.

use super::Findings;
use crate::finding::{Class, Finding};
use crate::history::{Action, Group, Key, Kind, OpId};
use crate::view::{Fate, View};
use std::collections::BTreeMap;

/// One input was transformed by two committed transactions.
pub(super) fn transformed_twice(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::TransformedTwice, view);
    let done = transformed(view, |fate| fate == Fate::Committed);
    for pair in done.windows(2) {
        let [(one, first), (two, second)] = pair else { continue };
        if one == two {
            let (group, key, offset) = *one;
            let text = format!(
                "{} offset {offset} was transformed for {} by {} and by {}",
                findings.key(key),
                view.history.group_name(group),
                findings.op(*first),
                findings.op(*second),
            );
            findings.add(text, &[*first, *second], &[], &[(key, offset)]);
        }
    }
    findings.found
}

/// An input below the group's last committed offset was transformed by no committed transaction.
pub(super) fn not_transformed(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::NotTransformed, view);
    let done = transformed(view, |fate| fate == Fate::Committed);
    let tried = transformed(view, |_| true);
    for ((group, key), (drain, committed)) in last_committed(view) {
        let first = tried.partition_point(|((g, k, _), _)| (*g, *k) < (group, key));
        let works_so = tried.get(first).is_some_and(|((g, k, _), _)| (*g, *k) == (group, key));
        if !works_so {
            continue;
        }
        for offset in view.readable(key).iter().copied().take_while(|offset| *offset < committed) {
            let at = done.partition_point(|(input, _)| *input < (group, key, offset));
            if done.get(at).is_none_or(|(input, _)| *input != (group, key, offset)) {
                let text = format!(
                    "{} offset {offset} was not transformed for {}, whose committed offset is {committed} to {}",
                    findings.key(key),
                    view.history.group_name(group),
                    findings.op(drain),
                );
                findings.add(text, &[drain], &[], &[(key, offset)]);
            }
        }
    }
    findings.found
}

type Input = (Group, Key, i64);

/// Every input with every transaction of a fate that transforms it, sorted.
fn transformed(view: &View<'_>, of: fn(Fate) -> bool) -> Vec<(Input, OpId)> {
    let mut done = Vec::new();
    for (id, op) in view.history.ops() {
        if op.kind != Kind::Txn || !of(view.fate(id)) {
            continue;
        }
        let groups: Vec<(Group, Key)> = op
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Offset { group, key, .. } => Some((*group, *key)),
                _ => None,
            })
            .collect();
        for (from, offset) in View::writes(op).filter_map(|write| write.from) {
            let of_key = groups.iter().filter(|(_, key)| *key == from);
            done.extend(of_key.map(|(group, key)| ((*group, *key, offset), id)));
        }
    }
    done.sort_unstable();
    done.dedup();
    done
}

/// Of each group and key, the committed offset that the last drain read.
fn last_committed(view: &View<'_>) -> BTreeMap<(Group, Key), (OpId, i64)> {
    let mut last = BTreeMap::new();
    for (id, op) in view.history.ops().filter(|(_, op)| op.kind == Kind::Drain) {
        for action in &op.actions {
            if let Action::Committed { group, key, offset } = action {
                last.insert((*group, *key), (id, offset.unwrap_or(0)));
            }
        }
    }
    last
}
