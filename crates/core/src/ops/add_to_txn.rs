//! AddPartitionsToTxn and AddOffsetsToTxn: partitions join a transaction.

use crate::effect::Effects;
use crate::hash::offsets_partition;
use crate::refusal::Refused;
use crate::shard::Shard;
use crate::transaction::{TransactionCheck, TransactionClaim, TransactionError};
use ottla_types::{Millis, TopicPartition};

/// Adds data partitions to a transaction, or verifies that they are in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddPartitionsToTxn {
    /// In whose transaction, and whether to add or to verify.
    pub claim: TransactionClaim,
    /// The partitions; the caller has checked that they exist (T-82).
    pub partitions: Vec<TopicPartition>,
}

/// Adds a group's partition of the offsets topic to a transaction (T-151).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddOffsetsToTxn {
    /// In whose transaction.
    pub claim: TransactionClaim,
    /// The group; it need not exist (T-150).
    pub group_id: String,
}

/// A result for each partition of [`AddPartitionsToTxn`], in order.
pub type AddPartitionsToTxnReply = Vec<Result<(), Refused<TransactionError>>>;
/// The reply to [`AddOffsetsToTxn`].
pub type AddOffsetsToTxnReply = Result<(), Refused<TransactionError>>;

impl Shard {
    /// Adding is all or nothing (T-84); verifying answers for each partition (T-72).
    pub(crate) fn add_partitions(
        &self,
        now: Millis,
        ask: &AddPartitionsToTxn,
        out: &mut Effects,
    ) -> AddPartitionsToTxnReply {
        match ask.claim.check {
            TransactionCheck::Add => {
                let added = self.admit(now, &ask.claim, &ask.partitions, &[], out);
                vec![added; ask.partitions.len()]
            }
            TransactionCheck::Verify => {
                let verify = |at: &TopicPartition| self.admit(now, &ask.claim, &[*at], &[], out);
                ask.partitions.iter().map(verify).collect()
            }
        }
    }

    pub(crate) fn add_offsets(
        &self,
        now: Millis,
        ask: &AddOffsetsToTxn,
        out: &mut Effects,
    ) -> AddOffsetsToTxnReply {
        let partition = offsets_partition(&ask.group_id, self.catalog.settings().offsets_partitions);
        self.admit(now, &ask.claim, &[], &[partition], out)
    }

    /// Lets a producer work in its transaction with these data partitions and partitions of the offsets topic; what must be in
    /// the log before that is appended here (T-65, T-163).
    pub(crate) fn admit(
        &self,
        now: Millis,
        claim: &TransactionClaim,
        data: &[TopicPartition],
        offsets: &[i32],
        out: &mut Effects,
    ) -> Result<(), Refused<TransactionError>> {
        let record = self.transactions.admit(now, claim, data, offsets)?;
        record.into_iter().for_each(|record| out.append(record));
        Ok(())
    }
}
