//! Producer ids: taken in blocks from the log, so that none is ever handed out twice (T-22).

use super::transaction::EndContext;
use crate::effect::Effects;
use ottla_types::record::{LogRecord, ProducerIdsReserved, TransactionRecord};
use ottla_types::{Millis, ProducerId};

/// Ids per block: one record of the log covers so many.
const BLOCK: i64 = 1000;

/// The ids that are free.
#[derive(Debug)]
pub(super) struct ProducerIds {
    /// The first id outside all reserved blocks; durable.
    reserved: ProducerId,
    /// The next id of the block at hand and the block's end; forgotten with the process, and the rest of the block with
    /// it.
    next: i64,
    end: i64,
}

impl ProducerIds {
    pub(super) fn new() -> ProducerIds {
        ProducerIds { reserved: ProducerId(0), next: 0, end: 0 }
    }

    /// An id that was never handed out. Reserves a block first if none is at hand.
    pub(super) fn take(&mut self, out: &mut Effects) -> ProducerId {
        if self.next == self.end {
            self.next = self.reserved.0.max(self.end);
            self.end = self.next + BLOCK;
            out.append(ProducerIdsReserved { next: ProducerId(self.end) });
        }
        let id = ProducerId(self.next);
        self.next += 1;
        id
    }

    /// The source of a producer id for a decision to end a transaction, if it needs one.
    pub(super) fn end_context<'a>(
        &'a mut self,
        now: Millis,
        coordinator_epoch: i32,
        out: &'a mut Effects,
    ) -> EndContext<impl FnOnce() -> ProducerId + 'a> {
        EndContext { now, coordinator_epoch, fresh: || self.take(out) }
    }

    pub(super) fn apply(&mut self, reserved: &ProducerIdsReserved) {
        self.reserved = self.reserved.max(reserved.next);
    }

    /// A record of the last step was refused, perhaps that of the block at hand: its ids must not be handed out.
    pub(super) fn refused(&mut self) {
        if self.end > self.reserved.0 {
            (self.next, self.end) = (0, 0);
        }
    }

    pub(super) fn snapshot(&self, rows: &mut Vec<LogRecord>) {
        if self.reserved > ProducerId(0) {
            rows.push(LogRecord::Transactions(TransactionRecord::ProducerIdsReserved(ProducerIdsReserved {
                next: self.reserved,
            })));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Effect;

    fn reserved(out: &mut Effects) -> Vec<ProducerIdsReserved> {
        let only = |effect| match effect {
            Effect::Append(LogRecord::Transactions(TransactionRecord::ProducerIdsReserved(reserved))) => {
                reserved
            }
            other => panic!("{other:?}"),
        };
        out.drain().map(only).collect()
    }

    #[test]
    fn t_22_no_id_comes_twice_across_restarts() {
        let mut ids = ProducerIds::new();
        let mut out = Effects::default();
        let taken: Vec<_> = (0..3).map(|_| ids.take(&mut out)).collect();
        assert_eq!(taken, [ProducerId(0), ProducerId(1), ProducerId(2)]);
        let records = reserved(&mut out);
        assert_eq!(records, [ProducerIdsReserved { next: ProducerId(1000) }]);
        let mut restarted = ProducerIds::new();
        restarted.apply(&records[0]);
        assert_eq!(restarted.take(&mut out), ProducerId(1000));
    }

    #[test]
    fn t_22_a_used_up_block_is_followed_by_the_next() {
        let mut ids = ProducerIds::new();
        let mut out = Effects::default();
        for expected in 0..2 * BLOCK + 1 {
            assert_eq!(ids.take(&mut out), ProducerId(expected));
            for record in reserved(&mut out) {
                ids.apply(&record);
            }
        }
    }
}
