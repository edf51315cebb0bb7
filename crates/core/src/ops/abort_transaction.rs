//! An administrator aborts an open transaction: as its timeout would, only earlier (T-140, T-141).

use crate::effect::Effects;
use crate::shard::Shard;
use ottla_types::{Millis, ProducerEpoch, ProducerId};

/// Asks for the abort of exactly this transaction. One that took its place meanwhile is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortTransaction {
    /// The transactional id.
    pub transactional_id: String,
    /// Its producer.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: ProducerEpoch,
    /// When the transaction started.
    pub started: Millis,
}

/// There is no such transaction: the id is unknown, or the transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOpen;

/// The reply to [`AbortTransaction`].
pub type AbortTransactionReply = Result<(), NotOpen>;

impl Shard {
    pub(crate) fn abort_transaction(
        &mut self,
        now: Millis,
        ask: &AbortTransaction,
        out: &mut Effects,
    ) -> AbortTransactionReply {
        let decision = self.transactions.abort(now, ask, out);
        decision.map(|decision| self.end(decision, out)).ok_or(NotOpen)
    }
}
