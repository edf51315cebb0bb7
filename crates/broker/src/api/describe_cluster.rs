//! DescribeCluster 0-2: the only broker, which is the controller. A request for controllers (KIP-919) is
//! MISMATCHED_ENDPOINT_TYPE. Left out: racks; no broker is ever fenced.

use crate::authorizer::Resource;
use crate::context::Context;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::ErrorCode;
use ottla_wire::messages::describe_cluster_response::DescribeClusterBroker;
use ottla_wire::messages::{DescribeClusterRequest, DescribeClusterResponse};

/// Endpoint types.
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: DescribeClusterRequest,
    _version: i16,
) -> DescribeClusterResponse {
    match request.endpoint_type {
        BROKERS => cluster(ctx, session, &request),
        CONTROLLERS => {
            let why = "this is an endpoint of brokers, not of controllers";
            refused(ErrorCode::MISMATCHED_ENDPOINT_TYPE, why.to_owned())
        }
        other => {
            let why = format!("no endpoint type has the number {other}; 1 is brokers");
            refused(ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, why)
        }
    }
}

fn cluster(ctx: &Context, session: &Session, request: &DescribeClusterRequest) -> DescribeClusterResponse {
    let broker = DescribeClusterBroker {
        broker_id: ctx.node_id,
        host: session.advertised().host.as_str().into(),
        port: session.advertised().port.into(),
        ..Default::default()
    };
    let mut response = DescribeClusterResponse {
        cluster_id: ctx.cluster_id.clone(),
        controller_id: ctx.node_id,
        brokers: vec![broker],
        ..Default::default()
    };
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = visible_operations(ctx, session);
    }
    response
}

/// S-354: the operations that the client may do on the cluster; none if it may not describe it.
pub(super) fn visible_operations(ctx: &Context, session: &Session) -> i32 {
    let rights = ctx.rights(session);
    if !rights.probes(Operation::Describe, Resource::Cluster) {
        return 0;
    }
    rights.operations(Resource::Cluster)
}

fn refused(error: ErrorCode, why: String) -> DescribeClusterResponse {
    DescribeClusterResponse { error_code: error.0, error_message: Some(why.into()), ..Default::default() }
}
