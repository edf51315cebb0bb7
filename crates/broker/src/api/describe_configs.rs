//! DescribeConfigs 1-4: configuration of topics (resource type 2) and of the broker (4). Configuration that was set
//! while the broker runs is shown under the broker's id and, as the cluster's default, under an empty name. Left out:
//! loggers (8), client metrics (16) and groups (32), which are INVALID_REQUEST.

use super::authorization::{Verdict, denied_text};
use super::config_rows::{self, BROKER, Layers, Row, Source, Synonym, TOPIC};
use super::{AnswerError, topic_error};
use crate::authorizer::Rights;
use crate::context::Context;
use crate::session::Session;
use ottla_core::config::Kind;
use ottla_types::acl::Operation;
use ottla_wire::messages::describe_configs_request::DescribeConfigsResource;
use ottla_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use ottla_wire::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use ottla_wire::{ErrorCode, Text};
use std::collections::BTreeMap;

/// A topic's own configuration, by topic name.
type Own = BTreeMap<String, BTreeMap<String, String>>;

/// What the response shows of each key in addition to its value.
#[derive(Clone, Copy)]
struct Detail {
    synonyms: bool,
    documentation: bool,
}

/// S-336: DESCRIBE_CONFIGS on each topic or group, and on the cluster for the broker's configuration.
pub(crate) fn authorize(
    request: &mut DescribeConfigsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<DescribeConfigsResponse> {
    let mut denied = Vec::new();
    request.resources.retain(|resource| {
        let named = (resource.resource_type, &*resource.resource_name);
        let code = config_rows::denied(rights, Operation::DescribeConfigs, named);
        denied.extend(code.map(|code| DescribeConfigsResult {
            error_code: code.0,
            error_message: denied_text(),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            ..Default::default()
        }));
        code.is_none()
    });
    Verdict::without(denied, |response: &mut DescribeConfigsResponse, denied| response.results.extend(denied))
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: DescribeConfigsRequest,
    _version: i16,
) -> Result<DescribeConfigsResponse, AnswerError> {
    let topics = request.resources.iter().filter(|resource| resource.resource_type == TOPIC);
    let names: Vec<String> = topics.map(|resource| String::from(&resource.resource_name)).collect();
    let look = ctx.shards.catalog().read(move |shard, _| {
        let own = |name: String| {
            let configs = shard.catalog().topic_named(&name)?.configs.clone();
            Some((name, configs))
        };
        (Layers::of(shard), names.into_iter().filter_map(own).collect::<Own>())
    });
    let (layers, own) = look.await?;
    let detail = Detail { synonyms: request.include_synonyms, documentation: request.include_documentation };
    let result = |resource: DescribeConfigsResource| match rows(ctx, &layers, &own, &resource) {
        Ok(rows) => found(resource, rows, detail),
        Err((code, message)) => DescribeConfigsResult {
            error_code: code.0,
            error_message: Some(message.into()),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            ..Default::default()
        },
    };
    let results = request.resources.into_iter().map(result).collect();
    Ok(DescribeConfigsResponse { results, ..Default::default() })
}

fn rows(
    ctx: &Context,
    layers: &Layers,
    own: &Own,
    resource: &DescribeConfigsResource,
) -> Result<Vec<Row>, (ErrorCode, String)> {
    let name = &resource.resource_name[..];
    match resource.resource_type {
        TOPIC => match own.get(name) {
            Some(own) => Ok(layers.topic(own)),
            None => Err(topic_error::explain(&topic_error::missing(name))),
        },
        BROKER if name.is_empty() => Ok(layers.cluster_default()),
        BROKER if name.parse() == Ok(ctx.node_id) => {
            let mut fixed = fixed_rows(ctx);
            let mut rows = layers.broker();
            rows.retain(|row| fixed.iter().all(|fixed| fixed.name != row.name));
            rows.append(&mut fixed);
            Ok(rows)
        }
        BROKER => {
            let why = format!("the only broker here is {}, not '{name}'", ctx.node_id);
            Err((ErrorCode::INVALID_REQUEST, why))
        }
        other => {
            let why =
                format!("configuration of resource type {other} is not served; 2 (topic) and 4 (broker) are");
            Err((ErrorCode::INVALID_REQUEST, why))
        }
    }
}

/// Keys that tools read and that are not configuration keys of the core.
fn fixed_rows(ctx: &Context) -> Vec<Row> {
    let row = |name, kind, value: String, doc| {
        let synonyms = vec![Synonym { name, value: value.clone(), source: Source::Static }];
        Row { name, value: Some(value), read_only: true, kind, doc, synonyms }
    };
    let (list, id) = (Kind::List(&[]), Kind::Int(0, i32::MAX));
    let listener = format!("{}://{}:{}", ctx.listener.name, ctx.advertised().host, ctx.advertised().port);
    vec![
        row("advertised.listeners", list, listener, "the address that clients connect to"),
        row("broker.id", id, ctx.node_id.to_string(), "another name of node.id"),
        row("log.dirs", list, ctx.data_folder.clone(), "the data folder"),
    ]
}

fn found(resource: DescribeConfigsResource, rows: Vec<Row>, detail: Detail) -> DescribeConfigsResult {
    // An empty list of keys means all of them, as null does.
    let keys = resource.configuration_keys.unwrap_or_default();
    let wanted = |row: &Row| keys.is_empty() || keys.iter().any(|key| *key == row.name);
    let configs = rows.into_iter().filter(wanted).map(|row| config(row, detail)).collect();
    DescribeConfigsResult {
        error_message: Some(Text::default()),
        resource_type: resource.resource_type,
        resource_name: resource.resource_name,
        configs,
        ..Default::default()
    }
}

fn config(row: Row, detail: Detail) -> DescribeConfigsResourceResult {
    let source = row.source();
    let synonyms = row.synonyms.into_iter().filter(|_| detail.synonyms);
    // passwords are never shown.
    let is_sensitive = row.kind == Kind::Password;
    let shown = |value: String| (!is_sensitive).then(|| Text::from(value));
    DescribeConfigsResourceResult {
        name: Text::from_static(row.name),
        value: row.value.and_then(shown),
        read_only: row.read_only,
        is_sensitive,
        config_source: source as i8,
        synonyms: synonyms
            .map(|synonym| DescribeConfigsSynonym {
                name: Text::from_static(synonym.name),
                value: shown(synonym.value),
                source: synonym.source as i8,
                ..Default::default()
            })
            .collect(),
        config_type: row.kind.wire_type(),
        documentation: detail.documentation.then(|| Text::from_static(row.doc)),
        ..Default::default()
    }
}
