//! RemoveRaftVoter 0: there is no metadata quorum whose voters could change (kraft.version is 0), so a legal
//! request is UNSUPPORTED_VERSION.

use super::authorization::Verdict;
use super::raft_voter;
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
    let RemoveRaftVoterRequest { cluster_id, voter_id, voter_directory_id, .. } = &request;
    let why = raft_voter::check(ctx, cluster_id.as_ref(), *voter_id, *voter_directory_id);
    let (code, why) = why.unwrap_or(raft_voter::FIXED);
    refused(code, why)
}

fn refused(code: ErrorCode, why: &str) -> RemoveRaftVoterResponse {
    RemoveRaftVoterResponse { error_code: code.0, error_message: Some(Text::from(why)), ..Default::default() }
}
