//! AddPartitionsToTxn 0-5: adds partitions to a transaction (T-80 to T-87). Versions 4 and 5 are for brokers: several
//! transactions, and verification without adding.

use super::authorization::{CLUSTER_DENIED, TOPIC_DENIED, TRANSACTIONAL_ID_DENIED, TopicChecks, Verdict};
use super::partition_lookup;
use super::subject::{self, Partition, Reason, TransactionalId};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::Rejection;
use ottla_core::catalog::is_internal;
use ottla_core::transactions::AddPartitionsToTxn;
use ottla_core::transactions::{TransactionCheck, TransactionClaim, TransactionError};
use ottla_types::acl::Operation;
use ottla_types::{ProducerEpoch, ProducerId, TopicPartition};
use ottla_wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use ottla_wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use ottla_wire::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};
use ottla_wire::{ErrorCode, Text, Uuid};

/// S-328, S-329: WRITE on the transactional id and on each topic; if one topic is denied, the others are not attempted.
/// Versions 4 and 5 are for brokers and need CLUSTER_ACTION on the cluster.
pub(crate) fn authorize(
    request: &mut AddPartitionsToTxnRequest,
    rights: &Rights<'_>,
    version: i16,
) -> Verdict<AddPartitionsToTxnResponse> {
    if version >= 4 {
        let allowed = rights.allows(Operation::ClusterAction, Resource::Cluster);
        return Verdict::when(allowed, || AddPartitionsToTxnResponse {
            error_code: CLUSTER_DENIED,
            ..Default::default()
        });
    }
    let id = Resource::TransactionalId(&request.v3_and_below_transactional_id);
    let topics = &request.v3_and_below_topics;
    if !rights.allows(Operation::Write, id) {
        return Verdict::Refused(refused_topics(topics, |_| TRANSACTIONAL_ID_DENIED));
    }
    let mut checks = TopicChecks::new(rights, Operation::Write);
    // Topics that the broker keeps for itself are refused like denied ones.
    let mut denies = |name: &Text| is_internal(name) || !checks.allows(name);
    let denied: Vec<&Text> = topics.iter().map(|topic| &topic.name).filter(|name| denies(name)).collect();
    Verdict::when(denied.is_empty(), || {
        refused_topics(topics, |name| {
            if denied.contains(&name) {
                TOPIC_DENIED
            } else if rights.access().knows_topic(name) {
                ErrorCode::OPERATION_NOT_ATTEMPTED.0
            } else {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0
            }
        })
    })
}

fn refused_topics(
    topics: &[AddPartitionsToTxnTopic],
    code: impl Fn(&Text) -> i16,
) -> AddPartitionsToTxnResponse {
    let topic = |topic: &AddPartitionsToTxnTopic| {
        let partition = |partition_index| AddPartitionsToTxnPartitionResult {
            partition_index,
            partition_error_code: code(&topic.name),
            ..Default::default()
        };
        AddPartitionsToTxnTopicResult {
            name: topic.name.clone(),
            results_by_partition: topic.partitions.iter().map(partition).collect(),
            ..Default::default()
        }
    };
    let results_by_topic_v3_and_below = topics.iter().map(topic).collect();
    AddPartitionsToTxnResponse { results_by_topic_v3_and_below, ..Default::default() }
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: AddPartitionsToTxnRequest,
    version: i16,
) -> Result<AddPartitionsToTxnResponse, super::AnswerError> {
    if version <= 3 {
        let only = AddPartitionsToTxnTransaction {
            transactional_id: request.v3_and_below_transactional_id,
            producer_id: request.v3_and_below_producer_id,
            producer_epoch: request.v3_and_below_producer_epoch,
            topics: request.v3_and_below_topics,
            ..Default::default()
        };
        let results = one(ctx, &only, version).await?;
        return Ok(AddPartitionsToTxnResponse {
            results_by_topic_v3_and_below: results,
            ..Default::default()
        });
    }
    let mut results_by_transaction = Vec::with_capacity(request.transactions.len());
    for transaction in &request.transactions {
        results_by_transaction.push(AddPartitionsToTxnResult {
            transactional_id: transaction.transactional_id.clone(),
            topic_results: one(ctx, transaction, version).await?,
            ..Default::default()
        });
    }
    Ok(AddPartitionsToTxnResponse { results_by_transaction, ..Default::default() })
}

/// Adds the partitions of one transaction. If one partition cannot be added, none is (T-82).
async fn one(
    ctx: &Context,
    transaction: &AddPartitionsToTxnTransaction,
    version: i16,
) -> Result<Vec<AddPartitionsToTxnTopicResult>, super::AnswerError> {
    let asked: Vec<(Text, i32)> = transaction.topics.iter().flat_map(named).collect();
    let found = partition_lookup::find(ctx, asked.clone()).await?;
    let refusal = |((name, _), found): (&(Text, i32), &Option<TopicPartition>)| {
        if version <= 3 && is_internal(name) {
            ErrorCode::TOPIC_AUTHORIZATION_FAILED
        } else if found.is_none() {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        } else {
            ErrorCode::OPERATION_NOT_ATTEMPTED
        }
    };
    let refusals: Vec<ErrorCode> = asked.iter().zip(&found).map(refusal).collect();
    let codes = if refusals.iter().all(|code| *code == ErrorCode::OPERATION_NOT_ATTEMPTED) {
        add(ctx, transaction, (&asked, found.into_iter().flatten().collect()), version).await?
    } else {
        for ((topic, partition), code) in asked.iter().zip(&refusals) {
            let why = match *code {
                ErrorCode::TOPIC_AUTHORIZATION_FAILED => "clients may not add internal topics",
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => "there is no such partition",
                _ => "not attempted, because another partition cannot be added",
            };
            ctx.refused(Partition(topic, Uuid::ZERO, *partition), *code, &Reason(Some("T-82"), why));
        }
        refusals
    };
    Ok(by_topic(&transaction.topics, codes))
}

async fn add(
    ctx: &Context,
    transaction: &AddPartitionsToTxnTransaction,
    (asked, partitions): (&[(Text, i32)], Vec<TopicPartition>),
    version: i16,
) -> Result<Vec<ErrorCode>, super::AnswerError> {
    let check = if transaction.verify_only { TransactionCheck::Verify } else { TransactionCheck::Add };
    let claim = TransactionClaim {
        transactional_id: String::from(&transaction.transactional_id),
        producer_id: ProducerId(transaction.producer_id),
        producer_epoch: ProducerEpoch(transaction.producer_epoch),
        check,
    };
    let results = ctx
        .shards
        .of_transactional_id(&transaction.transactional_id)
        .submit(AddPartitionsToTxn { claim, partitions })
        .await?;
    let judge = |(result, (topic, partition)): (Result<(), Rejection<TransactionError>>, &(Text, i32))| {
        let Err(refusal) = result else { return ErrorCode::NONE };
        let code = code(refusal.error, version);
        let subject =
            (Partition(topic, Uuid::ZERO, *partition), TransactionalId(&transaction.transactional_id));
        ctx.refused(subject::In(subject.0, subject.1), code, &refusal);
        code
    };
    Ok(results.into_iter().zip(asked).map(judge).collect())
}

fn named(topic: &AddPartitionsToTxnTopic) -> impl Iterator<Item = (Text, i32)> {
    topic.partitions.iter().map(|partition| (topic.name.clone(), partition))
}

fn by_topic(topics: &[AddPartitionsToTxnTopic], codes: Vec<ErrorCode>) -> Vec<AddPartitionsToTxnTopicResult> {
    let mut codes = codes.into_iter();
    let topic = |topic: &AddPartitionsToTxnTopic| AddPartitionsToTxnTopicResult {
        name: topic.name.clone(),
        results_by_partition: topic
            .partitions
            .iter()
            .zip(codes.by_ref())
            .map(|(partition_index, code)| AddPartitionsToTxnPartitionResult {
                partition_index,
                partition_error_code: code.0,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    topics.iter().map(topic).collect()
}

/// The error code of a refusal, also for AddOffsetsToTxn (T-85, T-151, T-152).
pub(super) fn code(error: TransactionError, version: i16) -> ErrorCode {
    match error {
        TransactionError::NoId => ErrorCode::INVALID_REQUEST,
        TransactionError::UnknownProducer => ErrorCode::INVALID_PRODUCER_ID_MAPPING,
        TransactionError::Fenced if version <= 1 => ErrorCode::INVALID_PRODUCER_EPOCH,
        TransactionError::Fenced => ErrorCode::PRODUCER_FENCED,
        TransactionError::NotInTransaction if version <= 3 => ErrorCode::INVALID_TXN_STATE,
        TransactionError::NotInTransaction => ErrorCode::TRANSACTION_ABORTABLE,
    }
}
