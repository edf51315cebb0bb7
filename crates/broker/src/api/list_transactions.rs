//! ListTransactions 0-2: the transactional ids that pass filters (T-232, T-233).

use super::describe_transactions::status_name;
use crate::authorizer::Resource;
use crate::context::Context;
use crate::session::Session;
use ottla_core::transactions::{Transaction, TransactionFilter};
use ottla_types::acl::Operation;
use ottla_types::record::TransactionStatus;
use ottla_types::{Millis, ProducerId};
use ottla_wire::messages::list_transactions_response::TransactionState;
use ottla_wire::messages::{ListTransactionsRequest, ListTransactionsResponse};
use ottla_wire::{ErrorCode, Text};
use regex_lite::Regex;

/// The states that occur in this broker.
const STATUSES: [TransactionStatus; 4] = [
    TransactionStatus::Empty,
    TransactionStatus::Ongoing,
    TransactionStatus::CompleteCommit,
    TransactionStatus::CompleteAbort,
];

/// Kafka's other states. They are known as filters, but no transaction is ever in them here.
const NEVER: [&str; 4] = ["PrepareCommit", "PrepareAbort", "PrepareEpochFence", "Dead"];

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: ListTransactionsRequest,
    _version: i16,
) -> Result<ListTransactionsResponse, super::AnswerError> {
    let Ok(pattern) = pattern(request.transactional_id_pattern.as_deref()) else {
        let error_code = ErrorCode::INVALID_REGULAR_EXPRESSION.0;
        return Ok(ListTransactionsResponse { error_code, ..Default::default() });
    };
    let producer_ids: Vec<ProducerId> = request.producer_id_filters.iter().map(ProducerId).collect();
    let filter = TransactionFilter {
        statuses: (!request.state_filters.is_empty()).then(|| statuses(&request.state_filters)),
        producer_ids: (!producer_ids.is_empty()).then_some(producer_ids),
        longer_than: (request.duration_filter >= 0).then_some(Millis(request.duration_filter)),
    };
    let matches = move |transaction: &&Transaction| {
        let id = transaction.state().transactional_id.as_str();
        pattern.as_ref().is_none_or(|pattern| pattern.is_match(id))
    };
    let look = ctx.shards.transactions().read(move |shard, now| {
        shard.transactions().list(&filter, now).filter(matches).map(listed).collect()
    });
    let mut transaction_states: Vec<TransactionState> = look.await?;
    // S-357: ids that the client may not describe are not shown.
    let rights = ctx.rights(session);
    transaction_states.retain(|state| {
        rights.probes(Operation::Describe, Resource::TransactionalId(&state.transactional_id))
    });
    Ok(ListTransactionsResponse {
        transaction_states,
        unknown_state_filters: request.state_filters.into_iter().filter(is_unknown).collect(),
        ..Default::default()
    })
}

/// The pattern that the whole transactional id must match; none if every id passes.
fn pattern(given: Option<&str>) -> Result<Option<Regex>, regex_lite::Error> {
    match given {
        None | Some("") => Ok(None),
        Some(pattern) => {
            Regex::new(pattern)?;
            Regex::new(&format!("^(?:{pattern})$")).map(Some)
        }
    }
}

fn statuses(names: &[Text]) -> Vec<TransactionStatus> {
    STATUSES.into_iter().filter(|status| names.iter().any(|name| *name == status_name(*status))).collect()
}

fn is_unknown(name: &Text) -> bool {
    let known = STATUSES.into_iter().map(status_name).chain(NEVER);
    !known.into_iter().any(|known| *name == known)
}

fn listed(transaction: &Transaction) -> TransactionState {
    let state = transaction.state();
    TransactionState {
        transactional_id: state.transactional_id.as_str().into(),
        producer_id: state.producer_id.0,
        transaction_state: Text::from_static(status_name(state.status)),
        ..Default::default()
    }
}
