//! Kafka's error codes and messages for refusals of the catalog.

use ottla_core::catalog::{TopicError, check_name};
use ottla_core::config::ConfigError;
use ottla_wire::ErrorCode;

/// The code and the message for a refusal.
pub(super) fn explain(error: &TopicError) -> (ErrorCode, String) {
    match error {
        TopicError::UnknownName(name) => {
            (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("no topic is named '{name}'"))
        }
        TopicError::UnknownId(_) => (ErrorCode::UNKNOWN_TOPIC_ID, "no topic has this id".to_owned()),
        TopicError::Exists(name) => {
            (ErrorCode::TOPIC_ALREADY_EXISTS, format!("topic '{name}' already exists"))
        }
        TopicError::BadName(why) => (ErrorCode::INVALID_TOPIC_EXCEPTION, why.clone()),
        TopicError::BadPartitions(why) => (ErrorCode::INVALID_PARTITIONS, why.clone()),
        TopicError::BadReplicationFactor(factor) => (
            ErrorCode::INVALID_REPLICATION_FACTOR,
            format!("replication factor {factor} cannot be met: there is one broker"),
        ),
        TopicError::BadAssignment(why) => (ErrorCode::INVALID_REPLICA_ASSIGNMENT, why.clone()),
        TopicError::BadConfig(error) => (config_code(error), error.to_string()),
        TopicError::BadRequest(why) => (ErrorCode::INVALID_REQUEST, why.clone()),
        TopicError::DeletionDisabled => (
            ErrorCode::TOPIC_DELETION_DISABLED,
            "topics cannot be deleted here: delete.topic.enable is false".to_owned(),
        ),
    }
}

/// Why a topic does not exist: its name is not legal, or no topic has the name.
pub(super) fn missing(name: &str) -> TopicError {
    match check_name(name) {
        Err(illegal) => illegal,
        Ok(()) => TopicError::UnknownName(name.to_owned()),
    }
}

/// Kafka distinguishes a key that cannot be changed from a value that is not allowed.
fn config_code(error: &ConfigError) -> ErrorCode {
    match error {
        ConfigError::ReadOnly(_) => ErrorCode::INVALID_REQUEST,
        _ => ErrorCode::INVALID_CONFIG,
    }
}
