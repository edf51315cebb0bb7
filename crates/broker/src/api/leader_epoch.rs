//! The leader epoch in requests.

use ottla_core::catalog::LEADER_EPOCH;
use ottla_wire::ErrorCode;

/// Compares the leader epoch that a client names, -1 for none, with the broker's.
pub(super) fn check_epoch(current: i32) -> Result<(), ErrorCode> {
    match current {
        -1 | LEADER_EPOCH => Ok(()),
        older if older < LEADER_EPOCH => Err(ErrorCode::FENCED_LEADER_EPOCH),
        _ => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
    }
}
