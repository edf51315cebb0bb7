//! InitProducerId: a producer gets its id and epoch.

use super::command::{InitError, InitProducerId, InitProducerIdReply};
use super::transaction::{Init, Transaction};
use super::{MarkerContext, Transactions};
use crate::effect::Effects;
use crate::refusal::{Facts, Rejection};
use ottla_types::record::TransactionUpdated;
use ottla_types::{Millis, ProducerEpoch};

impl Transactions {
    pub(super) fn init_producer_id(
        &mut self,
        now: Millis,
        command: &InitProducerId,
        markers: MarkerContext<'_>,
        out: &mut Effects,
    ) -> InitProducerIdReply {
        match &command.transactional_id {
            None => Ok((self.ids.take(out), ProducerEpoch(0))),
            Some(transactional_id) => self.init(now, transactional_id, command, (markers, out)),
        }
    }

    /// InitProducerId with a transactional id (T-23 to T-34).
    fn init(
        &mut self,
        now: Millis,
        transactional_id: &str,
        command: &InitProducerId,
        (markers, out): (MarkerContext<'_>, &mut Effects),
    ) -> InitProducerIdReply {
        let (timeout, given) = (command.timeout, command.given);
        if transactional_id.is_empty() {
            return Err(Rejection::by("T-23", InitError::NoId, Facts::None));
        }
        if timeout.0 <= 0 || timeout > self.max_timeout {
            let facts = Facts::Bounds { given: timeout.0, least: 1, most: self.max_timeout.0 };
            return Err(Rejection::by("T-25", InitError::BadTimeout, facts));
        }
        let state = match self.table.get(transactional_id) {
            None => Transaction::created(transactional_id.to_owned(), self.ids.take(out), timeout, now),
            Some(known) => match known.init(given, timeout, now, || self.ids.take(out))? {
                Init::Become(state) => state,
                Init::Fence => {
                    let decision = known.abort(self.ids.end_context(now, self.coordinator_epoch, out));
                    let (producer_id, epoch) = decision.owner;
                    out.append(decision.into_record(markers));
                    return Err(Rejection::by(
                        "T-33",
                        InitError::Concurrent,
                        Facts::Aborted { producer_id, epoch },
                    ));
                }
            },
        };
        let owner = (state.producer_id, state.epoch);
        out.append(TransactionUpdated { state, partitions: Vec::new(), offset_partitions: Vec::new() });
        Ok(owner)
    }
}
