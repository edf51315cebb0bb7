//! AlterConfigs 0-2: replaces the configuration of topics (resource type 2) and of the broker (4).
//! The broker's id and the empty name, which is the cluster's default, change the same configuration.
//! Left out: loggers (8), client metrics (16) and groups (32), which are INVALID_REQUEST.

use super::authorization::{Verdict, denied_text};
use super::config_rows::{self, BROKER, GROUP, TOPIC};
use super::{AnswerError, named_once, topic_error};
use crate::authorizer::Rights;
use crate::context::Context;
use crate::session::Session;
use ottla_core::catalog::{AlterConfigs, ConfigChange, ConfigOp, ConfigTarget, TopicError};
use ottla_types::acl::Operation;
use ottla_wire::messages::{
    AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, alter_configs_response, incremental_alter_configs_response,
};
use ottla_wire::{ErrorCode, Text};

/// The changes of one resource, from either API.
struct ResourceChange {
    resource_type: i8,
    resource_name: Text,
    replace: bool,
    /// Key, number of the operation, value.
    ops: Vec<(Text, i8, Option<Text>)>,
}

/// The result for one resource.
struct ResourceResult {
    resource_type: i8,
    resource_name: Text,
    error: ErrorCode,
    message: Option<Text>,
}

impl From<ResourceResult> for alter_configs_response::AlterConfigsResourceResponse {
    fn from(result: ResourceResult) -> Self {
        Self {
            error_code: result.error.0,
            error_message: result.message,
            resource_type: result.resource_type,
            resource_name: result.resource_name,
            ..Default::default()
        }
    }
}

impl From<ResourceResult> for incremental_alter_configs_response::AlterConfigsResourceResponse {
    fn from(result: ResourceResult) -> Self {
        Self {
            error_code: result.error.0,
            error_message: result.message,
            resource_type: result.resource_type,
            resource_name: result.resource_name,
            ..Default::default()
        }
    }
}

/// S-337: ALTER_CONFIGS on each topic or group, and on the cluster for the broker's configuration.
pub(crate) fn authorize(
    request: &mut AlterConfigsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<AlterConfigsResponse> {
    let refused = take_refused(rights, &mut request.resources, |one| (one.resource_type, &one.resource_name));
    Verdict::without(refused, |response: &mut AlterConfigsResponse, refused| {
        response.responses.extend(refused.into_iter().map(Into::into));
    })
}

/// The same for IncrementalAlterConfigs.
pub(crate) fn authorize_incremental(
    request: &mut IncrementalAlterConfigsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<IncrementalAlterConfigsResponse> {
    let refused = take_refused(rights, &mut request.resources, |one| (one.resource_type, &one.resource_name));
    Verdict::without(refused, |response: &mut IncrementalAlterConfigsResponse, refused| {
        response.responses.extend(refused.into_iter().map(Into::into));
    })
}

/// Takes out the resources whose configuration the client may not alter, and returns their results. `key` reads the
/// type and the name of a resource.
fn take_refused<R>(
    rights: &Rights<'_>,
    resources: &mut Vec<R>,
    key: impl Fn(&R) -> (i8, &Text),
) -> Vec<ResourceResult> {
    let mut refused = Vec::new();
    resources.retain(|resource| {
        let (resource_type, name) = key(resource);
        let denied = config_rows::denied(rights, Operation::AlterConfigs, (resource_type, name));
        refused.extend(denied.map(|error| ResourceResult {
            resource_type,
            resource_name: name.clone(),
            error,
            message: denied_text_of(resource_type),
        }));
        denied.is_none()
    });
    refused
}

/// The message for a denied resource. Kafka has none for the broker's configuration.
fn denied_text_of(resource_type: i8) -> Option<Text> {
    denied_text().filter(|_| [TOPIC, GROUP].contains(&resource_type))
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: AlterConfigsRequest,
    _version: i16,
) -> Result<AlterConfigsResponse, AnswerError> {
    let asked = request.resources.into_iter().map(|resource| ResourceChange {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name,
        replace: true,
        ops: resource.configs.into_iter().map(|config| (config.name, SET, config.value)).collect(),
    });
    let results = alter(ctx, asked.collect(), request.validate_only).await?;
    Ok(AlterConfigsResponse {
        responses: results.into_iter().map(Into::into).collect(),
        ..Default::default()
    })
}

/// IncrementalAlterConfigs.
pub(crate) async fn answer_incremental(
    ctx: &Context,
    _session: &Session,
    request: IncrementalAlterConfigsRequest,
    _version: i16,
) -> Result<IncrementalAlterConfigsResponse, AnswerError> {
    let asked = request.resources.into_iter().map(|resource| ResourceChange {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name,
        replace: false,
        ops: resource
            .configs
            .into_iter()
            .map(|config| (config.name, config.config_operation, config.value))
            .collect(),
    });
    let results = alter(ctx, asked.collect(), request.validate_only).await?;
    Ok(IncrementalAlterConfigsResponse {
        responses: results.into_iter().map(Into::into).collect(),
        ..Default::default()
    })
}

async fn alter(
    ctx: &Context,
    asked: Vec<ResourceChange>,
    validate_only: bool,
) -> Result<Vec<ResourceResult>, AnswerError> {
    let key = |asked: &ResourceChange| (asked.resource_type, asked.resource_name.clone());
    let (asked, twice) = named_once(asked, key);
    let invalid = |resource: (i8, Text), why: &str| ResourceResult {
        resource_type: resource.0,
        resource_name: resource.1,
        error: ErrorCode::INVALID_REQUEST,
        message: Some(why.into()),
    };
    let mut results: Vec<ResourceResult> =
        twice.into_iter().map(|resource| invalid(resource, "the resource is named twice")).collect();
    let mut targets = Vec::with_capacity(asked.len());
    let mut changes = Vec::with_capacity(asked.len());
    for one in asked {
        let resource = key(&one);
        match change(ctx, one) {
            Ok(change) => {
                changes.push(change);
                targets.push(resource);
            }
            Err(why) => results.push(invalid(resource, &why)),
        }
    }
    let judged = ctx.shards.catalog().submit(AlterConfigs { changes, validate_only }).await?;
    results.extend(targets.into_iter().zip(judged).map(|((resource_type, resource_name), result)| {
        let (error, message) = match result {
            Ok(()) => (ErrorCode::NONE, None),
            Err(error) => refusal(resource_type, error),
        };
        ResourceResult { resource_type, resource_name, error, message }
    }));
    Ok(results)
}

/// A bad value of a topic is INVALID_CONFIG, a bad value of the broker INVALID_REQUEST, as in Kafka.
fn refusal(resource_type: i8, error: TopicError) -> (ErrorCode, Option<Text>) {
    let (code, message) = topic_error::explain(&match error {
        TopicError::UnknownName(name) => topic_error::missing(&name),
        other => other,
    });
    let bad_for_broker = resource_type == BROKER && code == ErrorCode::INVALID_CONFIG;
    (if bad_for_broker { ErrorCode::INVALID_REQUEST } else { code }, Some(message.into()))
}

fn change(ctx: &Context, asked: ResourceChange) -> Result<ConfigChange, String> {
    let name = &asked.resource_name[..];
    let target = match asked.resource_type {
        TOPIC if name.is_empty() => return Err("a topic's configuration needs the topic's name".to_owned()),
        TOPIC => ConfigTarget::Topic(name.to_owned()),
        BROKER if name.is_empty() || name.parse() == Ok(ctx.node_id) => ConfigTarget::Broker,
        BROKER => return Err(format!("the only broker here is {}, not '{name}'", ctx.node_id)),
        other => {
            return Err(format!(
                "configuration of resource type {other} is not served; 2 (topic) and 4 (broker) are"
            ));
        }
    };
    let (ops, twice) = named_once(asked.ops, |(key, ..)| key.clone());
    if let Some(key) = twice.first() {
        return Err(format!("the key '{key}' is named twice"));
    }
    let ops = ops.into_iter().map(|(key, number, value)| Ok((String::from(&key), op(&key, number, value)?)));
    Ok(ConfigChange { target, replace: asked.replace, ops: ops.collect::<Result<_, String>>()? })
}

/// The number of the operation that sets a key.
const SET: i8 = 0;

fn op(key: &str, number: i8, value: Option<Text>) -> Result<ConfigOp, String> {
    let needed =
        |value: Option<Text>| value.map(String::from).ok_or_else(|| format!("'{key}' needs a value"));
    match number {
        SET => Ok(ConfigOp::Set(needed(value)?)),
        1 => Ok(ConfigOp::Delete),
        2 => Ok(ConfigOp::Append(needed(value)?)),
        3 => Ok(ConfigOp::Subtract(needed(value)?)),
        other => Err(format!(
            "'{key}': no operation has the number {other}; 0 sets, 1 deletes, 2 appends, 3 subtracts"
        )),
    }
}
