//! UnregisterBroker 0: the one broker cannot be unregistered while it runs, and there is no other.

use super::authorization::Verdict;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};
use ottla_wire::{ErrorCode, Text};

/// S-353: ALTER on the cluster.
pub(crate) fn authorize(
    _request: &mut UnregisterBrokerRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<UnregisterBrokerResponse> {
    let code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    Verdict::when(rights.allows(Operation::Alter, Resource::Cluster), || refused(code, code.meaning()))
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: UnregisterBrokerRequest,
    _version: i16,
) -> UnregisterBrokerResponse {
    if request.broker_id == ctx.node_id {
        return refused(ErrorCode::INVALID_REQUEST, "the broker that answers cannot be unregistered");
    }
    refused(ErrorCode::BROKER_ID_NOT_REGISTERED, "there is no broker with this id")
}

fn refused(code: ErrorCode, why: &str) -> UnregisterBrokerResponse {
    UnregisterBrokerResponse {
        error_code: code.0,
        error_message: Some(Text::from(why)),
        ..Default::default()
    }
}
