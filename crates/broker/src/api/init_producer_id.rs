//! InitProducerId 0-5: gives a producer its id and epoch (T-20 to T-39).
//! Left out: two-phase commit (version 6 is not stable in Kafka either).

use super::authorization::Verdict;
use super::subject::{Reason, TransactionalId};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::transactions::InitError;
use ottla_core::transactions::InitProducerId;
use ottla_types::acl::Operation;
use ottla_types::{Millis, ProducerEpoch, ProducerId};
use ottla_wire::ErrorCode;
use ottla_wire::messages::{InitProducerIdRequest, InitProducerIdResponse};

/// S-325, S-326: WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic.
pub(crate) fn authorize(
    request: &mut InitProducerIdRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<InitProducerIdResponse> {
    let (allowed, code) = match &request.transactional_id {
        Some(id) => (
            rights.allows(Operation::Write, Resource::TransactionalId(id)),
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        None => (
            rights.allows_on_any_topic(Operation::Write)
                || rights.allows(Operation::IdempotentWrite, Resource::Cluster),
            ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
        ),
    };
    Verdict::when(allowed, || refused(code))
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: InitProducerIdRequest,
    version: i16,
) -> Result<InitProducerIdResponse, super::AnswerError> {
    let (producer_id, epoch) = (ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch));
    let given = match (producer_id, epoch) {
        (ProducerId::NONE, ProducerEpoch::NONE) => None,
        (ProducerId::NONE, _) | (_, ProducerEpoch::NONE) => {
            let why = Reason(Some("T-21"), "producer id and epoch are given both or not at all");
            ctx.refused("", ErrorCode::INVALID_REQUEST, &why);
            return Ok(refused(ErrorCode::INVALID_REQUEST));
        }
        both => Some(both),
    };
    let transactional_id = request.transactional_id.as_ref().map(String::from);
    let timeout = Millis(request.transaction_timeout_ms.into());
    Ok(match ctx.shards.transactions().submit(InitProducerId { transactional_id, timeout, given }).await? {
        Ok((producer_id, epoch)) => InitProducerIdResponse {
            producer_id: producer_id.0,
            producer_epoch: epoch.0,
            ..Default::default()
        },
        Err(refusal) => {
            let code = code(refusal.error, version);
            ctx.refused(TransactionalId(&request.transactional_id.unwrap_or_default()), code, &refusal);
            refused(code)
        }
    })
}

/// T-37: a response with an error has no id and no epoch.
fn refused(code: ErrorCode) -> InitProducerIdResponse {
    InitProducerIdResponse { error_code: code.0, producer_id: -1, producer_epoch: -1, ..Default::default() }
}

fn code(error: InitError, version: i16) -> ErrorCode {
    match error {
        InitError::NoId => ErrorCode::INVALID_REQUEST,
        InitError::BadTimeout => ErrorCode::INVALID_TRANSACTION_TIMEOUT,
        // T-38
        InitError::Fenced if version <= 3 => ErrorCode::INVALID_PRODUCER_EPOCH,
        InitError::Fenced => ErrorCode::PRODUCER_FENCED,
        InitError::Concurrent => ErrorCode::CONCURRENT_TRANSACTIONS,
    }
}
