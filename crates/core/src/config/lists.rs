//! Settings whose values are lists: items are added and taken away (IncrementalAlterConfigs).

use super::check::{ConfigError, Kind, items};
use super::{broker, topic_key};

/// The list with more items, none of them twice (IncrementalAlterConfigs APPEND).
pub(crate) fn list_append(name: &str, current: Option<&String>, more: &str) -> Result<String, ConfigError> {
    let current = current_list(name, current)?;
    let mut result: Vec<&str> = items(&current).collect();
    for item in items(more) {
        if !result.contains(&item) {
            result.push(item);
        }
    }
    Ok(result.join(","))
}

/// The list without some items (IncrementalAlterConfigs SUBTRACT).
pub(crate) fn list_subtract(
    name: &str,
    current: Option<&String>,
    fewer: &str,
) -> Result<String, ConfigError> {
    let current = current_list(name, current)?;
    let result: Vec<&str> = items(&current).filter(|item| !items(fewer).any(|gone| gone == *item)).collect();
    Ok(result.join(","))
}

fn current_list(name: &str, current: Option<&String>) -> Result<String, ConfigError> {
    let (kind, default) = match (topic_key::find(name), broker::find(name)) {
        (Some(key), _) => (key.kind, key.default),
        (None, Some(key)) => (key.kind, key.default),
        (None, None) => return Err(ConfigError::UnknownKey(name.to_owned())),
    };
    if !matches!(kind, Kind::List(_) | Kind::Replicas) {
        return Err(ConfigError::NotAList(name.to_owned()));
    }
    Ok(current.cloned().unwrap_or_else(|| default.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_grow_and_shrink_from_their_default() {
        let grown = list_append("cleanup.policy", None, "compact").unwrap();
        assert_eq!(grown, "delete,compact");
        assert_eq!(list_subtract("cleanup.policy", Some(&grown), "delete").unwrap(), "compact");
        let wrong = list_append("retention.ms", None, "1");
        assert_eq!(wrong, Err(ConfigError::NotAList("retention.ms".to_owned())));
    }
}
