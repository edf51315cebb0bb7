//! EndTxn: a transaction commits or aborts, in one record.

use crate::effect::Effects;
use crate::refusal::Refused;
use crate::shard::Shard;
use crate::transaction::{Decision, End, EndError, EndOutcome};
use ottla_types::{Millis, ProducerEpoch, ProducerId};

/// Asks for the end of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndTxn {
    /// The transactional id.
    pub transactional_id: String,
    /// Who ends it, and how.
    pub end: End,
}

/// Producer id and epoch of the client's next transaction (T-104, T-105).
pub type EndTxnReply = Result<(ProducerId, ProducerEpoch), Refused<EndError>>;

impl Shard {
    pub(crate) fn end_txn(&mut self, now: Millis, ask: &EndTxn, out: &mut Effects) -> EndTxnReply {
        match self.transactions.end(now, &ask.transactional_id, ask.end, out)? {
            EndOutcome::Replayed(producer_id, epoch) => Ok((producer_id, epoch)),
            EndOutcome::Now(decision) => {
                let owner = decision.next_owner();
                self.end(decision, out);
                Ok(owner)
            }
        }
    }

    /// Writes the end of a transaction: its marker takes the next offset of each of its partitions that still exist (T-130).
    pub(crate) fn end(&self, decision: Decision, out: &mut Effects) {
        let offset_of = |at| self.partitions.get(at).map(|partition| (at, partition.next_offset()));
        let partitions = decision.partitions().iter().copied().filter_map(offset_of).collect();
        out.append(decision.into_record(partitions, |now| self.wall(now)));
    }
}
