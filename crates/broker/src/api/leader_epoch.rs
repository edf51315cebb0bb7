//! What clients believe of a partition's leader.

use ottla_core::partition::LEADER_EPOCH;
use ottla_wire::ErrorCode;

/// Judges the leader epoch that a client believes in: -1 for none, or the broker's.
pub(super) fn check_epoch(current: i32) -> Result<(), ErrorCode> {
    match current {
        -1 | LEADER_EPOCH => Ok(()),
        older if older < LEADER_EPOCH => Err(ErrorCode::FENCED_LEADER_EPOCH),
        _ => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
    }
}
