//! UnregisterController 0: the one controller cannot be unregistered while it runs, and there is no other.

use super::authorization::Verdict;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::messages::{UnregisterControllerRequest, UnregisterControllerResponse};
use ottla_wire::{ErrorCode, Text};

/// S-353: ALTER on the cluster.
pub(crate) fn authorize(
    _request: &mut UnregisterControllerRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<UnregisterControllerResponse> {
    let code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    Verdict::when(rights.allows(Operation::Alter, Resource::Cluster), || refused(code, code.meaning()))
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: UnregisterControllerRequest,
    _version: i16,
) -> UnregisterControllerResponse {
    if request.controller_id == ctx.node_id {
        return refused(ErrorCode::INVALID_REQUEST, "the controller that answers cannot be unregistered");
    }
    refused(ErrorCode::CONTROLLER_ID_NOT_REGISTERED, "there is no controller with this id")
}

fn refused(code: ErrorCode, why: &str) -> UnregisterControllerResponse {
    UnregisterControllerResponse {
        error_code: code.0,
        error_message: Some(Text::from(why)),
        ..Default::default()
    }
}
