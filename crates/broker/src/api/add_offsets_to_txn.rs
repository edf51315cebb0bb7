//! AddOffsetsToTxn 0-4: adds the offsets of a group to a transaction (T-150 to T-153).

use super::add_partitions_to_txn::code;
use super::authorization::{GROUP_DENIED, TRANSACTIONAL_ID_DENIED, Verdict};
use super::subject::TransactionalId;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_core::transactions::AddOffsetsToTxn;
use ottla_core::transactions::{TransactionCheck, TransactionClaim};
use ottla_types::acl::Operation;
use ottla_types::{ProducerEpoch, ProducerId};
use ottla_wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

/// S-330: WRITE on the transactional id, READ on the group.
pub(crate) fn authorize(
    request: &mut AddOffsetsToTxnRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<AddOffsetsToTxnResponse> {
    let refused = |error_code| Verdict::Refused(AddOffsetsToTxnResponse { error_code, ..Default::default() });
    if !rights.allows(Operation::Write, Resource::TransactionalId(&request.transactional_id)) {
        return refused(TRANSACTIONAL_ID_DENIED);
    }
    if !rights.allows(Operation::Read, Resource::Group(&request.group_id)) {
        return refused(GROUP_DENIED);
    }
    Verdict::Allowed
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: AddOffsetsToTxnRequest,
    version: i16,
) -> Result<AddOffsetsToTxnResponse, super::AnswerError> {
    let claim = TransactionClaim {
        transactional_id: String::from(&request.transactional_id),
        producer_id: ProducerId(request.producer_id),
        producer_epoch: ProducerEpoch(request.producer_epoch),
        check: TransactionCheck::Add,
    };
    let group_id = String::from(&request.group_id);
    let result = ctx
        .shards
        .of_transactional_id(&request.transactional_id)
        .submit(AddOffsetsToTxn { claim, group_id })
        .await?;
    let Err(refusal) = result else { return Ok(AddOffsetsToTxnResponse::default()) };
    let code = code(refusal.error, version);
    ctx.refused(TransactionalId(&request.transactional_id), code, &refusal);
    Ok(AddOffsetsToTxnResponse { error_code: code.0, ..Default::default() })
}
