//! ListConfigResources 0-1: what has a configuration (KIP-1142). Version 0 lists subscriptions of client metrics only.
//! Left out: there are neither such subscriptions (16) nor configurations of groups (32).

use super::authorization::CLUSTER_DENIED;
use super::authorization::Verdict;
use super::config_rows::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::host::HostGone;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::messages::list_config_resources_response::ConfigResource;
use ottla_wire::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};
use ottla_wire::{ErrorCode, Text};

/// The types that have configurations.
const TYPES: [i8; 5] = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP];

/// S-361: DESCRIBE_CONFIGS on the cluster.
pub(crate) fn authorize(
    _request: &mut ListConfigResourcesRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<ListConfigResourcesResponse> {
    let allowed = rights.allows(Operation::DescribeConfigs, Resource::Cluster);
    Verdict::when(allowed, || refused(ErrorCode(CLUSTER_DENIED)))
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: ListConfigResourcesRequest,
    version: i16,
) -> Result<ListConfigResourcesResponse, HostGone> {
    let wanted = request.resource_types.to_vec();
    let types = match (version, &wanted[..]) {
        (0, _) => vec![CLIENT_METRICS],
        (_, []) => TYPES.to_vec(),
        (..) => wanted,
    };
    if types.iter().any(|wanted| !TYPES.contains(wanted)) {
        return Ok(refused(ErrorCode::UNSUPPORTED_VERSION));
    }
    let names = ctx.shards.catalog().read(|shard, _| {
        shard.catalog().topics_by_name().map(|topic| Text::from(topic.name.as_str())).collect::<Vec<_>>()
    });
    let topics = names.await?;
    let node = Text::from(ctx.node_id.to_string());
    let resource = |resource_type: i8, resource_name: Text| ConfigResource {
        resource_name,
        resource_type,
        ..Default::default()
    };
    let mut config_resources = Vec::new();
    for listed in TYPES.into_iter().filter(|listed| types.contains(listed)) {
        match listed {
            TOPIC => config_resources.extend(topics.iter().map(|name| resource(TOPIC, name.clone()))),
            BROKER | BROKER_LOGGER => config_resources.push(resource(listed, node.clone())),
            _ => {}
        }
    }
    Ok(ListConfigResourcesResponse { config_resources, ..Default::default() })
}

fn refused(code: ErrorCode) -> ListConfigResourcesResponse {
    ListConfigResourcesResponse { error_code: code.0, ..Default::default() }
}
