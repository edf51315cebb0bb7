//! The end of a transaction in one record: EndTxn, an administrator's abort, the timeout.

use super::command::{AbortTransaction, AbortTransactionReply, EndError, EndTxn, EndTxnReply, NotOpen};
use super::{MarkerContext, Transactions};
use crate::effect::Effects;
use crate::refusal::{Facts, Rejection};
use ottla_types::Millis;
use ottla_types::record::TransactionStatus;

impl Transactions {
    /// EndTxn (T-100 to T-109).
    pub(super) fn end_txn(
        &mut self,
        now: Millis,
        command: &EndTxn,
        markers: MarkerContext<'_>,
        out: &mut Effects,
    ) -> EndTxnReply {
        let refused = |error, facts| Rejection::by("T-100", error, facts);
        if command.transactional_id.is_empty() {
            return Err(refused(EndError::NoId, Facts::None));
        }
        let known = self.table.get(&command.transactional_id);
        let known = known.ok_or_else(|| refused(EndError::UnknownProducer, Facts::UnknownId))?;
        let decision = known.judge_end(command, self.ids.end_context(now, self.coordinator_epoch, out))?;
        let Some(decision) = decision else {
            return Ok((known.state.producer_id, known.state.epoch));
        };
        let owner = decision.next_owner();
        out.append(decision.into_record(markers));
        Ok(owner)
    }

    /// An administrator aborts an open transaction, as its timeout would later (T-140, T-141).
    pub(super) fn abort_transaction(
        &mut self,
        now: Millis,
        command: &AbortTransaction,
        markers: MarkerContext<'_>,
        out: &mut Effects,
    ) -> AbortTransactionReply {
        let known = self.table.get(&command.transactional_id).ok_or(NotOpen)?;
        let state = &known.state;
        let named = (command.producer_id, command.producer_epoch, command.started);
        if state.status != TransactionStatus::Ongoing
            || named != (state.producer_id, state.epoch, state.started)
        {
            return Err(NotOpen);
        }
        let decision = known.abort(self.ids.end_context(now, self.coordinator_epoch, out));
        out.append(decision.into_record(markers));
        Ok(())
    }

    /// Aborts the transaction that has been overdue for longest, with the bump of version 2 (T-140).
    pub(super) fn abort_overdue(&mut self, now: Millis, markers: MarkerContext<'_>, out: &mut Effects) {
        let Some((due, transactional_id)) = self.open.first() else { return };
        if *due >= now {
            return;
        }
        let Some(known) = self.table.get(transactional_id) else { return };
        let decision = known.abort(self.ids.end_context(now, self.coordinator_epoch, out));
        out.append(decision.into_record(markers));
    }
}
