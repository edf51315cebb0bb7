//! AddRaftVoter 0-1: there is no metadata quorum whose voters could change (kraft.version is 0), so a legal
//! request is UNSUPPORTED_VERSION.

use super::authorization::Verdict;
use super::raft_voter;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::messages::{AddRaftVoterRequest, AddRaftVoterResponse};
use ottla_wire::{ErrorCode, Text};

/// S-353: ALTER on the cluster.
pub(crate) fn authorize(
    _request: &mut AddRaftVoterRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<AddRaftVoterResponse> {
    let code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    Verdict::when(rights.allows(Operation::Alter, Resource::Cluster), || refused(code, code.meaning()))
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: AddRaftVoterRequest,
    _version: i16,
) -> AddRaftVoterResponse {
    let AddRaftVoterRequest { cluster_id, voter_id, voter_directory_id, .. } = &request;
    let mut why = raft_voter::check(ctx, cluster_id.as_ref(), *voter_id, *voter_directory_id);
    if why.is_none() && request.listeners.is_empty() {
        why = Some((ErrorCode::INVALID_REQUEST, "the voter needs a listener"));
    }
    let (code, why) = why.unwrap_or(raft_voter::FIXED);
    refused(code, why)
}

fn refused(code: ErrorCode, why: &str) -> AddRaftVoterResponse {
    AddRaftVoterResponse { error_code: code.0, error_message: Some(Text::from(why)), ..Default::default() }
}
