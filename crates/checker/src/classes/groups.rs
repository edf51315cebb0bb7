//! The committed offsets of groups: with their transaction or not at all, and never back.

use super::Findings;
use super::claims::{Claim, steps_back};
use crate::finding::{Class, Finding};
use crate::history::{Action, Group, Key, Kind, OpId};
use crate::view::{Fate, View};
use std::collections::BTreeMap;

/// A committed offset was read whose writers all failed or aborted, or that no operation wrote.
pub(super) fn aborted_offset(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::AbortedOffset, view);
    let writers = writers(view);
    for read in reads(view) {
        let Some(offset) = read.offset else { continue };
        let writers = writers.get(&(read.group, read.key, offset)).map_or(&[][..], Vec::as_slice);
        if writers.iter().all(|writer| view.fate(*writer) == Fate::Aborted) {
            let by = match writers.first() {
                Some(writer) => format!("{}, which wrote it, failed or aborted", findings.op(*writer)),
                None => "no operation wrote it".to_owned(),
            };
            let text = format!("{}; {by}", told(&findings, &read));
            let ops: Vec<OpId> = writers.iter().copied().chain([read.op]).collect();
            findings.add(text, &ops, &[], &[(read.key, offset)]);
        }
    }
    findings.found
}

/// Of a transaction the offsets are there and the data is not, or the other way round.
pub(super) fn torn_offsets(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::TornOffsets, view);
    offsets_without_data(view, &mut findings);
    data_without_offsets(view, &mut findings);
    findings.found
}

/// A group's committed offset is lower than one that was acknowledged or read before.
pub(super) fn offset_back(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::OffsetBack, view);
    let mut claims = Vec::new();
    for (id, op) in view.history.ops() {
        let claim =
            |subject, least, seen| Claim { subject, begin: op.begin, end: op.end, least, seen, op: id };
        for action in &op.actions {
            match action {
                Action::Committed { group, key, offset } => {
                    claims.push(claim((*group, *key), offset.unwrap_or(-1), true))
                }
                Action::Offset { group, key, offset } if view.fate(id) == Fate::Committed => {
                    claims.push(claim((*group, *key), *offset, false));
                }
                _ => {}
            }
        }
    }
    for (before, after) in steps_back(&claims) {
        let (group, key) = after.subject;
        let text = format!(
            "{} read {} as the committed offset of {} in {}; after {} it is at least {}",
            findings.op(after.op),
            after.least,
            view.history.group_name(group),
            findings.key(key),
            findings.op(before.op),
            before.least,
        );
        findings.add(text, &[before.op, after.op], &[], &[(key, before.least), (key, after.least)]);
    }
    findings.found
}

/// A committed offset as an operation read it.
struct OffsetRead {
    op: OpId,
    kind: Kind,
    group: Group,
    key: Key,
    offset: Option<i64>,
}

fn reads<'a>(view: &View<'a>) -> impl Iterator<Item = OffsetRead> + use<'a> {
    view.history.ops().flat_map(|(id, op)| {
        op.actions.iter().filter_map(move |action| match action {
            Action::Committed { group, key, offset } => {
                Some(OffsetRead { op: id, kind: op.kind, group: *group, key: *key, offset: *offset })
            }
            _ => None,
        })
    })
}

fn told(findings: &Findings<'_>, read: &OffsetRead) -> String {
    let (group, key) = (findings.history.group_name(read.group), findings.key(read.key));
    format!(
        "{} read {} as the committed offset of {group} in {key}",
        findings.op(read.op),
        read.offset.unwrap_or(-1)
    )
}

/// Who wrote each committed offset.
fn writers(view: &View<'_>) -> BTreeMap<(Group, Key, i64), Vec<OpId>> {
    let mut writers: BTreeMap<(Group, Key, i64), Vec<OpId>> = BTreeMap::new();
    for (id, op) in view.history.ops() {
        for action in &op.actions {
            if let Action::Offset { group, key, offset } = action {
                writers.entry((*group, *key, *offset)).or_default().push(id);
            }
        }
    }
    writers
}

fn offsets_without_data(view: &View<'_>, findings: &mut Findings<'_>) {
    let writers = writers(view);
    for read in reads(view) {
        let Some(offset) = read.offset else { continue };
        let Some(writers) = writers.get(&(read.group, read.key, offset)) else { continue };
        let unknown = writers.iter().copied().filter(|writer| view.fate(*writer) == Fate::Unknown);
        let certain = writers.iter().any(|writer| view.fate(*writer) == Fate::Committed);
        if certain
            || unknown.clone().next().is_none()
            || !unknown.clone().all(|writer| dataless(view, writer))
        {
            continue;
        }
        let ops: Vec<OpId> = unknown.chain([read.op]).collect();
        let text =
            format!("{}; {} wrote it, whose data is not there", told(findings, &read), findings.op(ops[0]));
        findings.add(text, &ops, &[], &[(read.key, offset)]);
    }
}

/// Whether a transaction wrote data, and all of it is surely not there.
fn dataless(view: &View<'_>, id: OpId) -> bool {
    let Some(op) = view.history.op(id).filter(|op| op.kind == Kind::Txn) else { return false };
    let mut writes = View::writes(op).peekable();
    writes.peek().is_some() && writes.all(|write| view.missing_in(write.key, write.value, id).is_some())
}

fn data_without_offsets(view: &View<'_>, findings: &mut Findings<'_>) {
    let mut last: BTreeMap<(Group, Key), OffsetRead> = BTreeMap::new();
    for read in reads(view).filter(|read| read.kind == Kind::Drain) {
        last.insert((read.group, read.key), read);
    }
    for (id, op) in view.history.ops() {
        let was_read = View::writes(op).find(|write| view.reader(write.value).is_some());
        let Some(there) = was_read.filter(|_| op.kind == Kind::Txn && view.fate(id) == Fate::Committed)
        else {
            continue;
        };
        for action in &op.actions {
            let Action::Offset { group, key, offset } = action else { continue };
            let Some(read) = last.get(&(*group, *key)).filter(|read| view.after(read.op, id)) else {
                continue;
            };
            if read.offset.is_none_or(|committed| committed < *offset) {
                let text = format!(
                    "{}; {} committed {offset} with {}, which is there",
                    told(findings, read),
                    findings.op(id),
                    findings.value(there.value)
                );
                findings.add(text, &[id, read.op], &[there.value], &[(*key, *offset)]);
            }
        }
    }
}
