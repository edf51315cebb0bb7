//! What ListTransactions and the offsets topic's numbering need.

use super::{Transaction, Transactions};
use ottla_types::record::TransactionStatus;
use ottla_types::{Millis, ProducerId};

/// Which transactions to list; all conditions must hold (T-233).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// States, if only some are wanted; an empty list matches none.
    pub statuses: Option<Vec<TransactionStatus>>,
    /// Producer ids, if only some are wanted.
    pub producer_ids: Option<Vec<ProducerId>>,
    /// Only those that started longer ago than this. An id that never started a transaction passes (as in Kafka).
    pub longer_than: Option<Millis>,
}

impl TransactionFilter {
    fn matches(&self, transaction: &Transaction, now: Millis) -> bool {
        let state = transaction.state();
        let status = self.statuses.as_ref().is_none_or(|wanted| wanted.contains(&state.status));
        let producer = self.producer_ids.as_ref().is_none_or(|wanted| wanted.contains(&state.producer_id));
        let duration = self.longer_than.is_none_or(|span| now.since(state.started) > span);
        status && producer && duration
    }
}

impl Transactions {
    /// The transactions a filter lets through, by transactional id.
    pub fn list<'a>(
        &'a self,
        filter: &'a TransactionFilter,
        now: Millis,
    ) -> impl Iterator<Item = &'a Transaction> {
        self.iter().filter(move |transaction| filter.matches(transaction, now))
    }
}
