//! Numbers that may only grow, such as a watermark: a later observation must not be lower than an earlier one.

use crate::history::OpId;

/// That a number was at least `least` at `end`; if `seen`, that it was exactly that at some time after `begin`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<S> {
    /// What the number belongs to.
    pub(super) subject: S,
    pub(super) begin: u64,
    /// `None` if the operation did not end: nothing follows from it for others.
    pub(super) end: Option<u64>,
    pub(super) least: i64,
    pub(super) seen: bool,
    pub(super) op: OpId,
}

/// Of each claim that was seen too low: the claim that ended before it began and is higher, and itself.
pub(super) fn steps_back<S: Copy + Ord>(claims: &[Claim<S>]) -> Vec<(Claim<S>, Claim<S>)> {
    let mut seen: Vec<Claim<S>> = claims.iter().copied().filter(|claim| claim.seen).collect();
    seen.sort_by_key(|claim| (claim.subject, claim.begin, claim.op));
    let mut known: Vec<Claim<S>> = claims.iter().copied().filter(|claim| claim.end.is_some()).collect();
    known.sort_by_key(|claim| (claim.subject, claim.end, claim.op));
    let mut found = Vec::new();
    let mut next = 0;
    let mut highest: Option<Claim<S>> = None;
    for claim in seen {
        if highest.is_some_and(|highest| highest.subject != claim.subject) {
            highest = None;
        }
        while let Some(before) = known.get(next) {
            let past = (before.subject, before.end) < (claim.subject, Some(claim.begin));
            if !past {
                break;
            }
            let higher = highest.is_none_or(|highest| highest.least < before.least);
            if before.subject == claim.subject && higher {
                highest = Some(*before);
            }
            next += 1;
        }
        if let Some(before) = highest.filter(|before| before.least > claim.least) {
            found.push((before, claim));
        }
    }
    found
}
