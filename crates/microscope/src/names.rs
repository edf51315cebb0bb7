//! Finds APIs and messages by name.

use ottla_wire::tables::{Direction, MessageKind, MessageTable, TableSet};
use ottla_wire::{ApiInfo, ApiKey};

/// An API or message that a name was found for.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// An API, or its request or response alone.
    Api(&'static ApiInfo, Option<Direction>),
    /// A message that is neither request nor response.
    Message(&'static MessageTable),
}

/// A name that no API or message has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The name.
    pub name: String,
    /// Similar names, the most similar first; may be empty.
    pub near: Vec<&'static str>,
}

/// Finds a name, ignoring case: the name or number of an API, the name of its request or response, or the name of
/// another message.
///
/// # Errors
/// No API or message has the name.
pub fn find(tables: &TableSet, name: &str) -> Result<Subject, UnknownName> {
    let name = name.trim();
    if let Some(api) = name.parse().ok().and_then(|key| tables.api(ApiKey(key))) {
        return Ok(Subject::Api(api, None));
    }
    let sides = [("", None), ("request", Some(Direction::Request)), ("response", Some(Direction::Response))];
    let lower = name.to_ascii_lowercase();
    for (suffix, direction) in sides {
        let api = lower
            .strip_suffix(suffix)
            .and_then(|lower| tables.apis().iter().find(|api| api.name.eq_ignore_ascii_case(lower)));
        if let Some(api) = api {
            return Ok(Subject::Api(api, direction));
        }
    }
    match tables.messages().iter().find(|table| table.name.eq_ignore_ascii_case(name)) {
        Some(table) => Ok(Subject::Message(table)),
        None => Err(UnknownName { name: name.to_owned(), near: near(tables, &lower) }),
    }
}

/// Names that contain this one, or differ from it in few letters.
fn near(tables: &TableSet, lower: &str) -> Vec<&'static str> {
    const MAX_NAMES: usize = 4;
    let stem = lower.trim_end_matches("request").trim_end_matches("response");
    let others = tables
        .messages()
        .iter()
        .filter(|table| !matches!(table.kind, MessageKind::Request | MessageKind::Response));
    let names = tables.apis().iter().map(|api| api.name).chain(others.map(|table| table.name));
    let mut found: Vec<(usize, &'static str)> = names
        .filter_map(|name| {
            let other = name.to_ascii_lowercase();
            let holds = stem.len() >= 3 && other.contains(stem);
            let far = strsim::levenshtein(stem, &other);
            (holds || far <= (stem.len() / 4).max(1)).then_some((far, name))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().take(MAX_NAMES).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(name: &str) -> (&'static str, Option<Direction>) {
        match find(TableSet::built_in(), name) {
            Ok(Subject::Api(api, direction)) => (api.name, direction),
            other => panic!("{name}: {other:?}"),
        }
    }

    fn near(name: &str) -> Vec<&'static str> {
        find(TableSet::built_in(), name).unwrap_err().near
    }

    #[test]
    fn apis_go_by_name_number_and_side() {
        assert_eq!(api("TxnOffsetCommit"), ("TxnOffsetCommit", None));
        assert_eq!(api("28"), ("TxnOffsetCommit", None));
        assert_eq!(api("fetchrequest"), ("Fetch", Some(Direction::Request)));
        assert_eq!(api("FETCHRESPONSE"), ("Fetch", Some(Direction::Response)));
        let other = find(TableSet::built_in(), "consumerprotocolsubscription");
        assert!(matches!(other, Ok(Subject::Message(table)) if table.name == "ConsumerProtocolSubscription"));
    }

    #[test]
    fn what_is_not_known_is_guessed_at() {
        assert_eq!(near("TxnOfsetCommit"), ["TxnOffsetCommit"]);
        assert_eq!(near("metdata"), ["Metadata"]);
        assert_eq!(near("Telemetry").len(), 2);
        assert!(near("xyzzy").is_empty());
        assert!(near("").is_empty());
    }
}
