//! `--filter`: which frames are shown.

use ottla::tap::RelayedFrame;
use ottla_wire::ApiKey;
use ottla_wire::tables::TableSet;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// Requests of a connection that are remembered to show their responses.
const MAX_REMEMBERED: usize = 4096;

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Filter {
    Api(ApiKey),
    Client(String),
    Topic(String),
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Filter, String> {
        match text.split_once('=') {
            Some(("api", name)) => api(name).map(Filter::Api),
            Some(("client", id)) => Ok(Filter::Client(id.to_owned())),
            Some(("topic", name)) => Ok(Filter::Topic(name.to_owned())),
            _ => Err("expected api=, client= or topic=".to_owned()),
        }
    }
}

/// An API by its name in any case, or by its number.
fn api(name: &str) -> Result<ApiKey, String> {
    if let Ok(number) = name.parse() {
        return Ok(ApiKey(number));
    }
    let api = TableSet::built_in().apis().iter().find(|api| api.name.eq_ignore_ascii_case(name));
    api.map(|api| api.key).ok_or_else(|| format!("no API {name}; `ottla apis` lists them"))
}

/// True if a name equals the pattern, or begins with it if the pattern ends in `*`.
fn is_like(name: &str, pattern: &str) -> bool {
    pattern.strip_suffix('*').map_or(name == pattern, |beginning| name.starts_with(beginning))
}

/// All conditions: one of each kind must hold.
#[derive(Debug, Default)]
pub(in crate::cli) struct Filters {
    apis: Vec<ApiKey>,
    clients: Vec<String>,
    topics: Vec<String>,
    /// Correlation ids of shown requests without a response yet, by connection.
    shown_requests: BTreeMap<u64, BTreeSet<i32>>,
}

impl Filters {
    pub(in crate::cli) fn new(all: Vec<Filter>) -> Filters {
        let mut filters = Filters::default();
        for one in all {
            match one {
                Filter::Api(key) => filters.apis.push(key),
                Filter::Client(id) => filters.clients.push(id),
                Filter::Topic(name) => filters.topics.push(name),
            }
        }
        filters
    }

    /// True if the header matches; the topics are checked with [`Filters::fits`].
    pub(in crate::cli) fn may_fit(&self, frame: &RelayedFrame) -> bool {
        let Some(head) = &frame.head else { return self.apis.is_empty() && self.clients.is_empty() };
        let id = head.client_id.as_deref().unwrap_or_default();
        (self.apis.is_empty() || self.apis.contains(&head.key))
            && (self.clients.is_empty() || self.clients.iter().any(|pattern| is_like(id, pattern)))
    }

    /// True if the frame names a matching topic, or is the response to a request that does.
    pub(in crate::cli) fn fits(&mut self, frame: &RelayedFrame, topics: &BTreeSet<String>) -> bool {
        if self.topics.is_empty() {
            return true;
        }
        let fits = topics.iter().any(|topic| self.topics.iter().any(|pattern| is_like(topic, pattern)));
        let Some(head) = &frame.head else { return fits };
        let shown_requests = self.shown_requests.entry(frame.connection).or_default();
        if !frame.is_request {
            return shown_requests.remove(&head.correlation_id) || fits;
        }
        if fits && shown_requests.len() < MAX_REMEMBERED {
            shown_requests.insert(head.correlation_id);
        }
        fits
    }

    /// Forgets a connection.
    pub(in crate::cli) fn closed(&mut self, connection: u64) {
        self.shown_requests.remove(&connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        assert_eq!("api=produce".parse(), Ok(Filter::Api(ApiKey::PRODUCE)));
        assert_eq!("api=1".parse(), Ok(Filter::Api(ApiKey::FETCH)));
        assert_eq!("topic=a=b".parse(), Ok(Filter::Topic("a=b".to_owned())));
        assert!("api=Produced".parse::<Filter>().unwrap_err().contains("ottla apis"));
        assert!("group=g".parse::<Filter>().is_err());
    }

    #[test]
    fn a_star_at_the_end_takes_the_rest() {
        assert!(is_like("rdkafka-1", "rdkafka*") && is_like("a", "a") && is_like("", "*"));
        assert!(!is_like("rdkafka-1", "rdkafka") && !is_like("x", "y*"));
    }
}
