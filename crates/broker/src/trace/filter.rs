//! Which exchanges are wanted.

use super::exchange::{Asked, Exchange};
use ottla_wire::ApiKey;

/// What an exchange must have to be wanted: everything that is given here. The empty filter wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceFilter {
    /// The number of its connection.
    pub connection: Option<u64>,
    /// What its client calls itself, exactly.
    pub client_id: Option<String>,
    /// Its API.
    pub api: Option<ApiKey>,
    /// A topic in its request, by name.
    pub topic: Option<String>,
    /// A transactional id in its request.
    pub transactional_id: Option<String>,
}

impl TraceFilter {
    /// Whether an exchange is wanted.
    pub fn passes(&self, exchange: &Exchange) -> bool {
        let has = |all: &[String], one: &Option<String>| one.as_ref().is_none_or(|one| all.contains(one));
        self.passes_head(exchange.connection, exchange.api, &exchange.client_id)
            && has(&exchange.topics, &self.topic)
            && has(&exchange.transactional_ids, &self.transactional_id)
    }

    /// Whether an exchange may turn out to be wanted, by what the header says.
    pub(super) fn may_pass(&self, connection: u64, asked: &Asked) -> bool {
        self.passes_head(connection, asked.api, &asked.client_id)
    }

    fn passes_head(&self, connection: u64, api: ApiKey, client_id: &str) -> bool {
        self.connection.is_none_or(|wanted| wanted == connection)
            && self.api.is_none_or(|wanted| wanted == api)
            && self.client_id.as_ref().is_none_or(|wanted| wanted == client_id)
    }
}
