//! DescribeTransactions 0: the state of transactional ids (T-231).

use super::authorization::{TRANSACTIONAL_ID_DENIED, Verdict, take_denied};
use super::partition_lookup::OFFSETS_TOPIC;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::Shard;
use ottla_core::transactions::Transaction;
use ottla_types::acl::Operation;
use ottla_types::record::TransactionStatus;
use ottla_wire::messages::describe_transactions_response::{TopicData, TransactionState};
use ottla_wire::messages::{DescribeTransactionsRequest, DescribeTransactionsResponse};
use ottla_wire::{ErrorCode, Text};
use std::collections::BTreeMap;

/// S-356: DESCRIBE on each transactional id. Topics that the client may not describe are not shown.
pub(crate) fn authorize(
    request: &mut DescribeTransactionsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<DescribeTransactionsResponse> {
    let denied = take_denied(&mut request.transactional_ids, |id| {
        rights.allows(Operation::Describe, Resource::TransactionalId(id))
    });
    Verdict::without(denied, |response: &mut DescribeTransactionsResponse, denied| {
        let row = |transactional_id| TransactionState {
            transactional_id,
            error_code: TRANSACTIONAL_ID_DENIED,
            ..Default::default()
        };
        response.transaction_states.extend(denied.into_iter().map(row));
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: DescribeTransactionsRequest,
    _version: i16,
) -> Result<DescribeTransactionsResponse, super::AnswerError> {
    let look = ctx
        .shards
        .transactions()
        .read(move |shard, _| request.transactional_ids.into_iter().map(|id| describe(shard, id)).collect());
    let mut transaction_states: Vec<TransactionState> = look.await?;
    let rights = ctx.rights(session);
    for state in &mut transaction_states {
        state.topics.retain(|topic| rights.probes(Operation::Describe, Resource::Topic(&topic.topic)));
    }
    Ok(DescribeTransactionsResponse { transaction_states, ..Default::default() })
}

fn describe(shard: &Shard, transactional_id: Text) -> TransactionState {
    let known = shard.transactions().get(&transactional_id);
    let Some(transaction) = known else {
        let code = if transactional_id.is_empty() {
            ErrorCode::INVALID_REQUEST
        } else {
            ErrorCode::TRANSACTIONAL_ID_NOT_FOUND
        };
        return TransactionState { error_code: code.0, transactional_id, ..Default::default() };
    };
    let state = transaction.state();
    TransactionState {
        transactional_id,
        transaction_state: Text::from_static(status_name(state.status)),
        transaction_timeout_ms: i32::try_from(state.timeout.0).unwrap_or(i32::MAX),
        transaction_start_time_ms: state.started.0,
        producer_id: state.producer_id.0,
        producer_epoch: state.epoch.0,
        topics: topics(shard, transaction),
        ..Default::default()
    }
}

fn topics(shard: &Shard, transaction: &Transaction) -> Vec<TopicData> {
    let mut by_name = BTreeMap::<&str, Vec<i32>>::new();
    for at in transaction.partitions() {
        if let Some(topic) = shard.catalog().topic(at.topic) {
            by_name.entry(&topic.name).or_default().push(at.partition);
        }
    }
    if !transaction.offset_partitions().is_empty() {
        by_name.insert(OFFSETS_TOPIC, transaction.offset_partitions().iter().copied().collect());
    }
    let data = |(name, partitions): (&str, Vec<i32>)| TopicData {
        topic: name.into(),
        partitions: partitions.into_iter().collect(),
        ..Default::default()
    };
    by_name.into_iter().map(data).collect()
}

/// Kafka's name of a state.
pub(super) fn status_name(status: TransactionStatus) -> &'static str {
    match status {
        TransactionStatus::Empty => "Empty",
        TransactionStatus::Ongoing => "Ongoing",
        TransactionStatus::CompleteCommit => "CompleteCommit",
        TransactionStatus::CompleteAbort => "CompleteAbort",
    }
}
