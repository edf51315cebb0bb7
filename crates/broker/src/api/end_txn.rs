//! EndTxn 0-5: commits or aborts a transaction (T-100 to T-109). Version 5 raises the epoch (transaction version 2).

use super::authorization::{TRANSACTIONAL_ID_DENIED, Verdict};
use super::subject::TransactionalId;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::transactions::EndError;
use ottla_core::transactions::EndTxn;
use ottla_types::acl::Operation;
use ottla_types::{ProducerEpoch, ProducerId};
use ottla_wire::ErrorCode;
use ottla_wire::messages::{EndTxnRequest, EndTxnResponse};

/// S-331: WRITE on the transactional id.
pub(crate) fn authorize(
    request: &mut EndTxnRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<EndTxnResponse> {
    let id = Resource::TransactionalId(&request.transactional_id);
    Verdict::when(rights.allows(Operation::Write, id), || EndTxnResponse {
        error_code: TRANSACTIONAL_ID_DENIED,
        ..Default::default()
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: EndTxnRequest,
    version: i16,
) -> Result<EndTxnResponse, super::AnswerError> {
    let end = EndTxn {
        transactional_id: String::from(&request.transactional_id),
        producer_id: ProducerId(request.producer_id),
        producer_epoch: ProducerEpoch(request.producer_epoch),
        commit: request.committed,
        bump: version >= 5,
    };
    Ok(match ctx.shards.of_transactional_id(&request.transactional_id).submit(end).await? {
        Ok((producer_id, epoch)) if version >= 5 => {
            EndTxnResponse { producer_id: producer_id.0, producer_epoch: epoch.0, ..Default::default() }
        }
        Ok(_) => EndTxnResponse::default(),
        Err(refusal) => {
            let code = code(refusal.error, version);
            ctx.refused(TransactionalId(&request.transactional_id), code, &refusal);
            EndTxnResponse { error_code: code.0, ..Default::default() }
        }
    })
}

fn code(error: EndError, version: i16) -> ErrorCode {
    match error {
        EndError::NoId => ErrorCode::INVALID_REQUEST,
        EndError::UnknownProducer => ErrorCode::INVALID_PRODUCER_ID_MAPPING,
        EndError::Fenced if version <= 1 => ErrorCode::INVALID_PRODUCER_EPOCH,
        EndError::Fenced => ErrorCode::PRODUCER_FENCED,
        EndError::InvalidState => ErrorCode::INVALID_TXN_STATE,
    }
}
