//! Configuration under Kafka's own names: what keys exist, what values they take, and what they come to.

mod broker;
mod check;
mod consistency;
mod ignored;
mod key;
mod lists;
mod security;
mod topic;
mod topic_key;

pub use broker::{BROKER_KEYS, Settings, broker_keys};
pub use check::{ConfigError, Kind};
pub use ignored::IGNORED_BROKER_KEYS;
pub use key::BrokerKey;
pub use security::SECURITY_KEYS;
pub use topic::{CompactionLimits, TopicCompression, TopicSettings};
pub use topic_key::{TOPIC_KEYS, TopicKey};

pub(crate) use lists::{list_append, list_subtract};

/// Checks a topic's configuration key and value.
///
/// # Errors
/// The key is unknown, or the value is not one it takes.
pub fn check_topic_config(name: &str, value: &str) -> Result<(), ConfigError> {
    let key = topic_key::find(name).ok_or_else(|| ConfigError::UnknownKey(name.to_owned()))?;
    key.kind.check(name, value)?;
    if name == "remote.storage.enable" && value.trim().eq_ignore_ascii_case("true") {
        let (name, value) = (name.to_owned(), value.to_owned());
        let expected = "false, as this broker has no tiered storage".to_owned();
        return Err(ConfigError::BadValue { name, value, expected });
    }
    Ok(())
}

/// Checks a configuration key of the broker that can be changed while it runs, and its value.
///
/// # Errors
/// The key is unknown or cannot be changed on a running broker, or the value is not one it takes.
pub fn check_dynamic_broker_config(name: &str, value: &str) -> Result<(), ConfigError> {
    let key = broker::find(name).ok_or_else(|| ConfigError::UnknownKey(name.to_owned()))?;
    if !key.dynamic {
        return Err(ConfigError::ReadOnly(name.to_owned()));
    }
    key.kind.check(name, value)
}

/// Checks one configuration key of the broker and its value, as given at start; what keys say about each other is left
/// to [`Settings::from_configs`].
///
/// # Errors
/// The key is unknown, or the value is not one it takes.
pub fn check_broker_config(name: &str, value: &str) -> Result<(), ConfigError> {
    let key = broker::find(name).ok_or_else(|| ConfigError::UnknownKey(name.to_owned()))?;
    key.kind.check(name, value)
}

/// The keys among these that are known and change nothing in this broker; a topic's and the broker's keys are looked up
/// alike.
pub fn keys_without_effect<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'static str> {
    names.filter_map(|name| match (topic_key::find(name), broker::find(name)) {
        (Some(key), _) if !key.has_effect => Some(key.name),
        (None, Some(key)) if !key.has_effect => Some(key.name),
        _ => None,
    })
}
