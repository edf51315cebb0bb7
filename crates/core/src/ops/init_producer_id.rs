//! InitProducerId: a producer gets its id and epoch.

use crate::effect::Effects;
use crate::refusal::{Facts, Refused};
use crate::shard::Shard;
use crate::transaction::{InitError, Initialised};
use ottla_types::{Millis, ProducerEpoch, ProducerId};

/// Asks for a producer id, or for the next epoch of a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitProducerId {
    /// The transactional id; none for a producer that is only idempotent.
    pub transactional_id: Option<String>,
    /// Transaction timeout in milliseconds.
    pub timeout: Millis,
    /// Producer id and epoch that the client has (KIP-360).
    pub given: Option<(ProducerId, ProducerEpoch)>,
}

/// Producer id and epoch of the producer.
pub type InitProducerIdReply = Result<(ProducerId, ProducerEpoch), Refused<InitError>>;

impl Shard {
    pub(crate) fn init_producer_id(
        &mut self,
        now: Millis,
        ask: &InitProducerId,
        out: &mut Effects,
    ) -> InitProducerIdReply {
        let Some(transactional_id) = &ask.transactional_id else {
            return Ok((self.transactions.fresh_producer_id(out), ProducerEpoch(0)));
        };
        match self.transactions.init(now, transactional_id, ask.timeout, ask.given, out)? {
            Initialised::Owner(producer_id, epoch) => Ok((producer_id, epoch)),
            Initialised::Fence(decision) => {
                let (producer_id, epoch) = decision.owner();
                self.end(decision, out);
                Err(Refused::by("T-33", InitError::Concurrent, Facts::Aborted { producer_id, epoch }))
            }
        }
    }
}
