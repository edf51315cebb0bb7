//! The filter of the trace.

use super::exchange::{Exchange, RequestHead};
use ottla_wire::ApiKey;

/// Conditions on an exchange. An exchange passes if it meets all that are given; the empty filter passes all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceFilter {
    /// The number of the connection.
    pub connection: Option<u64>,
    /// The exact client id.
    pub client_id: Option<String>,
    /// The API.
    pub api: Option<ApiKey>,
    /// The name of a topic in the request.
    pub topic: Option<String>,
    /// A transactional id in the request.
    pub transactional_id: Option<String>,
}

impl TraceFilter {
    /// Whether an exchange passes.
    pub fn passes(&self, exchange: &Exchange) -> bool {
        let has = |all: &[String], one: &Option<String>| one.as_ref().is_none_or(|one| all.contains(one));
        self.passes_head(exchange.connection, exchange.api, &exchange.client_id)
            && has(&exchange.topics, &self.topic)
            && has(&exchange.transactional_ids, &self.transactional_id)
    }

    /// Whether an exchange with this header may pass.
    pub(super) fn may_pass(&self, connection: u64, head: &RequestHead) -> bool {
        self.passes_head(connection, head.api, &head.client_id)
    }

    fn passes_head(&self, connection: u64, api: ApiKey, client_id: &str) -> bool {
        self.connection.is_none_or(|wanted| wanted == connection)
            && self.api.is_none_or(|wanted| wanted == api)
            && self.client_id.as_ref().is_none_or(|wanted| wanted == client_id)
    }
}
