//! AddPartitionsToTxn and AddOffsetsToTxn: partitions join a transaction.

use super::Transactions;
use super::command::{
    AddOffsetsToTxn, AddOffsetsToTxnReply, AddPartitionsToTxn, AddPartitionsToTxnReply, TransactionCheck,
    TransactionClaim, TransactionError,
};
use crate::effect::Effects;
use crate::hash::offsets_partition;
use crate::refusal::{Facts, Rejection};
use ottla_types::{Millis, TopicPartition};

impl Transactions {
    /// Adding is all or nothing (T-84); verifying has a result for each partition (T-72).
    pub(super) fn add_partitions(
        &self,
        now: Millis,
        command: &AddPartitionsToTxn,
        out: &mut Effects,
    ) -> AddPartitionsToTxnReply {
        match command.claim.check {
            TransactionCheck::Add => {
                let added = self.admit(now, &command.claim, (&command.partitions, &[]), out);
                vec![added; command.partitions.len()]
            }
            TransactionCheck::Verify => {
                let verify = |at: &TopicPartition| self.admit(now, &command.claim, (&[*at], &[]), out);
                command.partitions.iter().map(verify).collect()
            }
        }
    }

    /// `offsets_partitions` is the number of partitions of the offsets topic.
    pub(super) fn add_offsets(
        &self,
        now: Millis,
        command: &AddOffsetsToTxn,
        offsets_partitions: i32,
        out: &mut Effects,
    ) -> AddOffsetsToTxnReply {
        let partition = offsets_partition(&command.group_id, offsets_partitions);
        self.admit(now, &command.claim, (&[], &[partition]), out)
    }

    /// Lets a producer work in its transaction with these data partitions and partitions of the offsets topic; appends
    /// what must be in the log before that (T-65, T-163).
    pub(crate) fn admit(
        &self,
        now: Millis,
        claim: &TransactionClaim,
        (data, offsets): (&[TopicPartition], &[i32]),
        out: &mut Effects,
    ) -> Result<(), Rejection<TransactionError>> {
        let refused = |error, facts| Rejection::by(claim.rule(), error, facts);
        if claim.transactional_id.is_empty() {
            return Err(refused(TransactionError::NoId, Facts::None));
        }
        let unknown = || refused(TransactionError::UnknownProducer, Facts::UnknownId);
        let known = self.table.get(&claim.transactional_id).ok_or_else(unknown)?;
        let added = known.admit(claim, data, offsets, now)?;
        added.into_iter().for_each(|record| out.append(record));
        Ok(())
    }
}
