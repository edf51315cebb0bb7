//! Transactions that read from each other in a circle.

use super::Findings;
use crate::finding::{Class, Finding};
use crate::history::{Kind, OpId};
use crate::view::View;

/// Transactions that each read what another of them wrote, in a circle: with reads of committed data one of them must
/// have read what was not committed yet. A transaction that reads its own write is
/// [`super::reads::precommitted_read`]'s.
pub(super) fn g1c(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::G1c, view);
    let edges = edges(view);
    let ops = edges.iter().flat_map(|(from, to)| [from.0, to.0]).max().map_or(0, |last| last as usize + 1);
    let left = peel(&edges, ops);
    // The remaining operations lie on circles or between them: walk back until an operation repeats.
    let mut before: Vec<Option<OpId>> = vec![None; ops];
    for (from, to) in edges.iter().filter(|(from, to)| left[from.0 as usize] && left[to.0 as usize]) {
        before[to.0 as usize] = Some(*from);
    }
    let mut walked = vec![0_usize; ops];
    for start in (0..ops).filter(|op| left[*op]) {
        if let Some(circle) = circle(&before, &mut walked, start) {
            let names: Vec<String> = circle.iter().map(|op| findings.op(*op)).collect();
            let text = format!("each read from the next, the last from the first: {}", names.join(", "));
            findings.add(text, &circle, &[], &[]);
        }
    }
    findings.found
}

/// From the writer to the reader, between different transactions.
fn edges(view: &View<'_>) -> Vec<(OpId, OpId)> {
    let is_txn = |op: OpId| view.history.op(op).is_some_and(|op| op.kind == Kind::Txn);
    let mut edges = Vec::new();
    for read in view.reads.iter().filter(|read| is_txn(read.op)) {
        let Some((writer, _)) = view.writer(read.value) else { continue };
        if writer != read.op && is_txn(writer) {
            edges.push((writer, read.op));
        }
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Removes repeatedly the operations that read from no remaining operation; returns those that remain.
fn peel(edges: &[(OpId, OpId)], ops: usize) -> Vec<bool> {
    let mut sources = vec![0_usize; ops];
    for (_, to) in edges {
        sources[to.0 as usize] += 1;
    }
    let mut left = vec![true; ops];
    let mut free: Vec<usize> = (0..ops).filter(|op| sources[*op] == 0).collect();
    while let Some(op) = free.pop() {
        left[op] = false;
        let first = edges.partition_point(|(from, _)| (from.0 as usize) < op);
        for (_, to) in edges[first..].iter().take_while(|(from, _)| from.0 as usize == op) {
            sources[to.0 as usize] -= 1;
            if sources[to.0 as usize] == 0 {
                free.push(to.0 as usize);
            }
        }
    }
    left
}

/// The circle that a walk back from `start` runs into, unless an earlier walk was there.
fn circle(before: &[Option<OpId>], walked: &mut [usize], start: usize) -> Option<Vec<OpId>> {
    let mut path = Vec::new();
    let mut at = start;
    while walked[at] == 0 {
        walked[at] = start + 1;
        path.push(OpId(at as u32));
        at = before[at]?.0 as usize;
    }
    if walked[at] != start + 1 {
        return None;
    }
    let first = path.iter().position(|op| op.0 as usize == at)?;
    Some(path.split_off(first))
}
