//! The voters of the metadata quorum. There is no quorum whose voters could change (kraft.version is 0), so a legal
//! request is UNSUPPORTED_VERSION.

use crate::context::Context;
use ottla_wire::{ErrorCode, Text, Uuid};

/// Why a voter that requests name so cannot be added or removed; none if the request is legal.
pub(super) fn check(
    ctx: &Context,
    cluster_id: Option<&Text>,
    voter_id: i32,
    directory_id: Uuid,
) -> Option<(ErrorCode, &'static str)> {
    if cluster_id.is_some_and(|id| *id != ctx.cluster_id) {
        return Some((ErrorCode::INCONSISTENT_CLUSTER_ID, "the cluster id is that of another cluster"));
    }
    if voter_id < 0 {
        return Some((ErrorCode::INVALID_REQUEST, "the id of the voter is negative"));
    }
    directory_id.is_zero().then_some((ErrorCode::INVALID_REQUEST, "the directory id of the voter is zero"))
}

/// The refusal of a legal request.
pub(super) const FIXED: (ErrorCode, &str) =
    (ErrorCode::UNSUPPORTED_VERSION, "the voters of this cluster cannot change: kraft.version is 0");
