//! RemoveRaftVoter 0: there is no metadata quorum whose voters could change (kraft.version is 0), so a legal
//! request is UNSUPPORTED_VERSION.

use super::authorization::Verdict;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::messages::{RemoveRaftVoterRequest, RemoveRaftVoterResponse};
use ottla_wire::{ErrorCode, Text};

/// S-353: ALTER on the cluster.
pub(crate) fn authorize(
    _request: &mut RemoveRaftVoterRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<RemoveRaftVoterResponse> {
    let code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    Verdict::when(rights.allows(Operation::Alter, Resource::Cluster), || refused(code, code.meaning()))
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: RemoveRaftVoterRequest,
    _version: i16,
) -> RemoveRaftVoterResponse {
    if request.cluster_id.as_ref().is_some_and(|id| *id != ctx.cluster_id) {
        return refused(ErrorCode::INCONSISTENT_CLUSTER_ID, "the cluster id is that of another cluster");
    }
    if request.voter_id < 0 {
        return refused(ErrorCode::INVALID_REQUEST, "the id of the voter is negative");
    }
    if request.voter_directory_id.is_zero() {
        return refused(ErrorCode::INVALID_REQUEST, "the directory id of the voter is zero");
    }
    refused(ErrorCode::UNSUPPORTED_VERSION, "the voters of this cluster cannot change: kraft.version is 0")
}

fn refused(code: ErrorCode, why: &str) -> RemoveRaftVoterResponse {
    RemoveRaftVoterResponse { error_code: code.0, error_message: Some(Text::from(why)), ..Default::default() }
}
