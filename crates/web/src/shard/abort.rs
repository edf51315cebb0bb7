//! The command that aborts an open transaction.

use ottla_broker::Context;
use ottla_broker::host::HostGone;
use ottla_core::transactions::{AbortTransaction, NotOpen};
use ottla_types::{Millis, ProducerEpoch, ProducerId};

/// The transaction to abort, named so exactly that no later transaction of the same id is aborted instead.
pub(crate) struct Target {
    pub(crate) transactional_id: String,
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    /// When the transaction started, in milliseconds since 1970.
    pub(crate) started_ms: i64,
}

/// Aborts the transaction, and waits until the abort is durable. Returns false if no such transaction is open.
///
/// # Errors
/// The host has stopped.
pub(crate) async fn abort(broker: &Context, target: Target) -> Result<bool, HostGone> {
    let command = AbortTransaction {
        transactional_id: target.transactional_id,
        producer_id: ProducerId(target.producer_id),
        producer_epoch: ProducerEpoch(target.epoch),
        started: Millis(target.started_ms),
    };
    match broker.shards().transactions().submit(command).await? {
        Ok(()) => Ok(true),
        Err(NotOpen) => Ok(false),
    }
}
