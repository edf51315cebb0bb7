//! FindCoordinator 0-6: this broker coordinates every group and every transactional id.
//! Left out: coordinators of share groups (key type 2), which are answered INVALID_REQUEST.

use super::authorization::{Verdict, take_denied};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::messages::find_coordinator_response::Coordinator;
use ottla_wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use ottla_wire::{ErrorCode, Text};

/// Key types: a group, a transactional id, a partition of a share group.
pub(super) const GROUP: i8 = 0;
pub(super) const TRANSACTION: i8 = 1;
pub(super) const SHARE: i8 = 2;
/// The error message where there is no error.
const NONE: Text = Text::from_static("NONE");

/// S-314 to S-316: DESCRIBE on each group or transactional id; for share groups CLUSTER_ACTION on the cluster.
pub(crate) fn authorize(
    request: &mut FindCoordinatorRequest,
    rights: &Rights<'_>,
    version: i16,
) -> Verdict<FindCoordinatorResponse> {
    let key_type = request.key_type;
    let (code, allows): (ErrorCode, &dyn Fn(&Text) -> bool) = match key_type {
        GROUP => (ErrorCode::GROUP_AUTHORIZATION_FAILED, &|key| {
            rights.allows(Operation::Describe, Resource::Group(key))
        }),
        TRANSACTION => (ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, &|key| {
            rights.allows(Operation::Describe, Resource::TransactionalId(key))
        }),
        SHARE => (ErrorCode::CLUSTER_AUTHORIZATION_FAILED, &|_| {
            rights.allows(Operation::ClusterAction, Resource::Cluster)
        }),
        _ => return Verdict::Allowed,
    };
    if version < 4 {
        let allowed = allows(&request.key);
        let why = Text::from_static(code.meaning());
        return Verdict::when(allowed, || one(denied(request.key.clone(), code, why)));
    }
    let keys = take_denied(&mut request.coordinator_keys, allows);
    Verdict::without(keys, move |response: &mut FindCoordinatorResponse, keys| {
        response.coordinators.extend(keys.into_iter().map(|key| denied(key, code, Text::default())));
    })
}

fn denied(key: Text, code: ErrorCode, why: Text) -> Coordinator {
    let error_message = Some(why);
    Coordinator { key, node_id: -1, port: -1, error_code: code.0, error_message, ..Default::default() }
}

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: FindCoordinatorRequest,
    version: i16,
) -> FindCoordinatorResponse {
    let served = matches!(request.key_type, GROUP | TRANSACTION);
    if version < 4 {
        return one(find(ctx, session, request.key, served));
    }
    let keys = request.coordinator_keys.into_iter();
    let coordinators = keys.map(|key| find(ctx, session, key, served)).collect();
    FindCoordinatorResponse { coordinators, ..Default::default() }
}

fn find(ctx: &Context, session: &Session, key: Text, served: bool) -> Coordinator {
    if !served {
        let why = "the coordinators of groups (key type 0) and of transactions (1) can be found here";
        return Coordinator {
            key,
            node_id: -1,
            port: -1,
            error_code: ErrorCode::INVALID_REQUEST.0,
            error_message: Some(Text::from_static(why)),
            ..Default::default()
        };
    }
    Coordinator {
        key,
        node_id: ctx.node_id,
        host: session.advertised().host.as_str().into(),
        port: session.advertised().port.into(),
        ..Default::default()
    }
}

/// Before version 4 there is one key, and its row is the response.
fn one(found: Coordinator) -> FindCoordinatorResponse {
    FindCoordinatorResponse {
        error_code: found.error_code,
        // Kafka sends the name of the error here, also for NONE.
        error_message: Some(found.error_message.filter(|text| !text.is_empty()).unwrap_or(NONE)),
        node_id: found.node_id,
        host: found.host,
        port: found.port,
        ..Default::default()
    }
}
